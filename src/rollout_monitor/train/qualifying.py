"""Qualifies an embedded model on simulated takes that it was never trained or tuned on: `qualify --suite sim`.

Three columns need nothing but the model: in distribution, unseen arm, unseen camera and light. Two are about users'
cells: the model as it is (zero-shot) and adapted to 20 takes, both measured on the cell's other takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rollout_monitor.errors import InputError
from rollout_monitor.judges import measures
from rollout_monitor.judges.bootstrap import Figure, Measure, bootstrap
from rollout_monitor.judges.measures import Answers
from rollout_monitor.prm.text import Vocabulary
from rollout_monitor.sim.tabletop.files import TAKES, read_index
from rollout_monitor.train.adapting import AdaptRecipe, cross_validate, label_takes
from rollout_monitor.train.batches import Source
from rollout_monitor.train.cell_takes import CellTake, curve_by_time
from rollout_monitor.train.examples import Example
from rollout_monitor.train.measuring import SEE_ALL, ask, with_context
from rollout_monitor.train.negatives import other_texts
from rollout_monitor.train.network import Network
from rollout_monitor.train.preparing import RATE_HZ, cache_features
from rollout_monitor.train.thresholds import calibrate

OPEN_PLANS = {
    "in distribution": "test",
    "unseen arm": "unseen_arm",
    "unseen camera and light": "unseen_camera",
}
CELLS = {
    "unseen task near a trained skill": ("cell_near_1", "cell_near_2", "cell_near_3"),
    "unseen multi-stage task": ("cell_stages_1", "cell_stages_2", "cell_stages_3"),
}
ADAPT_TAKES = 20
"""Takes 0 to 19 of a cell are the user's; the later ones are for measuring."""

ROWS: dict[str, Measure[Answers]] = {
    "direction Macro-F1": measures.direction_f1("progress"),
    "Falling F1": measures.direction_f1("progress", only=-1),
    "context-dependent accuracy": measures.context_accuracy("progress"),
    "progress MAE": measures.MAE,
    "success-rate error, points": measures.success_rate_error("progress"),
    "success accuracy": measures.accuracy("progress"),
    "coverage of the 90 % interval": measures.COVERAGE,
    "Spearman with true progress": measures.SPEARMAN,
    "drops seen within 1 s": measures.DROPS_SEEN,
}
WRONG = "wrong instruction scored as success"


@dataclass(frozen=True)
class Column:
    """One column of the table: a figure per row, and how many takes it is of."""

    title: str
    takes: int
    figures: dict[str, Figure]


@dataclass(frozen=True)
class Suite:
    """What the suite needs: a network, its words, its backbone, and a data set with the plans of this module."""

    network: Network
    vocabulary: Vocabulary
    backbone: Path
    data: Path
    work: Path
    jobs: int = 1

    def examples(self, plan: str) -> list[Example]:
        """All takes of a plan, features made where they are missing.

        Raises:
            InputError: there are none.
        """
        rows = sorted((row for row in read_index(self.data) if row.plan == plan), key=lambda row: row.seed)
        if not rows:
            raise InputError(
                f"{self.data} holds no takes of the plan {plan}: make some with "
                f"`rollout-monitor sim generate --out {self.data} --plan {plan} --rollouts 50`"
            )
        cache = cache_features(self.data, rows, self.work, self.backbone, jobs=self.jobs)
        return [Example.load(self.data / TAKES / row.id, cache / row.id) for row in rows]


@dataclass(frozen=True)
class Judged:
    """A network's answers on takes: under their own instructions, and on successes under another one."""

    own: list[Answers]
    others: list[Answers]


