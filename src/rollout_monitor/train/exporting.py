"""Writes the files of an embedded model and checks them: torch and onnxruntime must agree, step by step.

backbone.onnx   pictures to features
text.onnx       word ids to the task's vector
head.onnx       one step: features, joints, task and state to answers and the next state
weights.npz     text encoder and head as arrays, for `rollout-monitor adapt`; no pickle
model.json      what the model is, its vocabulary, its figures, the hashes of the files

The first four are what the hashes are of.
"""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from rollout_monitor.errors import ModelError, RolloutMonitorError
from rollout_monitor.prm.backbone import CELLS, CHANNELS, open_session
from rollout_monitor.prm.files import DESCRIPTION, read_description, sha256_of
from rollout_monitor.prm.network import FORMAT
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.train.network import Network, Size

FloatArray = npt.NDArray[np.float32]
TOLERANCE = 1e-4
FILES = ("backbone.onnx", "head.onnx", "text.onnx", "weights.npz")
OUTPUTS = ("progress", "success", "direction", "subtask")
OPSET = 18


def export_model(
    network: Network, vocabulary: Vocabulary, backbone: Path, folder: Path, about: dict[str, Any]
) -> dict[str, Any]:
    """Write a model's folder and check the exported head on random inputs.

    Args:
        network: in evaluation mode.
        vocabulary: its words.
        backbone: ``backbone.onnx`` that its features came from.
        folder: made if missing; files of an older model there are replaced.
        about: what else `model.json` says: name, rate_hz, memory_mb, decided_by_probability, joint_orders, ...

    Returns:
        What ``model.json`` holds.

    Raises:
        RolloutMonitorError: exported and torch outputs differ by more than `TOLERANCE`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if backbone.resolve() != (folder / "backbone.onnx").resolve():
        shutil.copyfile(backbone, folder / "backbone.onnx")
    _export(network, folder)
    with (folder / "weights.npz").open("wb") as file:
        np.savez_compressed(
            file, allow_pickle=False, **{name: value.numpy() for name, value in network.state_dict().items()}
        )
    difference = check_export(network, folder)
    return write_description(
        folder,
        {
            "format": FORMAT,
            "size": asdict(network.head.size),
            "state_size": network.head.size.state,
            "subtasks": network.head.size.subtasks,
            "vocabulary": list(vocabulary.words),
            "picture": {"height": 224, "width": 224, "resize": "area, whole frame", "dtype": "uint8 RGB"},
            "export_difference": difference,
            **about,
        },
    )


def load_network(folder: Path) -> tuple[Network, Vocabulary, dict[str, Any]]:
    """A model's folder back as a network to go on training.

    Raises:
        ModelError: a file is missing or damaged, or the folder holds no weights.
    """
    description = read_description(folder)
    try:
        vocabulary = Vocabulary(tuple(description["vocabulary"]))
        network = Network(len(vocabulary.words), Size(**description["size"]))
        with np.load(folder / "weights.npz", allow_pickle=False) as arrays:
            network.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelError(f"{folder} cannot be trained on: its weights do not load ({error}); restore it") from error
    network.eval()
    return network, vocabulary, description


def _export(network: Network, folder: Path) -> None:
    """Write ``text.onnx`` and ``head.onnx``; the recurrent state is an input and an output of the head."""
    words = torch.zeros((1, 5), dtype=torch.int64)
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
        inputs = ["grid", "present", "joints", "task", "state"]
        outputs = [*OUTPUTS, "next_state"]
        torch.onnx.export(
            network.head,
            tuple(torch.from_numpy(value) for value in _random_step(network, 0).values()),
            str(folder / "head.onnx"),
            input_names=inputs,
            output_names=outputs,
            dynamic_axes={name: {0: "n"} for name in (*inputs, *outputs)},
            opset_version=OPSET,
            dynamo=False,
        )


def _random_step(network: Network, seed: int, present: tuple[float, float, float] = (1, 1, 1)) -> dict[str, FloatArray]:
    rng = np.random.default_rng(seed)
    size = network.head.size

    def drawn(*shape: int) -> FloatArray:
        return rng.standard_normal(shape, dtype=np.float32)

    return {
        "grid": drawn(1, 2, CHANNELS, CELLS, CELLS),
        "present": np.array([present], dtype=np.float32),
        "joints": drawn(1, size.joints),
        "task": np.tanh(drawn(1, size.task)),
        "state": np.tanh(drawn(1, size.state)),
    }


def check_export(network: Network, folder: Path, steps: int = 12) -> float:
    """Stream random steps, with views and joints coming and going, through exported head and torch.

    Returns:
        The largest difference over all outputs and states.

    Raises:
        RolloutMonitorError: it is above `TOLERANCE`.
    """
    text, head = (open_session(folder / name, 1) for name in ("text.onnx", "head.onnx"))
    words = np.arange(1, 7, dtype=np.int64)[None] % network.text.words.num_embeddings
    (task,) = text.run(["task"], {"words": words})
    with torch.no_grad():
        wanted = network.text(torch.from_numpy(words))
    worst = float(np.abs(task - wanted.numpy()).max())
    state = np.zeros((1, network.head.size.state), dtype=np.float32)
    for step in range(steps):
        present = (1.0, float(step % 3 != 1), float(step % 2))
        inputs = {**_random_step(network, step, present), "task": task, "state": state}
        said = head.run([*OUTPUTS, "next_state"], inputs)
        with torch.no_grad():
            true = network.head(*(torch.from_numpy(value) for value in inputs.values()))
        worst = max([worst, *(float(np.abs(a - b.numpy()).max()) for a, b in zip(said, true, strict=True))])
        state = said[-1]
    # Several rollouts in one step, as offline scoring asks.
    several = [_random_step(network, number) for number in range(3)]
    both = {name: np.concatenate([one[name] for one in several]) for name in several[0]}
    apart = [head.run(["progress"], one)[0] for one in several]
    worst = max(worst, float(np.abs(head.run(["progress"], both)[0] - np.concatenate(apart)).max()))
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
