"""`rollout-monitor adapt` from its command line, on a network that is far too small; extra [train] but for one test."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollout_monitor.cli.main import main
from rollout_monitor.events import calibration
from rollout_monitor.prm.registry import create

NEEDED = ("torch", "onnx", "h5py")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
TASK = "put the red cube away"
FRAMES, FPS = 20, 10  # half of them are looked at

if not MISSING:
    sys.path.insert(0, str(Path(__file__).parents[1] / "store"))
    from take_making import make_hdf5, pictures

needs_training = pytest.mark.skipif(
    bool(MISSING), reason="the extra [train] is not installed (pip install 'rollout-monitor[train,takes]')"
)
Adapt = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """An untrained model's folder."""
    import torch  # noqa: PLC0415

    from rollout_monitor.prm.text import Vocabulary  # noqa: PLC0415
    from rollout_monitor.train.exporting import export_model  # noqa: PLC0415
    from rollout_monitor.train.network import Network, Size  # noqa: PLC0415

    torch.manual_seed(1)
    vocabulary = Vocabulary(("cube", "put", "red", "the"))
    size = Size(word=8, text=8, goal=8, cell=8, key=6, view=16, posture=8, glance=16, state=24)
    about = {"name": "tiny", "rate_hz": 5.0, "memory_mb": 1.0, "decided_by_probability": False, "joint_orders": {}}
    folder = tmp_path_factory.mktemp("models") / "base"
    backbone = root / "tests" / "prm" / "data" / "tiny_model" / "backbone.onnx"
    export_model(Network(len(vocabulary.words), size).eval(), vocabulary, backbone, folder, about)
    return folder


@pytest.fixture
def takes(tmp_path: Path) -> Path:
    """Seven successes and three failures."""
    for number in range(10):
        outcome = "fail" if number < 3 else "success"
        make_hdf5(tmp_path / "takes" / outcome / f"t{number}.hdf5", pictures(FRAMES, seed=number), store="vlen")
    return tmp_path / "takes"


@pytest.fixture
def adapt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Adapt:
    """Runs the command with a few steps of learning; returns its exit code and what it printed."""

    def run(folder: Path, *options: object, task: str = TASK) -> tuple[int, str]:
        words = ["adapt", "--episodes", folder, "--task", task, "--out", tmp_path / "out", "--jobs", 1, *options]
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return int(end.value.code or 0), said.out + said.err

    if not MISSING:
        from rollout_monitor.train import adapting, fitting  # noqa: PLC0415

        few = fitting.FitSettings(fitting.WHOLE, 4, 2, 6, 5e-3)
        monkeypatch.setattr(adapting, "AdaptRecipe", partial(adapting.AdaptRecipe, fit=few, folds=2))
    return run


def damage(path: Path, *frames: int) -> None:
    """Cut JPEGs of a take off."""
    import h5py  # noqa: PLC0415

    with h5py.File(path, "r+") as file:
        for frame in frames:
            file["/observations/images/front"][frame] = np.frombuffer(b"\xff\xd8cut", np.uint8)


@needs_training
def test_a_version_is_written_that_the_nodes_can_use(base: Path, takes: Path, adapt: Adapt, tmp_path: Path) -> None:
    damage(takes / "success" / "t5.hdf5", 4)
    code, said = adapt(takes, "--base", base)
    assert code == 0, said
    assert "words new to the model, read as unknown ones: away" in said
    assert "take success/t5: 1 of 10 frames of camera front do not decode" in said
    assert "7 successes, 3 failures; figures on takes held out" in said
    version = tmp_path / "out" / "v1"
    assert f"use it: prm_node model_path {version}, monitor_node calibration {version / 'calibration.json'}" in said
    card = create("embedded", path=version).card
    assert card.name == "tiny+put_the_red_cube_away-v1"
    found = calibration.load(version / "calibration.json")
    assert (found.task, found.model, found.model_hash, found.n) == (TASK, card.name, card.sha256, 7)
    about = json.loads((version / "model.json").read_text(encoding="utf-8"))["adapted"]
    assert [take["success"] for take in about["takes"]] == [False] * 3 + [True] * 7
    assert "7 successes and 3 failures" in (version / "ADAPTED.md").read_text(encoding="utf-8")

    before = {path: path.read_bytes() for path in version.iterdir()}
    assert adapt(takes, "--base", version)[0] == 0
    assert (tmp_path / "out" / "v2" / "model.json").exists()
    assert {path: path.read_bytes() for path in version.iterdir()} == before, "what is there stays"