def judge(
    network: Network,
    vocabulary: Vocabulary,
    examples: Sequence[Example],
    *,
    present: tuple[bool, bool, bool] = SEE_ALL,
    seed: int = 0,
    threshold: float = measures.SUCCESS_PROGRESS,
    words: str | None = None,
) -> Judged:
    """Ask a network about takes.

    Args:
        network: in evaluation mode.
        vocabulary: its words.
        examples: the takes.
        present: which views, and whether joints, it gets.
        seed: draws the wordings of other instructions.
        threshold: end progress that counts as success.
        words: said in the place of every instruction.
    """
    own = [ask(network, vocabulary, example, text=words, present=present, threshold=threshold) for example in examples]
    own = with_context(own, [example.truth for example in examples])
    rng = np.random.default_rng(seed)
    others = []
    for example, answers in zip(examples, own, strict=True):
        if answers.succeeded and example.row.alternatives:
            # The first is the one that only roles, sides or the order of the words tell apart.
            task = example.row.alternatives[0]
            text = words or example.draw_text(rng, task)
            others.append(ask(network, vocabulary, example, task=task, text=text, present=present, threshold=threshold))
    return Judged(own, others)


def figures(judged: Judged) -> dict[str, Figure]:
    """Every row of the table."""
    table = {name: bootstrap(measure, judged.own) for name, measure in ROWS.items()}
    table[WRONG] = bootstrap(measures.false_success("progress"), judged.others)
    return table


def open_columns(suite: Suite, tell: Callable[[str], None] = print) -> list[Column]:
    """The columns that need no adaptation."""
    columns = []
    for title, plan in OPEN_PLANS.items():
        examples = suite.examples(plan)
        judged = judge(suite.network, suite.vocabulary, examples)
        columns.append(Column(title, len(examples), figures(judged)))
        tell(f"{title}: {len(examples)} takes")
    return columns


def cell_columns(
    suite: Suite, recipe: AdaptRecipe, replay: Sequence[Source] = (), tell: Callable[[str], None] = print
) -> list[Column]:
    """Zero-shot and adapted, for each kind of cell."""
    columns = []
    for title, plans in CELLS.items():
        before, after = Judged([], []), Judged([], [])
        for plan in plans:
            examples = suite.examples(plan)
            mine, rest = examples[:ADAPT_TAKES], examples[ADAPT_TAKES:]
            zero = judge(suite.network, suite.vocabulary, rest)
            network, threshold = adapt_to(suite, mine, recipe, replay)
            fitted = judge(network, suite.vocabulary, rest, threshold=threshold)
            for whole, part in ((before, zero), (after, fitted)):
                whole.own.extend(part.own)
                whole.others.extend(part.others)
            tell(f"{title}, {plan}: {len(mine)} takes to adapt, {len(rest)} to measure, threshold {threshold:.2f}")
        columns.append(Column(f"{title}, zero-shot", len(before.own), figures(before)))
        columns.append(Column(f"{title}, {ADAPT_TAKES} takes", len(after.own), figures(after)))
    return columns


def adapt_to(
    suite: Suite, mine: Sequence[Example], recipe: AdaptRecipe, replay: Sequence[Source]
) -> tuple[Network, float]:
    """What `rollout-monitor adapt` does with a user's takes: pictures, joints and marks, no truth."""
    takes = label_takes(suite.network, suite.vocabulary, [as_cell_take(example, suite) for example in mine])
    seen, network = cross_validate(suite.network, suite.vocabulary, takes, recipe, replay, jobs=suite.jobs)
    return network, calibrate(seen.forward, RATE_HZ).values["outcome.progress_threshold"]


def as_cell_take(example: Example, suite: Suite) -> CellTake:
    """A simulated take as a user would have it."""
    success = example.row.outcome == "success"
    return CellTake(
        id=example.row.id,
        steps=example.steps(0),
        joints=example.joints,
        has_joints=example.has_joints,
        has_wrist=True,
        success=success,
        text=example.row.text,
        other_texts=other_texts(suite.network, suite.vocabulary, example.row.text),
        curve=curve_by_time(example.frames, success),
    )


def as_markdown(columns: Sequence[Column]) -> str:
    """The table, rows by figures."""
    names = [*ROWS, WRONG]
    lines = [
        "| figure | " + " | ".join(f"{column.title} (n = {column.takes})" for column in columns) + " |",
        "| --- |" + " --- |" * len(columns),
    ]
    for name in names:
        cells = [_cell(column.figures[name]) for column in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(figure: Figure) -> str:
    if not np.isfinite(figure.value):
        return "none"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"
