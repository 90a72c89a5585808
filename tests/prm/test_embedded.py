"""The embedded model as the monitor uses it: onnxruntime only, no torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.frames import FrameSet, RgbImage
from rollout_monitor.prm.embedded import EmbeddedModel, choose_views, summarise
from rollout_monitor.prm.files import MODELS_VARIABLE, hash_of_hashes, models_folder
from rollout_monitor.prm.protocol import Observation, ProgressModel

TASK = "stack the red cube on the green cube"
SWAPPED = "stack the green cube on the red cube"


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    return root / "models" / "embedded"


@pytest.fixture(scope="module")
def model(folder: Path) -> EmbeddedModel:
    return EmbeddedModel(folder)


@pytest.fixture(scope="module")
def pictures() -> list[RgbImage]:
    """A red and a green square that move over a grey table."""
    made = []
    for step in range(8):
        picture = np.full((240, 320, 3), 150, dtype=np.uint8)
        picture[120 - 8 * step : 150 - 8 * step, 140:170] = (190, 40, 40)
        picture[130:160, 60 + 10 * step : 90 + 10 * step] = (40, 150, 60)
        made.append(picture)
    return made


def play(model: ProgressModel, task: str, pictures: list[RgbImage], *, wrist: bool = True) -> list[Observation]:
    model.reset(task)
    answers = []
    for number, picture in enumerate(pictures):
        stamp = number * 200_000_000
        images = {"front": picture, "wrist": picture[::-1].copy()} if wrist else {"front": picture}
        answers.append(model.observe(FrameSet(stamp, images, dict.fromkeys(images, stamp))))
    return answers


def test_it_is_a_progress_model_with_a_card(model: EmbeddedModel, folder: Path) -> None:
    assert isinstance(model, ProgressModel)
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert model.card.name == description["name"]
    assert model.card.rate_hz == 5.0
    assert model.card.cameras == 2
    assert model.card.sha256 == hash_of_hashes(description["files"])
    assert len(model.card.sha256) == 64


def test_answers_are_ordered_and_bounded(model: EmbeddedModel, pictures: list[RgbImage]) -> None:
    for answer in play(model, TASK, pictures):
        assert answer.progress is not None and answer.lower is not None and answer.upper is not None
        assert answer.success_probability is not None
        assert 0.0 <= answer.lower <= answer.progress <= answer.upper <= 1.0
        assert 0.0 <= answer.success_probability <= 1.0


def test_state_streams_and_reset_forgets(model: EmbeddedModel, pictures: list[RgbImage]) -> None:
    whole = play(model, TASK, pictures)
    assert play(model, TASK, pictures) == whole  # the attempt before plays no part
    assert play(model, TASK, pictures[:4]) == whole[:4]  # nothing looks ahead
    last_alone = play(model, TASK, pictures[-1:])[0]
    assert last_alone.progress != whole[-1].progress  # what came before does play a part


def test_the_task_is_read(model: EmbeddedModel, pictures: list[RgbImage]) -> None:
    one, other = (np.array([a.progress for a in play(model, task, pictures)]) for task in (TASK, SWAPPED))
    assert np.abs(one - other).max() > 1e-3


def test_a_missing_wrist_camera_is_no_error(model: EmbeddedModel, pictures: list[RgbImage]) -> None:
    with_wrist, without = play(model, TASK, pictures), play(model, TASK, pictures, wrist=False)
    assert all(answer.progress is not None for answer in without)
    assert [a.progress for a in with_wrist] != [a.progress for a in without]


def test_unknown_words_are_told(model: EmbeddedModel) -> None:
    assert model.reset(TASK).notes == ()
    (note,) = model.reset("stack the red cube on the teapot").notes
    assert "'teapot'" in note and "'red'" not in note
    assert any("goal" in note for note in model.reset(TASK, goal=np.zeros((4, 4, 3), dtype=np.uint8)).notes)
    with pytest.raises(InputError, match="empty"):
        model.reset("  ")


def test_bad_pictures_are_refused(model: EmbeddedModel) -> None:
    model.reset(TASK)
    grey = np.zeros((240, 320), dtype=np.uint8)
    with pytest.raises(InputError, match=r"camera front has shape \(240, 320\)"):
        model.observe(FrameSet(0, {"front": grey}, {"front": 0}))
    with pytest.raises(InputError, match="no picture"):
        model.observe(FrameSet(0, {}, {}))


def test_observing_before_reset_is_an_error(folder: Path, pictures: list[RgbImage]) -> None:
    with pytest.raises(ModelError, match="not reset"):
        EmbeddedModel(folder).observe(FrameSet(0, {"front": pictures[0]}, {"front": 0}))


def test_views_are_chosen_by_order_and_name() -> None:
    one, two, three = (np.full((2, 2, 3), k, dtype=np.uint8) for k in range(3))
    primary, wrist = choose_views({"top": one, "side": two, "wrist_left": three})
    assert primary is one and wrist is three
    assert choose_views({"wrist": one})[1] is None  # the only camera is the primary one
    assert choose_views({"top": one, "eye_in_hand": two})[1] is two


def test_summaries_of_distributions() -> None:
    bins = np.zeros(50, dtype=np.float32)
    bins[10] = 1.0
    value, lower, upper = summarise(bins)
    assert 0.2 < lower < value < upper < 0.22
    value, lower, upper = summarise(np.full(50, 0.02, dtype=np.float32))
    assert (round(value, 3), round(lower, 3), round(upper, 3)) == (0.5, 0.05, 0.95)
    bins[3] = np.nan
    with pytest.raises(ModelError, match="NaN"):
        summarise(bins)


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "embedded"))


@pytest.mark.parametrize("name", ["model.json", "head.onnx", "text.onnx", "backbone.onnx"])
def test_a_missing_file_is_named(copied: Path, name: str) -> None:
    (copied / name).unlink()
    with pytest.raises(ModelError, match=rf"{name} is missing; restore"):
        EmbeddedModel(copied)


def test_a_damaged_file_is_named(copied: Path) -> None:
    data = bytearray((copied / "head.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (copied / "head.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=r"head\.onnx is damaged"):
        EmbeddedModel(copied)


def test_a_garbled_description_is_named(copied: Path) -> None:
    description = json.loads((copied / "model.json").read_text(encoding="utf-8"))
    (copied / "model.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match=r"model\.json cannot be read"):
        EmbeddedModel(copied)
    del description["vocabulary"]
    (copied / "model.json").write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(ModelError, match="vocabulary"):
        EmbeddedModel(copied)


def test_the_models_folder_can_be_elsewhere(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODELS_VARIABLE, str(copied.parent))
    assert EmbeddedModel().folder == copied
    monkeypatch.setenv(MODELS_VARIABLE, str(copied / "nowhere"))
    with pytest.raises(ModelError, match="ROLLOUT_MONITOR_MODELS points to it"):
        models_folder()


def test_it_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys; from rollout_monitor.prm.registry import create; "
        f"create('embedded', folder={str(folder)!r}); "
        "print([name for name in ('torch', 'robosuite', 'mujoco') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_files_are_small_enough(folder: Path) -> None:
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 40e6