def fewer(takes: Path) -> None:
    (takes / "success" / "t9.hdf5").unlink()


def one_failure_less(takes: Path) -> None:
    (takes / "fail" / "t0.hdf5").rename(takes / "success" / "t0.hdf5")


def unmarked(takes: Path) -> None:
    (takes / "fail" / "t1.hdf5").rename(takes / "t1.hdf5")


def unreadable(takes: Path) -> None:
    (takes / "fail" / "t2.hdf5").write_bytes(b"no HDF5")


def still(takes: Path) -> None:
    make_hdf5(takes / "success" / "t3.hdf5", pictures(FRAMES, still=True))


def short(takes: Path) -> None:
    make_hdf5(takes / "success" / "t4.hdf5", pictures(14))


def damaged(takes: Path) -> None:
    damage(takes / "success" / "t6.hdf5", 4, 8)


def gone(takes: Path) -> None:
    takes.rename(takes.with_name("elsewhere"))


@needs_training
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (fewer, "9 takes are too few to adapt to: record at least 10"),
        (one_failure_less, "8 successes and 2 failures: at least 3 of each are needed; record more failures"),
        (unmarked, "nobody said whether 1 of 10 takes succeeded: t1"),
        (unreadable, "fail/t2.hdf5"),
        (still, "t3.hdf5: take success/t3: camera front shows no motion"),
        (short, "t4.hdf5: take success/t4 has 7 usable frames at 5 Hz; at least 8 are needed"),
        (damaged, "t6.hdf5: take success/t6: 2 of 10 frames of camera front do not decode, more than 10%"),
        (gone, "expected a folder with takes"),
    ],
)
def test_takes_that_cannot_be_adapted_to_are_refused_in_a_line(
    base: Path, takes: Path, adapt: Adapt, tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    spoil(takes)
    code, text = adapt(takes, "--base", base)
    assert code == 2
    (line,) = [line for line in text.splitlines() if line.startswith("error:")]
    assert said in line
    assert not (tmp_path / "out").exists(), "nothing is written"


@needs_training
def test_takes_that_cannot_be_used_may_be_left_out(base: Path, takes: Path, adapt: Adapt) -> None:
    unreadable(takes)
    still(takes)
    code, text = adapt(takes, "--base", base, "--leave-out")
    assert code == 2 and "8 takes are too few" in text
    for name in ("t2", "t3"):
        assert [line for line in text.splitlines() if line.startswith("left out: ") and name in line], text


@needs_training
@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"--base": "takes"}, 1, "model.json is missing"),
        ({"--base": "unweighted"}, 1, "cannot be trained on: its weights do not load"),
        ({"--out": "file"}, 2, "is a file: name a folder for the model's versions (--out)"),
        ({"--labels": "labels.csv"}, 2, "labels.csv"),
        ({"--cameras": "top"}, 2, "camera 'top' is missing in 10 of 10 takes"),
        ({"task": "!"}, 2, "the task text is empty"),
        ({"--jobs": "0"}, 2, "--jobs"),
    ],
)
def test_wrong_options_are_refused_in_a_line(
    base: Path, takes: Path, adapt: Adapt, tmp_path: Path, options: dict[str, Any], code: int, said: str
) -> None:
    unweighted = tmp_path / "unweighted"
    unweighted.mkdir()
    for path in base.iterdir():
        if path.name != "weights.npz":
            (unweighted / path.name).write_bytes(path.read_bytes())
    about = json.loads((base / "model.json").read_text(encoding="utf-8"))
    del about["files"]["weights.npz"]
    (unweighted / "model.json").write_text(json.dumps(about), encoding="utf-8")
    (tmp_path / "file").touch()
    (tmp_path / "labels.csv").write_text("take,success\nnobody,true\n", encoding="utf-8")
    task = options.pop("task", TASK)
    paths = {name: value if name in ("--cameras", "--jobs") else tmp_path / value for name, value in options.items()}
    given = [word for pair in ({"--base": base} | paths).items() for word in pair]
    found, text = adapt(takes, *given, task=task)
    assert (found, said in text) == (code, True), text


@pytest.mark.skipif("torch" not in MISSING, reason="torch is installed here")
def test_without_torch_it_says_what_to_install(adapt: Adapt, tmp_path: Path) -> None:
    code, text = adapt(tmp_path)
    assert code == 1 and "adapting needs torch" in text and "pip install 'rollout-monitor[train]'" in text
