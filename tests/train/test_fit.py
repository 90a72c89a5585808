"""A tiny training run end to end; needs the extra [train]."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra [train] is not installed (pip install torch onnx)")
pytest.importorskip("onnx", reason="the extra [train] is not installed (pip install torch onnx)")

from rollout_monitor.train.backbone import GRID_CHANNELS
from rollout_monitor.train.export import TOLERANCE, check_export, export_network
from rollout_monitor.train.fit import FitSettings, Network, fit
from rollout_monitor.train.head import HeadSize
from tests.train.test_sequences import VOCABULARY, rollout

SMALL = HeadSize(word=8, task=12, key=8, queries=2, view=16, state=24)
SETTINGS = FitSettings(steps=30, batch=4, length=12, learning_rate=5e-3, seed=3, checkpoint_every=10)


def tiny(settings: FitSettings, checkpoint: Path) -> tuple[Network, list[float]]:
    return fit([rollout(channels=GRID_CHANNELS)] * 2, VOCABULARY, settings, SMALL, checkpoint)


def test_the_loss_falls_and_the_export_agrees(tmp_path: Path) -> None:
    network, losses = tiny(SETTINGS, tmp_path / "fit.pt")
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])
    export_network(network, tmp_path)
    words = VOCABULARY.encode("put the red cube on the green cube")[0]
    assert check_export(network, tmp_path, rollout(channels=GRID_CHANNELS), words) <= TOLERANCE


def test_a_stopped_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    _, whole = tiny(SETTINGS, tmp_path / "whole.pt")
    done: list[int] = []

    class StopError(Exception):
        pass

    def stop(step: int, _loss: float) -> None:
        done.append(step)
        if step == 24:
            raise StopError

    with pytest.raises(StopError):
        fit([rollout(channels=GRID_CHANNELS)] * 2, VOCABULARY, SETTINGS, SMALL, tmp_path / "fit.pt", stop)
    _, resumed = tiny(SETTINGS, tmp_path / "fit.pt")
    np.testing.assert_allclose(resumed, whole, rtol=1e-5)
