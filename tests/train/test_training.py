"""The new network on synthetic takes: every stage learns, a stopped run goes on, the export agrees; extra [train]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("torch", reason="the extra [train] is not installed (pip install 'rollout-monitor[train]')")
pytest.importorskip("onnx", reason="the extra [train] is not installed (pip install 'rollout-monitor[train]')")

import torch

from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.prm.backbone import CELLS, CHANNELS
from rollout_monitor.prm.posture import FEATURES
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train.adapting import (
    AdaptRecipe,
    adapt_network,
    check_takes,
    folds_of,
    held_out,
    there_and_back,
)
from rollout_monitor.train.batches import Mix, pad
from rollout_monitor.train.cell_takes import CellTake, TimeLabels, curve_by_time
from rollout_monitor.train.exporting import TOLERANCE, export_model, load_network
from rollout_monitor.train.fitting import GLANCE, MEMORY, WHOLE, FitSettings, fit
from rollout_monitor.train.glances import Asked
from rollout_monitor.train.labels import DETAILS, FLAGS, GOALS, PLACES, TaskLabels, labels_of
from rollout_monitor.train.network import Network, Size
from rollout_monitor.train.remembering import told_of

SMALL = Size(word=8, text=8, goal=8, cell=8, key=6, view=16, joints=FEATURES, posture=8, glance=16, state=24)
VOCABULARY = Vocabulary(("cube", "lift", "put", "red", "the"))
TEXT = "lift the red cube"


def pictures_of(progress: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Features in which a bright cell climbs the picture as progress grows."""
    grid = np.zeros((len(progress), 2, CHANNELS, CELLS, CELLS), dtype=np.float32)
    for row, value in enumerate(progress):
        grid[row, :, :4, round((1 - value) * (CELLS - 1)), CELLS // 2] = 3.0
    return grid


@dataclass
class Climb:
    """A take in which something climbs evenly; what a network was told of it instead of features where it is given."""

    told: npt.NDArray[np.float16] | None = None
    frames: int = 20
    has_joints: bool = True
    task: str = "lift:red"

    @property
    def progress(self) -> npt.NDArray[np.float64]:
        return np.linspace(0.0, 1.0, self.frames)

    @property
    def joints(self) -> npt.NDArray[np.float32]:
        return np.repeat(self.progress[:, None], FEATURES, axis=1).astype(np.float32)

    @property
    def words(self) -> npt.NDArray[np.int64]:
        return VOCABULARY.encode(TEXT)[0]

    @property
    def goals(self) -> TaskLabels:
        return labels_of(self.task)

    def draw(self, rng: np.random.Generator, mix: Mix, vocabulary: Vocabulary) -> Climb:
        return self

    def views(self, path: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return pictures_of(self.progress[path]) if self.told is None else self.told[path].astype(np.float32)

    def shown(self, path: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        out = np.zeros((len(path), 2, PLACES, 3), dtype=np.float32)
        out[..., :2, 1] = (1.0 - 2.0 * self.progress[path])[:, None, None]
        out[..., :2, 2] = 1.0
        return out

    def judge(self, task: str, path: npt.NDArray[np.int64]) -> TimeLabels:
        progress = self.progress[path]
        return TimeLabels(progress, progress > 0.95, np.zeros(len(path), dtype=np.int64))

    def details(self, task: str, path: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        progress = self.progress[path]
        out = np.full((len(path), GOALS, DETAILS), np.nan, dtype=np.float32)
        out[:, 0, :FLAGS] = 0.0
        out[:, 0, 0] = progress > 0.5
        out[:, 0, FLAGS] = 0.3 - 0.3 * progress
        return out


class ClimbScene:
    """The same as a scene whose moments are looked at."""

    has_joints = True

    def __init__(self) -> None:
        self.climb = Climb()
        self.joints = self.climb.joints

    def ask(self, rng: np.random.Generator, moments: int, tasks: int) -> Asked:
        chosen = ["lift:red", *("in:red:bin",) * (tasks - 1)]
        texts = [TEXT if task == "lift:red" else "put the red cube" for task in chosen]
        path = rng.integers(self.climb.frames, size=moments)
        return Asked(0, path, chosen, texts, [labels_of(task) for task in chosen])

    def grid(self, look: int, path: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return self.climb.views(path)

    def details(self, task: str, path: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return self.climb.details(task, path)

    def shown(self, look: int, task: str, path: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return self.climb.shown(path)


def network() -> Network:
    torch.manual_seed(1)
    return Network(len(VOCABULARY.words), SMALL)


def settings(stage: str, steps: int = 120) -> FitSettings:
    return FitSettings(stage, steps, 4, 12, 5e-3, seed=3, checkpoint_every=10)


def sources(stage: str, net: Network) -> list[Climb] | list[ClimbScene]:
    if stage == GLANCE:
        return [ClimbScene()] * 4
    if stage == WHOLE:
        return [Climb()] * 4
    net.eval()
    climb = Climb()
    (told,) = told_of(net, pictures_of(climb.progress), climb.joints, climb.words, [(1, 1, 1)])
    return [Climb(told)] * 4


@pytest.mark.parametrize("stage", [GLANCE, MEMORY, WHOLE])
def test_the_loss_of_every_stage_falls(stage: str) -> None:
    net = network()
    losses = fit(net, sources(stage, net), VOCABULARY, settings(stage))
    # What remembers has only the glimpses of an untrained network to learn from.
    assert np.mean(losses[-10:]) < (0.9 if stage == MEMORY else 0.8) * np.mean(losses[:10])


def test_stages_train_what_is_theirs() -> None:
    for stage in (GLANCE, MEMORY):
        net = network()
        before = {name: value.clone() for name, value in net.state_dict().items()}
        fit(net, sources(stage, net), VOCABULARY, settings(stage, 3))
        moved = {name for name, value in net.state_dict().items() if not torch.equal(value, before[name])}
        remembers = {name for name in before if name.startswith(("head.rnn", "head.trunk", "head.direction"))}
        assert remembers <= moved if stage == MEMORY else not remembers & moved
        assert any(name.startswith("head.readers") for name in moved) is (stage == GLANCE)


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole = fit(network(), [Climb()] * 4, VOCABULARY, settings(WHOLE, 20), tmp_path / "whole.pt")

    class StopError(Exception):
        pass

    def stop(step: int, _loss: float) -> None:
        if step == 14:
            raise StopError

    with pytest.raises(StopError):
        fit(network(), [Climb()] * 4, VOCABULARY, settings(WHOLE, 20), tmp_path / "fit.pt", report=stop)
    resumed = fit(network(), [Climb()] * 4, VOCABULARY, settings(WHOLE, 20), tmp_path / "fit.pt")
    np.testing.assert_allclose(resumed, whole, rtol=1e-5)


def test_the_export_agrees_and_can_be_trained_on(tmp_path: Path, root: Path) -> None:
    net = network()
    fit(net, [Climb()] * 4, VOCABULARY, settings(WHOLE, 20))
    backbone = root / "models" / "embedded" / "backbone.onnx"
    about = {"name": "tiny", "rate_hz": 5.0, "memory_mb": 1.0, "decided_by_probability": False, "joint_orders": {}}
    written = export_model(net, VOCABULARY, backbone, tmp_path / "model", about)
    assert written["export_difference"] <= TOLERANCE
    back, vocabulary, description = load_network(tmp_path / "model")
    assert vocabulary == VOCABULARY and description == written
    for name, value in net.state_dict().items():
        assert torch.equal(value, back.state_dict()[name]), name
    with (tmp_path / "model" / "weights.npz").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ModelError, match=r"weights\.npz"):
        load_network(tmp_path / "model")


def test_the_stream_is_the_sequence() -> None:
    """What is exported steps; what is trained reads whole sequences: the same answers."""
    net = network().eval()
    path = np.arange(12)
    grid, joints = torch.from_numpy(Climb().views(path)), torch.from_numpy(Climb().joints[path])
    present = torch.ones(12, 3)
    present[5:, 1], present[3:7, 2] = 0.0, 0.0
    with torch.no_grad():
        task = net.text(torch.from_numpy(VOCABULARY.encode(TEXT)[0])[None])
        tasks = task.expand(12, -1)
        seen, _ = net.head.see(grid, tasks)
        whole = net.head.remember(net.head.tell(net.head.glance(seen, present, joints, tasks), tasks)[None])
        state = torch.zeros(1, SMALL.state)
        for step in range(12):
            one = slice(step, step + 1)
            bins, success, direction, subtask, state = net.head(grid[one], present[one], joints[one], task, state)
            torch.testing.assert_close(bins[0], whole.progress[0, step].softmax(-1), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(success[0], whole.success[0, step].sigmoid(), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(direction[0], whole.direction[0, step].softmax(-1), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(subtask[0], whole.subtask[0, step].softmax(-1), atol=1e-5, rtol=1e-4)


# --- a user's cell ------------------------------------------------------------------------------------------------


def cell_take(number: int, success: bool) -> CellTake:
    """In this cell half the way up is already the goal."""
    top = 0.5 if success else 0.2
    steps = np.clip(pictures_of(np.linspace(0, top, 20)) * 32, -127, 127).astype(np.int8)
    joints = np.zeros((20, FEATURES), dtype=np.float32)
    return CellTake(
        f"t{number}", steps, joints, False, True, success, TEXT, ("put the red cube",), curve_by_time(20, success)
    )


TAKES = [cell_take(number, number % 3 != 0) for number in range(12)]
RECIPE = AdaptRecipe(fit=FitSettings(WHOLE, 240, 4, 12, 5e-3), folds=3)


def test_takes_that_cannot_support_an_adaptation_are_refused() -> None:
    check_takes(TAKES)
    with pytest.raises(InputError, match="9 takes are too few"):
        check_takes(TAKES[:9])
    with pytest.raises(InputError, match=r"12 successes and 0 failures.*record more failures"):
        check_takes([replace(take, success=True) for take in TAKES])


def test_folds_hold_every_take_out_once_with_both_outcomes_spread() -> None:
    parts = folds_of(TAKES, 4)
    assert sorted(place for part in parts for place in part) == list(range(12))
    for part in parts:
        assert len(part) == 3 and sum(not TAKES[place].success for place in part) == 1


def test_adapting_leaves_the_base_alone_and_learns() -> None:
    base = network()
    fit(base, [Climb()] * 4, VOCABULARY, settings(WHOLE, 150))
    before = {name: value.clone() for name, value in base.state_dict().items()}
    adapted = adapt_network(base, VOCABULARY, TAKES, RECIPE)
    assert all(torch.equal(value, base.state_dict()[name]) for name, value in before.items())
    zero, fitted = (held_out([net] * len(TAKES), VOCABULARY, TAKES).figures() for net in (base, adapted))
    name = "progress against time, MAE, successes"
    assert fitted[name].value < 0.5 * zero[name].value
    assert fitted["success accuracy, by progress"].value >= zero["success accuracy, by progress"].value


def test_an_anchor_holds_the_weights() -> None:
    base = network().eval()
    free = adapt_network(base, VOCABULARY, TAKES, replace(RECIPE, fit=replace(RECIPE.fit, steps=20)))
    held = adapt_network(base, VOCABULARY, TAKES, replace(RECIPE, fit=replace(RECIPE.fit, steps=20, anchor=10.0)))

    def strayed(net: Network) -> float:
        pairs = zip(net.parameters(), base.parameters(), strict=True)
        return sum(float(((now - then) ** 2).sum().detach()) for now, then in pairs)

    assert strayed(held) < 0.5 * strayed(free)


def test_a_padded_text_is_read_as_the_text_alone() -> None:
    net = network().eval()
    short, long = VOCABULARY.encode("lift the cube")[0], VOCABULARY.encode(TEXT)[0]
    padded, lengths = pad([short, long])
    with torch.no_grad():
        together = net.text.task(net.text.parse(torch.from_numpy(padded), torch.from_numpy(lengths)))
        alone = torch.cat([net.text(torch.from_numpy(words)[None]) for words in (short, long)])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)


def test_there_and_back() -> None:
    path = there_and_back(TAKES[1])
    assert path[0] == path[-1] == 0 and path.max() == 19 and len(path) == 39
