"""Writes the files of the embedded model and checks them: torch and onnxruntime must agree, step by step."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rollout_monitor.errors import RolloutMonitorError
from rollout_monitor.prm.backbone import open_session
from rollout_monitor.prm.files import DESCRIPTION, sha256_of
from rollout_monitor.train.backbone import GRID_CHANNELS, OPSET
from rollout_monitor.train.features import Rollout
from rollout_monitor.train.fit import Network, run_head

TOLERANCE = 1e-4
FILES = ("backbone.onnx", "head.onnx", "text.onnx")


def export_network(network: Network, folder: Path) -> None:
    """Write ``text.onnx`` and ``head.onnx``; the recurrent state is an input and an output of the head."""
    size = network.head.size
    words = torch.zeros((1, 5), dtype=torch.int64)
    pooled, grid = torch.zeros(1, 2, 1280), torch.zeros(1, 2, GRID_CHANNELS, 14, 14)
    step = (pooled, grid, torch.ones(1, 2), torch.zeros(1, size.task), torch.zeros(1, size.state))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns about its own future
        torch.onnx.export(
            network.text,
            (words,),
            str(folder / "text.onnx"),
            input_names=["words"],
            output_names=["task"],
            dynamic_axes={"words": {1: "words"}},
            opset_version=OPSET,
            dynamo=False,
        )
        torch.onnx.export(
            network.head,
            step,
            str(folder / "head.onnx"),
            input_names=["pooled", "grid", "present", "task", "state"],
            output_names=["progress", "success", "direction", "next_state"],
            opset_version=OPSET,
            dynamo=False,
        )


def check_export(network: Network, folder: Path, rollout: Rollout, words: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """Stream a rollout through the exported head and compare with torch over the whole sequence.

    Returns:
        The largest difference over all outputs.

    Raises:
        RolloutMonitorError: it is above `TOLERANCE`.
    """
    text, head = (open_session(folder / name, 1) for name in ("text.onnx", "head.onnx"))
    (task,) = text.run(["task"], {"words": words[None]})
    state = np.zeros((1, network.head.size.state), dtype=np.float32)
    wanted = run_head(network, rollout, words)
    worst = 0.0
    for frame in range(len(rollout.states)):
        inputs = {
            "pooled": rollout.pooled[frame : frame + 1].astype(np.float32),
            "grid": rollout.grid[frame : frame + 1].astype(np.float32),
            "present": np.ones((1, 2), dtype=np.float32),
            "task": task,
            "state": state,
        }
        *answers, state = head.run(["progress", "success", "direction", "next_state"], inputs)
        for answer, name in zip(answers, ("bins", "success", "direction"), strict=True):
            worst = max(worst, float(np.abs(answer[0] - wanted[name][frame]).max()))
    if not worst <= TOLERANCE:
        raise RolloutMonitorError(f"the exported model differs from torch by {worst:.2e}, more than {TOLERANCE:.0e}")
    return worst


def write_description(folder: Path, description: dict[str, Any]) -> dict[str, Any]:
    """Write ``model.json`` with the hashes of the files beside it; returns what was written."""
    whole = {**description, "files": {name: sha256_of(folder / name) for name in FILES}}
    temporary = folder / f"{DESCRIPTION}.tmp"
    temporary.write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(folder / DESCRIPTION)
    return whole
