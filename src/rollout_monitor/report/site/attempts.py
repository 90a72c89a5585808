"""What the site is made of: one `Attempt` per stored episode or curve file, and a line for each folder that is none.

Reads episode folders (``report.json``, as `rollout_monitor.store.episodes` keeps them, with the ``labels.jsonl`` of
their store) and curve files with a published judge's progress, anywhere below one folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from rollout_monitor.curve.opd import compute
from rollout_monitor.curve.settings import OpdSettings
from rollout_monitor.curve.source import read_curve
from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.records import EpisodeReport, EpisodeState, Label, OpdMetrics
from rollout_monitor.report.site.tags import Said, Tags, Where, hashtags, one_line, says_where, where_of
from rollout_monitor.store.episodes import LABELS, PAGE, REPORT, read_report
from rollout_monitor.store.labels import LabelFact, read_facts

CURVE_FILES = ("curve.json", "curve.csv", "step_metrics.csv")
TASK_FILE = "task.txt"
MARK = ".rollout-monitor-site"
"""Lies in every site, so that a site is never read as episodes nor a foreign folder replaced."""

POINTS = 120
"""So many points of a curve are drawn in the explorer."""

Shares = npt.NDArray[np.uint16]
_FULL = 1000


@dataclass(frozen=True)
class Attempt:
    """One attempt at a task, whoever made it.

    Attributes:
        name: path within the folder that was read, unique; safe to encode as UTF-8.
        policy: who acted; empty where nothing says.
        task: what was to be done; empty where nothing says.
        where: in simulation or on a real robot; None where nothing says.
        tags: what else was said of it, sorted.
        outcome: success, failure, undecided, interrupted or unmeasured (no progress estimate came).
        counted: whether it takes part in the figures.
        start_ns: stamp of its start, nanoseconds; None for a curve without stamps.
        duration_s: seconds; None for a curve without stamps.
        metrics: final figures; None where no progress estimate came.
        judge: model and the first digits of its hash.
        seen: times and values of its thinned final curve, uint16 of shape (2, n), n <= POINTS, both times 1000.
        last: progress at the end, 0..1.
        subtask: most goals done; None where the model does not say.
        page: address of its report relative to the folder that was read, percent-encoded; None where there is none.
        relabelled: a label in ``labels.jsonl`` overrules the outcome that the report was written with.
    """

    name: str
    policy: str
    task: str
    where: Where | None
    tags: tuple[str, ...]
    outcome: str
    counted: bool
    start_ns: int | None
    duration_s: float | None
    metrics: OpdMetrics | None
    judge: str
    seen: Shares
    last: float | None
    subtask: int | None
    page: str | None
    relabelled: bool = False


@dataclass(frozen=True)
class Found:
    """Everything below a folder.

    Attributes:
        attempts: sorted by name.
        problems: one line for each folder, file or line that could not be used, with the reason.
    """

    attempts: list[Attempt]
    problems: list[str]


def read_attempts(root: Path, tags: Tags, settings: OpdSettings) -> Found:
    """Read everything below a folder. What cannot be read is told of, not left out silently.

    Args:
        root: a store, or a folder of stores or of curves.
        tags: what a tags file says.
        settings: how metrics of curve files are computed; those of reports are taken as they were written.
    """
    problems: list[str] = []
    attempts = []
    labels = _Labels(root, problems)
    for folder, files in _folders(root, problems):
        name = _name(root, folder)
        try:
            if REPORT in files:
                attempts.append(_from_report(root, folder, labels.of(folder), tags.of(name)))
            else:
                file = next(file for file in CURVE_FILES if file in files)
                attempts.append(_from_curve(root, folder / file, tags.of(name), settings))
        except (StoreError, InputError) as error:
            problems.append(one_line(f"{name}: {_without(str(error), folder)}"))
    names = [attempt.name for attempt in attempts]
    return Found(attempts, [*problems, *tags.unknown(names)])


def _folders(root: Path, problems: list[str]) -> Iterator[tuple[Path, set[str]]]:
    """Folders that hold a report or a curve, with the names of their files; the insides of an episode are not entered.

    A folder that a crash left or that lost its report is a problem, as is one that cannot be opened.
    """

    def unreadable(error: OSError) -> None:
        problems.append(f"{_name(root, Path(error.filename))}: cannot be opened: {error.strerror}")

    for place, folders, files in os.walk(root, onerror=unreadable):
        folder = Path(place)
        there = set(files)
        if folder != root and (MARK in there or folder.name.startswith(".")):
            if folder.name.endswith(".partial"):
                problems.append(f"{_name(root, folder)}: is unfinished, still being written or left by a crash")
            folders.clear()
            continue
        folders.sort()
        if REPORT in folders:
            problems.append(f"{_name(root, folder)}: {REPORT} is a folder, not a file")
        for link in [name for name in folders if (folder / name).is_symlink()]:
            problems.append(f"{_name(root, folder / link)}: is a link to a folder; links are not followed")
        if REPORT in there or there.intersection(CURVE_FILES):
            folders.clear()
            yield folder, there
        elif PAGE in there or "frames" in folders:
            folders.clear()
            problems.append(f"{_name(root, folder)}: has no {REPORT}")


class _Labels:
    """Label facts of every store below the root, each store read once; a torn line is told of once."""

    def __init__(self, root: Path, problems: list[str]) -> None:
        self._root, self._problems = root, problems
        self._stores: dict[Path, dict[str, list[LabelFact]]] = {}

    def of(self, episode: Path) -> list[LabelFact]:
        """What was said of an episode, the oldest first.

        Raises:
            StoreError: the file is there but cannot be opened.
        """
        store = episode.parent
        if store not in self._stores:
            facts, torn = read_facts(store / LABELS)
            self._problems += [one_line(f"{_name(self._root, store)}: {line}") for line in torn]
            by_episode: dict[str, list[LabelFact]] = {}
            for fact in sorted(facts, key=lambda fact: fact.stamp_ns):
                by_episode.setdefault(fact.episode_id, []).append(fact)
            self._stores[store] = by_episode
        return self._stores[store].get(episode.name, [])


def _from_report(root: Path, folder: Path, facts: Sequence[LabelFact], said: Said) -> Attempt:
    path = folder / REPORT
    if not path.is_file():
        raise StoreError(f"{path}: is no file")
    report = read_report(path)
    noted = hashtags(fact.note for fact in facts)
    label = next((fact.label for fact in reversed(facts) if fact.label is not None), None)
    metrics, relabelled = _metrics(report, label)
    values = [point.final for point in report.curve]
    subtasks = [point.subtask for point in report.curve if point.subtask is not None]
    ended = report.state is EpisodeState.ENDED or label is not None or report.label is not None
    return Attempt(
        name=_name(root, folder),
        policy=said.policy or one_line(report.source),
        task=said.task or one_line(report.task),
        where=said.where or where_of(noted, report.robot, report.source),
        tags=tuple(sorted({*said.tags, *(tag for tag in noted if not says_where(tag))})),
        outcome=_outcome(report, label, ended, metrics),
        counted=ended and metrics is not None,
        start_ns=report.start_ns,
        duration_s=report.duration_s,
        metrics=metrics,
        judge=_judge(report),
        seen=thin(np.array([point.stamp_ns for point in report.curve], dtype=np.int64), np.array(values)),
        last=values[-1] if values else None,
        subtask=max(subtasks, default=None),
        page=_address(root, folder / PAGE) if (folder / PAGE).is_file() else None,
        relabelled=relabelled,
    )


def _from_curve(root: Path, path: Path, said: Said, settings: OpdSettings) -> Attempt:
    """A published judge's curve: ``POLICY/EPISODE/step_metrics.csv``, the task in ``task.txt`` or the folder's name."""
    held = read_curve(path)
    metrics = compute(held.progress, settings, held.label)
    stamps = held.stamps_ns
    times = stamps if stamps is not None else np.arange(len(held.progress), dtype=np.int64)
    return Attempt(
        name=_name(root, path.parent),
        policy=said.policy or one_line(_text(path.parent.parent.name)),
        task=said.task or _task(path.parent),
        where=said.where,
        tags=tuple(sorted(said.tags)),
        outcome="success" if metrics.success else "failure",
        counted=True,
        start_ns=int(stamps[0]) if stamps is not None else None,
        duration_s=float(stamps[-1] - stamps[0]) / 1e9 if stamps is not None else None,
        metrics=metrics,
        judge=f"curve file {path.name}",
        seen=thin(times, held.progress),
        last=float(held.progress[-1]),
        subtask=None,
        page=None,
    )


def _metrics(report: EpisodeReport, label: Label | None) -> tuple[OpdMetrics | None, bool]:
    """Final metrics, computed again from the final curve where a later label says another outcome."""
    metrics = report.metrics_final
    if metrics is None or label is None or metrics.success is (label is Label.SUCCESS) or not report.curve:
        return metrics, False
    chosen = {key.removeprefix("opd."): value for key, value in report.settings.items() if key.startswith("opd.")}
    try:
        settings = OpdSettings(**{"convention": metrics.convention, **chosen})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        raise StoreError(
            f"its label ({label.value}) cannot be applied: setting opd.{first['loc'][0]}: {first['msg']}"
        ) from error
    return compute([point.final for point in report.curve], settings, label), True


def _outcome(report: EpisodeReport, label: Label | None, ended: bool, metrics: OpdMetrics | None) -> str:
    if metrics is None:
        return "unmeasured"
    if not ended:
        return "interrupted"
    return label.value if label is not None else report.outcome.outcome.value


def _judge(report: EpisodeReport) -> str:
    model = one_line(report.model) or "not said"
    return f"{model} {report.model_hash[:12]}".strip()


def _task(folder: Path) -> str:
    file = folder / TASK_FILE
    try:
        told = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    return one_line(told) or one_line(_text(folder.name))


def thin(stamps_ns: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> Shares:
    """A curve as shares of its time and of the task, times 1000; every column keeps its lowest and highest value."""
    if len(values) == 0:
        return np.zeros((2, 0), dtype=np.uint16)
    span = max(int(stamps_ns[-1] - stamps_ns[0]), 1)
    times = np.clip((stamps_ns - stamps_ns[0]) / span, 0.0, 1.0)
    kept: Sequence[int] | npt.NDArray[np.int64] = range(len(values))
    if len(values) > POINTS:
        edges = np.linspace(0, len(values), POINTS // 2 + 1).astype(np.int64)
        ends = [(a + int(np.argmin(values[a:b])), a + int(np.argmax(values[a:b]))) for a, b in _pairs(edges)]
        kept = np.unique(np.array(ends, dtype=np.int64))
    shares = np.array([times[list(kept)], values[list(kept)]])
    rounded: Shares = np.rint(shares * _FULL).astype(np.uint16)
    return rounded


def _pairs(edges: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    return zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)


def _name(root: Path, folder: Path) -> str:
    """Path within the folder that was read; bytes that are no UTF-8 are written with a backslash."""
    return _text(folder.relative_to(root).as_posix())


def _text(name: str) -> str:
    return os.fsencode(name).decode("utf-8", errors="backslashreplace")


def _address(root: Path, file: Path) -> str:
    return quote(os.fsencode(file.relative_to(root).as_posix()))


def _without(message: str, folder: Path) -> str:
    """A message that names the file only, as the folder stands before it."""
    return message.replace(f"{folder}/", "")
