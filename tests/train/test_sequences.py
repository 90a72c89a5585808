"""Training sequences: true labels however they are played."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.generate import RolloutMeta
from rollout_monitor.sim.progress import SceneStart, SceneState
from rollout_monitor.sim.tasks import TASKS
from rollout_monitor.train.features import Rollout
from rollout_monitor.train.phrases import LIFT, LIFT_HELD_OUT, STACK, STACK_HELD_OUT, all_training_texts, fill
from rollout_monitor.train.sequences import Labels, make_batch, pad, playback, tasks_that_fit

VOCABULARY = Vocabulary.from_texts(all_training_texts(list(TASKS.values())))


def rollout(frames: int = 30, task: str = "stack_red_on_green", channels: int = 4) -> Rollout:
    """A red cube that is lifted straight up; features hold the frame's number."""
    red, green = np.array([0.0, 0.1, 0.82]), np.array([0.0, -0.1, 0.825])
    cubes = {"red": red} if task == "lift" else {"red": red, "green": green}
    first = SceneState(np.array([-0.2, 0.0, 1.0]), cubes, None, None, False)
    states = [first]
    for k in range(1, frames):
        up = red + np.array([0.0, 0.0, 0.1 * k / frames])
        states.append(SceneState(up, {**cubes, "red": up}, "red", None, False))
    number = np.arange(frames, dtype=np.float16)
    meta = RolloutMeta("one", task, "success", 1, "train", TASKS[task].text, "failure", frames, 6.0, 5.0)
    return Rollout(
        meta,
        np.tile(number[:, None, None], (1, 2, 1280)),
        np.tile(number[:, None, None, None, None], (1, 2, channels, 14, 14)),
        states,
        SceneStart(first, {"red": 0.02, "green": 0.025}, 0.8),
        [],
    )


@given(st.integers(0, 10**6), st.integers(1, 80), st.integers(1, 64))
def test_playback_stays_inside(seed: int, frames: int, steps: int) -> None:
    path = playback(np.random.default_rng(seed), frames, steps)
    assert 1 <= len(path) <= steps
    assert path.min() >= 0 and path.max() < frames


def test_playback_goes_back_and_forth() -> None:
    rng = np.random.default_rng(0)
    steps = np.concatenate([np.diff(playback(rng, 50, 64)) for _ in range(100)])
    assert (steps > 0).mean() > 0.3
    assert 0.1 < (steps < 0).mean() < 0.4


def test_labels_follow_the_frames_and_the_task() -> None:
    one = rollout()
    labels = Labels()
    tasks = {task.name: task for task in tasks_that_fit(one)}
    assert list(tasks) == ["stack_red_on_green", "lift", "stack_green_on_red"]
    batch = make_batch(np.random.default_rng(1), [one] * 12, labels, VOCABULARY, 40)
    for row in range(12):
        valid = batch.valid[row] > 0
        # The feature noise is 2 %: the frame's number can still be read from the grid, which has none.
        frames = batch.grid[row, valid, 0, 0, 0, 0].astype(int)
        options = [labels.of(one, task)[0][frames] for task in tasks.values()]
        assert any(np.allclose(batch.progress[row, valid], option, atol=1e-6) for option in options)
    assert not (batch.progress[:, :] > 1.0).any()


def test_a_lift_scene_has_one_task() -> None:
    assert [task.name for task in tasks_that_fit(rollout(task="lift"))] == ["lift"]


def test_padding_keeps_lengths() -> None:
    words, lengths = pad([np.array([3, 1]), np.array([2, 2, 5, 4])])
    assert lengths.tolist() == [2, 4]
    assert words.tolist() == [[3, 1, 0, 0], [2, 2, 5, 4]]


def test_test_phrasings_are_new_but_their_words_are_not() -> None:
    assert not set(LIFT) & set(LIFT_HELD_OUT)
    assert not set(STACK) & set(STACK_HELD_OUT)
    for template in (*LIFT_HELD_OUT, *STACK_HELD_OUT):
        assert VOCABULARY.encode(fill(template, TASKS["stack_red_on_green"]))[1] == ()
