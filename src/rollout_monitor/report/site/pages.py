"""The pages, from templates that escape everything; each page's policy allows no script but its own and no network."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from rollout_monitor import __version__
from rollout_monitor.curve.aggregate import RANK_RESAMPLES, RESAMPLES, SEED, Figure, Statistic
from rollout_monitor.report.site import radar
from rollout_monitor.report.site.attempts import Attempt
from rollout_monitor.report.site.figures import BINS, METRICS, Axis, Board, Fall, Portrait, Subtasks, on_shared_tasks
from rollout_monitor.report.site.names import Names, shorten
from rollout_monitor.report.site.transfer import FEWEST_PAIRS, Transfer

PAGES = (
    ("index.html", "Leaderboard"),
    ("tasks.html", "Policies by tasks"),
    ("portraits.html", "Portraits"),
    ("failures.html", "Where attempts fail"),
    ("transfer.html", "Simulation and reality"),
    ("explorer.html", "Explorer"),
    ("read.html", "What was read"),
)
SCRIPTED = ("tasks.html", "explorer.html")
MOST_ROWS = 200
"""Longer tables are cut and say so; ``data/figures.csv`` has everything."""

MANY = 10
"""Of so few attempts each may well be another policy's."""

LONGEST_PROBLEM = 500
ABSENT = "—"
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Portraits:
    """Portraits of one outcome and their axes."""

    axes: Sequence[Axis]
    portraits: Sequence[Portrait]


@dataclass(frozen=True)
class Content:
    """Everything that the pages show."""

    attempts: Sequence[Attempt]
    counted: Sequence[Attempt]
    names: Names
    problems: Sequence[str]
    board: Board
    shared_board: Board | None
    successes: Portraits
    failures: Portraits
    by_policy: Sequence[Fall]
    by_task: Sequence[Fall]
    subtasks: Sequence[Subtasks]
    transfer: Transfer | None
    statistic: Statistic
    outcomes: Mapping[str, int]


def render(content: Content) -> dict[str, str]:
    """HTML of each page by its file name."""
    environment = _environment()
    shared: dict[str, Any] = {
        "content": content,
        "pages": PAGES,
        "metrics": METRICS,
        "bins": BINS,
        "most": MOST_ROWS,
        "longest_problem": LONGEST_PROBLEM,
        "fewest_pairs": FEWEST_PAIRS,
        "few": radar.FEW,
        "method": {"resamples": RESAMPLES, "rank_resamples": RANK_RESAMPLES, "seed": SEED},
        "doubts": _doubts(content),
        "judges": _counts(attempt.judge for attempt in content.counted),
        "names": content.names,
        "too_many_policies": len(content.names.policy.shown) * 2 > len(content.attempts) > MANY,
        "charts": {
            "success": _charts(content.successes),
            "failure": _charts(content.failures),
        },
        "style": Markup(_static("site.css")),  # noqa: S704 - our own file
        "style_hash": _hash(_static("site.css")),
        "version": __version__,
    }
    made = {}
    for page, title in PAGES:
        script = _static("site.js") if page in SCRIPTED else ""
        made[page] = environment.get_template(f"{page}.j2").render(
            page=page,
            title=title,
            script=Markup(script),  # noqa: S704 - our own file
            script_hash=_hash(script) if script else "",
            **shared,
        )
    return made


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(points=points, interval=interval, short=shorten, signed=signed, shade=shade)
    return environment


@lru_cache(maxsize=4)
def _static(name: str) -> str:
    return (_HERE / "static" / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def points(value: float | None) -> str:
    """A share times 100 with one decimal, a dash where there is none."""
    return ABSENT if value is None else f"{100.0 * value:.1f}"


def signed(value: float | None) -> str:
    """A difference of shares in points, with its sign."""
    return ABSENT if value is None else f"{100.0 * value:+.1f}".replace("-", "−")


def interval(figure: Figure) -> str:
    """A 95 % interval in points; empty where there is none."""
    return "" if figure.low is None else f"{points(figure.low)}–{points(figure.high)}"


def shade(count: int, total: int) -> int:
    """A step of shading from 0 to 10 for a share."""
    return 0 if total == 0 or count == 0 else max(1, round(10 * count / total))


def _charts(group: Portraits) -> dict[str, radar.Radar]:
    labels = [axis.label for axis in group.axes]
    reference = [_middle([one.figures[index] for one in group.portraits]) for index in range(len(labels))]
    return {one.policy: radar.draw(labels, one.figures, reference) for one in group.portraits[:MOST_ROWS]}


def _middle(found: Sequence[Figure]) -> Figure:
    """The middle policy of one axis."""
    values = sorted(one.value for one in found if one.value is not None)
    if not values:
        return Figure(0)
    half = len(values) // 2
    return Figure(len(values), values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2.0)


def _counts(values: Iterable[str]) -> list[tuple[str, int]]:
    return Counter(values).most_common()


def _doubts(content: Content) -> list[str]:
    """What to know before a figure is trusted."""
    doubts = []
    conventions = _counts(a.metrics.convention for a in content.counted if a.metrics is not None)
    judges = _counts(attempt.judge for attempt in content.counted)
    if len(conventions) > 1:
        told = ", ".join(f"{name} ({n})" for name, n in conventions)
        doubts.append(f"Metrics of several conventions are mixed, and they do not mean the same: {told}.")
    if len(judges) > 1:
        doubts.append(
            f"{len(judges)} judges read the progress of these attempts; differences between policies may be theirs."
        )
    if content.shared_board is not None:
        doubts.append("Not every policy tried the same tasks: compare policies in the second table, not in the first.")
    elif content.counted and not on_shared_tasks(content.counted):
        doubts.append("No task was tried by every policy: ranks compare policies on different tasks.")
    sides = Counter({"sim": "simulated", "real": "real", None: "not tagged"}[a.where] for a in content.counted)
    if "simulated" in sides and len(sides) > 1:
        told = ", ".join(f"{n} {name}" for name, n in sides.most_common())
        doubts.append(f"Attempts in simulation and others are pooled: {told}. The explorer has them apart.")
    small = [place for place in content.board.places if place.episodes < 10]
    if small:
        doubts.append(f"{len(small)} of {len(content.board.places)} policies have fewer than ten attempts.")
    unlabelled = sum(a.metrics is not None and a.metrics.success_from != "label" for a in content.counted)
    if unlabelled:
        doubts.append(
            f"In {unlabelled} of {len(content.counted)} attempts nobody said how they went: "
            "their success is the monitor's own reading."
        )
    relabelled = sum(attempt.relabelled for attempt in content.attempts)
    if relabelled:
        doubts.append(f"{relabelled} attempts count by a label that was given after their report was written.")
    return doubts
