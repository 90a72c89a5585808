"""Trains and exports the progress model of the simulated table: one command, one seed, resumable at every stage.

    python -m rollout_monitor.train --data data/sim --work data/train --out models/table

Stages: backbone with its projection, features of every frame (cached), seeing, remembering, interval calibration on the
validation takes, export and comparison with torch. `rollout-monitor qualify` measures it afterwards.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rollout_monitor.errors import InputError, RolloutMonitorError
from rollout_monitor.judges import measures
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tabletop.arms import JOINT_ORDERS
from rollout_monitor.sim.tabletop.files import TAKES, TakeRow, read_index
from rollout_monitor.sim.tabletop.phrases import training_texts
from rollout_monitor.train.batches import Mix
from rollout_monitor.train.examples import Example
from rollout_monitor.train.exporting import export_model
from rollout_monitor.train.fitting import GLANCE, MEMORY, FitSettings, fit
from rollout_monitor.train.measuring import ask, hear, judged_answers
from rollout_monitor.train.moments import PER_TAKE, MomentsExample, cache_moments
from rollout_monitor.train.network import Network, Size
from rollout_monitor.train.preparing import EMBEDDED, RATE_HZ, cache_features, make_backbone
from rollout_monitor.train.remembering import ToldTake, tell_all

NAME = "table-2"
MEMORY_MB = 200.0
COVERAGE = 0.90
RELIABLE = 0.90
"""Success accuracy on the validation takes from which the probability may decide the outcome."""


@dataclass(frozen=True)
class Recipe:
    """How a model is trained; the defaults are the released model's.

    Attributes:
        takes: training takes, from seed 0 on.
        moments: of every take, rearranged and seen anew, see `moments`; 0 for none.
        fresh: how many of them seeing knows by their moments alone: what is remembered must also fit takes that were
            not learned as they are.
        glance, memory: the two stages.
        mix: how sequences are made; its switches make the ablations.
        seed: of everything drawn.
        backbone: the frozen network, see `rollout_monitor.train.backbone.load_middle`.
    """

    takes: int = 1770
    moments: int = PER_TAKE
    fresh: int = 0
    glance: FitSettings = field(default_factory=lambda: FitSettings(GLANCE, 14000, 96, 1, 2e-3))
    memory: FitSettings = field(default_factory=lambda: FitSettings(MEMORY, 2500, 48, 44, 1.5e-3))
    mix: Mix = field(default_factory=Mix)
    seed: int = 0
    backbone: str = EMBEDDED


@dataclass(frozen=True)
class Trained:
    """A network and what belongs to it."""

    network: Network
    vocabulary: Vocabulary
    backbone: Path
    losses: dict[str, list[float]]


def train(
    data: Path,
    work: Path,
    recipe: Recipe,
    *,
    size: Size | None = None,
    name: str = "fit",
    jobs: int = 1,
    tell: Callable[[str], None] = print,
) -> Trained:
    """Train a network; what a stopped run finished is not done again.

    Args:
        data: data set of `rollout-monitor sim generate` with the plan ``train``.
        work: folder for features and checkpoints.
        recipe: how.
        size: widths of the network.
        name: of the checkpoints.
        jobs: processes that make features.
        tell: hears how far it is.

    Raises:
        InputError: the data set holds too few takes, or of another frame rate.
    """
    torch.set_num_threads(1)  # two are slower at this size
    rows = training_rows(data, recipe.takes)
    backbone = make_backbone(data, rows, work, recipe.seed, recipe.backbone)
    report = _every(tell, "features", 50, len(rows))
    cache = cache_features(data, rows, work, backbone, jobs=jobs, report=report)
    vocabulary = Vocabulary.from_texts(training_texts())
    examples = [Example.load(data / TAKES / row.id, cache / row.id) for row in rows]
    looked_at: list[Example] = examples[: len(examples) - recipe.fresh]
    if recipe.moments:
        report = _every(tell, "moments", 50, len(rows))
        cache = cache_moments(data, rows, work, backbone, count=recipe.moments, jobs=jobs, report=report)
        looked_at = looked_at + [MomentsExample.load(data / TAKES / row.id, cache / row.id) for row in rows]
    torch.manual_seed(recipe.seed)
    network = Network(len(vocabulary.words), size or Size())
    losses = {}
    losses[GLANCE] = fit(
        network,
        looked_at,
        vocabulary,
        recipe.glance,
        work / f"{name}-glance.pt",
        mix=replace(recipe.mix, rewinds=True),  # a single moment knows no rewinds
        report=_steps(tell, "seeing", recipe.glance.steps),
    )
    told = tell_of_all(network, vocabulary, examples, recipe, tell)
    losses[MEMORY] = fit(
        network,
        told,
        vocabulary,
        recipe.memory,
        work / f"{name}-memory.pt",
        mix=recipe.mix,
        report=_steps(tell, "remembering", recipe.memory.steps),
    )
    return Trained(network, vocabulary, backbone, losses)


def training_rows(data: Path, count: int) -> list[TakeRow]:
    """The first ``count`` training takes of a data set.

    Raises:
        InputError: there are fewer, or their frame rate is another one.
    """
    rows = sorted((row for row in read_index(data) if row.plan == "train"), key=lambda row: row.seed)[:count]
    if len(rows) < count or rows[-1].seed != count - 1:
        raise InputError(
            f"{data} holds {len(rows)} of {count} training takes: make them with "
            f"`rollout-monitor sim generate --out {data} --plan train --rollouts {count}`"
        )
    for row in rows:
        if row.frame_rate_hz != RATE_HZ:
            raise InputError(f"{data}: {row.id} has {row.frame_rate_hz} Hz frames; generate with {RATE_HZ:g} Hz")
    return rows


def tell_of_all(
    network: Network,
    vocabulary: Vocabulary,
    examples: Sequence[Example],
    recipe: Recipe,
    tell: Callable[[str], None] = print,
) -> list[ToldTake]:
    """What a network is told of every take, under its own and other instructions."""
    report, told = _every(tell, "looking", 100, len(examples)), []
    for number, example in enumerate(examples, start=1):
        told.append(tell_all(network, vocabulary, example, seed=recipe.seed, language=recipe.mix.language))
        report(number)
    return told


def calibrate(network: Network, vocabulary: Vocabulary, examples: Sequence[Example]) -> float:
    """Set the temperature to the smallest tried at which the 90 % interval covers 90 % of the validation frames."""
    network.head.temperature.fill_(1.0)
    heard = [hear(network, vocabulary, example) for example in examples]
    for temperature in np.geomspace(0.3, 4.0, 40):
        network.head.temperature.fill_(float(temperature))
        spread = [said._replace(progress=said.progress / float(temperature)) for said in heard]
        answers = [judged_answers(said, example) for said, example in zip(spread, examples, strict=True)]
        if measures.COVERAGE(answers) >= COVERAGE:
            break
    return float(network.head.temperature)


def finish(trained: Trained, data: Path, work: Path, out: Path, recipe: Recipe) -> dict[str, Any]:
    """Calibrate on the validation takes and export; returns what ``model.json`` holds."""
    rows = [row for row in read_index(data) if row.plan == "val"]
    if not rows:
        raise InputError(f"{data} holds no validation takes: make some with `rollout-monitor sim generate --plan val`")
    cache = cache_features(data, rows, work, trained.backbone)
    examples = [Example.load(data / TAKES / row.id, cache / row.id) for row in rows]
    network, vocabulary = trained.network, trained.vocabulary
    temperature = calibrate(network, vocabulary, examples)
    accuracy = measures.accuracy("probability")([ask(network, vocabulary, example) for example in examples])
    return export_model(
        network,
        vocabulary,
        trained.backbone,
        out,
        {
            "name": NAME,
            "rate_hz": RATE_HZ,
            "memory_mb": MEMORY_MB,
            "decided_by_probability": accuracy >= RELIABLE,
            "validation_accuracy": accuracy,
            "temperature": temperature,
            "joint_orders": JOINT_ORDERS,
            "backbone": recipe.backbone,
            "seed": recipe.seed,
            "data": {
                "takes": recipe.takes,
                "moments": recipe.moments,
                "frame_rate_hz": RATE_HZ,
                "validation_takes": len(rows),
            },
            "steps": {"glance": recipe.glance.steps, "memory": recipe.memory.steps},
        },
    )


def _every(tell: Callable[[str], None], what: str, every: int, total: int) -> Callable[[int], None]:
    def report(done: int) -> None:
        if done % every == 0 or done == total:
            tell(f"{what}: {done}/{total}")

    return report


def _steps(tell: Callable[[str], None], what: str, total: int) -> Callable[[int, float], None]:
    recent: list[float] = []

    def report(step: int, loss: float) -> None:
        recent.append(loss)
        if step % 100 == 0 or step == total:
            tell(f"{what}: {step}/{total}, loss {np.mean(recent):.3f}")
            recent.clear()

    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 0 fine, 1 the export failed, 2 bad input."""
    default = Recipe()
    parser = argparse.ArgumentParser(description="Train and export the progress model of the simulated table.")
    parser.add_argument(
        "--data", type=Path, default=Path("data/sim"), help="data set of `rollout-monitor sim generate`"
    )
    parser.add_argument("--work", type=Path, default=Path("data/train"), help="cached features and checkpoints")
    parser.add_argument("--out", type=Path, default=Path("models/table"), help="where the model's files go")
    parser.add_argument("--takes", type=int, default=default.takes, help="training takes")
    parser.add_argument(
        "--fresh", type=int, default=default.fresh, help="of them that seeing knows by their moments alone"
    )
    parser.add_argument("--glance-steps", type=int, default=default.glance.steps)
    parser.add_argument("--memory-steps", type=int, default=default.memory.steps)
    parser.add_argument("--moments", type=int, default=default.moments, help="of every take, rearranged and seen anew")
    parser.add_argument(
        "--backbone",
        default=EMBEDDED,
        help="the frozen network: a vision model of transformers by name or folder (DINOv2, SigLIP, ...)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes that make features")
    given = parser.parse_args(arguments)
    recipe = Recipe(
        takes=given.takes,
        moments=given.moments,
        fresh=given.fresh,
        glance=replace(default.glance, steps=given.glance_steps, seed=given.seed),
        memory=replace(default.memory, steps=given.memory_steps, seed=given.seed),
        seed=given.seed,
        backbone=given.backbone,
    )
    try:
        trained = train(given.data, given.work, recipe, jobs=given.jobs, tell=lambda line: print(line, flush=True))
        description = finish(trained, given.data, given.work, given.out, recipe)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except RolloutMonitorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{given.out}: validation accuracy {description['validation_accuracy']:.3f}")
    return 0
