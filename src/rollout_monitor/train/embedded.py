"""Trains and exports the embedded progress model: one command, one seed, resumable at every stage.

    python -m rollout_monitor.train.embedded --data data/sim --work data/train --out models/embedded

Stages: backbone with its projection, features of every frame (cached), fit, interval calibration, export and
comparison with torch, measurement, model card.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import shutil
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.judges import measures
from rollout_monitor.prm.backbone import Backbone
from rollout_monitor.prm.files import sha256_of
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.generate import RolloutMeta, write_index
from rollout_monitor.sim.tasks import TASKS
from rollout_monitor.train import card
from rollout_monitor.train.backbone import GRID_CHANNELS, FrozenBackbone, export_backbone, fit_projection
from rollout_monitor.train.export import check_export, export_network, write_description
from rollout_monitor.train.features import Rollout, cache_features, load_rollout, sample_pictures
from rollout_monitor.train.fit import FitSettings, Network, fit
from rollout_monitor.train.head import BINS, HeadSize
from rollout_monitor.train.phrases import all_training_texts

NAME = "embedded-1"
RATE_HZ = 5.0
PROJECTION_PICTURES = 512
PROJECTION_ROLLOUTS = 32
"""The projection is fitted on the first training rollouts: a growing data set keeps its cached features."""

MEMORY_MB = 120.0


@dataclass(frozen=True)
class Result:
    """What training gave."""

    losses: list[float]
    description: dict[str, Any]
    measured: card.Measured


def train(
    data: Path,
    work: Path,
    out: Path,
    settings: FitSettings | None = None,
    *,
    size: HeadSize | None = None,
    features_only: bool = False,
) -> Result | None:
    """Run every stage; what a stopped run finished is not done again.

    Args:
        data: data set folder of `rollout_monitor.sim.generate`.
        work: folder for cached features and checkpoints.
        out: folder of the model's files.
        settings: training length and seed.
        size: widths of the network.
        features_only: stop after caching features.

    Returns:
        The result, None with ``features_only``.

    Raises:
        InputError: the data set lacks a split, or has another frame rate.
        RolloutMonitorError: the exported model differs from torch.
    """
    settings, size = settings or FitSettings(), size or HeadSize()
    torch.set_num_threads(1)  # two are slower at this size
    metas = _check_data(data, write_index(data))
    backbone_file, difference = _backbone(data, metas, work, settings.seed)
    cache = work / f"features-{sha256_of(backbone_file)[:12]}"
    cache_features(data, metas, Backbone(backbone_file), cache, lambda n: _tell("features", n, len(metas), 20))
    if features_only:
        return None
    parts = {s: [load_rollout(data, cache, m) for m in metas if m.split == s] for s in ("train", "val", "test")}
    vocabulary = Vocabulary.from_texts(all_training_texts(list(TASKS.values())))
    network, losses = fit(
        parts["train"],
        vocabulary,
        settings,
        size,
        work / "fit.pt",
        lambda step, loss: _tell(f"fit (loss {loss:.3f})", step, settings.steps, 25),
    )
    temperature = card.calibrate(network, vocabulary, parts["val"])
    validation = measures.accuracy("probability")(card.ask_all(network, vocabulary, parts["val"]))
    description = {
        "name": NAME,
        "rate_hz": RATE_HZ,
        "state_size": size.state,
        "grid_channels": GRID_CHANNELS,
        "bins": BINS,
        "vocabulary": list(vocabulary.words),
        "picture": {"height": 224, "width": 224, "resize": "area, whole frame", "dtype": "uint8 RGB"},
        "memory_mb": MEMORY_MB,
        "decided_by_probability": validation >= card.RELIABLE,
        "temperature": temperature,
        "seed": settings.seed,
        "data": {
            "rollouts": len(metas),
            "first_seed": metas[0].seed,
            "last_seed": metas[-1].seed,
            "frame_rate_hz": RATE_HZ,
        },
    }
    return _finish(
        network,
        vocabulary,
        parts,
        (data, out, backbone_file),
        description,
        losses,
        {
            "words": len(vocabulary.words),
            "rollouts": len(metas),
            "first_seed": metas[0].seed,
            "last_seed": metas[-1].seed,
            "steps": settings.steps,
            "batch": settings.batch,
            "backbone_difference": difference,
            "validation_accuracy": validation,
            "reliable": card.RELIABLE,
            "metas": metas,
        },
    )


def _finish(
    network: Network,
    vocabulary: Vocabulary,
    parts: dict[str, list[Rollout]],
    places: tuple[Path, Path, Path],
    description: dict[str, Any],
    losses: list[float],
    extra: dict[str, Any],
) -> Result:
    """Export, compare, measure, write description and card."""
    data, out, backbone_file = places
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(backbone_file, out / "backbone.onnx")
    export_network(network, out)
    first = parts["test"][0]
    difference = check_export(network, out, first, vocabulary.encode(first.meta.text)[0])
    write_description(out, description)
    measured = card.measure(network, vocabulary, parts["test"], out, data)
    description = write_description(out, {**description, "measured": card.measured_json(measured)})
    metas = extra.pop("metas")
    card.write_card(out / "MODEL_CARD.md", {**description, **extra, "export_difference": difference}, measured, metas)
    return Result(losses, description, measured)


def _check_data(data: Path, metas: list[RolloutMeta]) -> list[RolloutMeta]:
    splits = {meta.split for meta in metas}
    if splits != {"train", "val", "test"}:
        raise InputError(f"data set {data} has the splits {sorted(splits)}; make at least ten rollouts in a row")
    for meta in metas:
        if meta.frame_rate_hz != RATE_HZ:
            raise InputError(
                f"{data}: {meta.id} has {meta.frame_rate_hz} Hz frames; generate with --frame-rate {RATE_HZ:g}"
            )
    return metas


def _backbone(data: Path, metas: list[RolloutMeta], work: Path, seed: int) -> tuple[Path, float]:
    """Make ``backbone.onnx`` in the work folder unless it is there; its path and difference from torch."""
    path, note = work / "backbone.onnx", work / "backbone.difference"
    if path.is_file() and note.is_file():
        return path, float(note.read_text(encoding="utf-8"))
    work.mkdir(parents=True, exist_ok=True)
    some = [meta for meta in metas if meta.split == "train"][:PROJECTION_ROLLOUTS]
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # the packages chat
        warnings.simplefilter("ignore")
        backbone = FrozenBackbone()
        kept = fit_projection(backbone, sample_pictures(data, some, PROJECTION_PICTURES, seed))
        difference = export_backbone(backbone, path)
    print(f"backbone: projection keeps {kept:.0%} of the variance, onnxruntime differs by {difference:.1e}", flush=True)
    if not difference <= 1e-4:
        path.unlink()
        raise RolloutMonitorError(f"the exported backbone differs from torch by {difference:.1e}")
    note.write_text(f"{difference}", encoding="utf-8")
    return path, difference


def _tell(what: str, done: int, total: int, every: int) -> None:
    if done % every == 0 or done == total:
        print(f"{what}: {done}/{total}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 fine, 1 the export failed, 2 bad input."""
    parser = argparse.ArgumentParser(description="Train and export the embedded progress model.")
    parser.add_argument(
        "--data", type=Path, default=Path("data/sim"), help="data set of `rollout-monitor sim generate`"
    )
    parser.add_argument("--work", type=Path, default=Path("data/train"), help="cached features and checkpoints")
    parser.add_argument("--out", type=Path, default=Path("models/embedded"), help="where the model's files go")
    parser.add_argument("--steps", type=int, default=FitSettings.steps, help="training steps")
    parser.add_argument("--seed", type=int, default=FitSettings.seed)
    parser.add_argument("--features-only", action="store_true", help="stop after caching features")
    given = parser.parse_args(arguments)
    try:
        settings = FitSettings(steps=given.steps, seed=given.seed)
        result = train(given.data, given.work, given.out, settings, features_only=given.features_only)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RolloutMonitorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if result is not None:
        for name, figure in result.measured.table.items():
            print(f"{name}: {figure}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
