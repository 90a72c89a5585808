"""Where a training stands, in one file: a run that was stopped goes on from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch


def save(path: Path, key: dict[str, Any], parts: dict[str, Any], losses: list[float]) -> None:
    """Write a checkpoint, whole or not at all.

    Args:
        path: the file.
        key: what the training is: a checkpoint of another one is not gone on from.
        parts: network, optimiser and schedule by name.
        losses: of every step so far.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    torch.save({"key": key, "losses": losses, **{name: part.state_dict() for name, part in parts.items()}}, temporary)
    temporary.replace(path)


def resume(path: Path, key: dict[str, Any], parts: dict[str, Any]) -> list[float]:
    """Load a checkpoint of the same training; the losses so far, empty where there is none."""
    if not path.is_file():
        return []
    saved = torch.load(path, weights_only=True)
    if saved["key"] != key:
        return []
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    return list(saved["losses"])
