"""Builds the site: reads, computes, writes pages and data into a folder that appears as a whole."""

from __future__ import annotations

import csv
import io
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rollout_monitor.curve.aggregate import ELEVEN, Figure, Statistic, aggregate
from rollout_monitor.curve.settings import DEFAULT, OpdSettings
from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.report.site import chunks, figures, pages
from rollout_monitor.report.site.attempts import MARK, Found, read_attempts
from rollout_monitor.report.site.names import Names, names_of
from rollout_monitor.report.site.tags import TAGS_FILE, Tags, read_tags
from rollout_monitor.report.site.transfer import transfer

SITE = "site"
DATA = "data"


@dataclass(frozen=True)
class Built:
    """What was written.

    Attributes:
        folder: the site.
        episodes: attempts in it.
        counted: those that take part in figures.
        problems: what could not be read, a line each.
        files: number of files.
        size: of all of them, bytes.
        largest: name and size of the largest file.
    """

    folder: Path
    episodes: int
    counted: int
    problems: list[str]
    files: int
    size: int
    largest: tuple[str, int]


def build(
    root: Path,
    output: Path | None = None,
    *,
    tags: Path | None = None,
    settings: OpdSettings = DEFAULT,
    statistic: Statistic = "median",
) -> Built:
    """Build the site of everything below a folder.

    Args:
        root: a store, or a folder of stores or of recorded curves.
        output: folder of the site, ``root/site`` where it is None; an earlier site there is replaced.
        tags: a tags file; ``root/tags.csv`` where it is None and that is there.
        settings: how metrics of curve files are computed.
        statistic: of the continuous metrics.

    Raises:
        InputError: no such folder, no readable episode in it, a wrong tags file, an output folder that is no site.
        StoreError: the site could not be written.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder")
    output = output if output is not None else root / SITE
    _refuse_foreign(output)
    found = read_attempts(root, _tags(root, tags), settings)
    if not found.attempts:
        why = "; ".join(found.problems[:3]) or "expected folders with a report.json, or curve files"
        raise InputError(f"{root}: holds no episode that could be read: {why}")
    files = dict(_files(found, statistic, _address(root, output)))
    try:
        _write(output, files)
    except OSError as error:
        raise StoreError(f"{output}: the site could not be written: {error.strerror or error}") from error
    sizes = {name: len(content) for name, content in files.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    return Built(
        folder=output,
        episodes=len(found.attempts),
        counted=len(figures.counted(found.attempts)),
        problems=found.problems,
        files=len(files),
        size=sum(sizes.values()),
        largest=(largest, sizes[largest]),
    )


def _tags(root: Path, given: Path | None) -> Tags:
    if given is not None:
        return read_tags(given)
    return read_tags(root / TAGS_FILE) if (root / TAGS_FILE).is_file() else Tags()


def _files(found: Found, statistic: Statistic, address: str) -> Iterator[tuple[str, bytes]]:
    """Everything of the site by its path."""
    attempts = found.attempts
    names = names_of(attempts)
    counted = figures.counted(attempts)
    rollouts = figures.rollouts(counted)
    board = figures.board(counted, statistic)
    cells = aggregate(rollouts, statistic=statistic, names=ELEVEN)
    shared = figures.on_shared_tasks(counted)
    for name, script in chunks.explorer(attempts, names, address):
        yield f"{DATA}/{name}.js", script.encode("ascii")
    policies = [place.policy for place in board.places]
    for name, script in chunks.matrix(cells, policies, board.tasks, names):
        yield f"{DATA}/{name}.js", script.encode("ascii")
    yield f"{DATA}/figures.csv", _table(board, cells, names).encode()
    content = pages.Content(
        attempts=attempts,
        counted=counted,
        names=names,
        problems=found.problems,
        board=board,
        shared_board=None if len(shared) in (0, len(counted)) else figures.board(shared, statistic),
        successes=pages.Portraits(
            figures.SUCCESS_AXES, figures.portraits(counted, figures.SUCCESS_AXES, True, statistic)
        ),
        failures=pages.Portraits(
            figures.FAILURE_AXES, figures.portraits(counted, figures.FAILURE_AXES, False, statistic)
        ),
        by_policy=figures.falls(counted, figures.policy_of),
        by_task=figures.falls(counted, figures.task_of),
        subtasks=figures.subtasks(counted),
        transfer=transfer(counted, statistic),
        statistic=statistic,
        outcomes=Counter(attempt.outcome for attempt in attempts),
    )
    for name, text in pages.render(content).items():
        yield name, text.encode()
    yield MARK, b"Written by rollout-monitor report; built anew as a whole.\n"


def _table(board: figures.Board, cells: Mapping[tuple[str, ...], Mapping[str, Figure]], names: Names) -> str:
    """Every figure as CSV, one a line, without task over all tasks; shares, not percent; names as pages show them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["task", "policy", "metric", "n", "value", "low", "high"])
    rows = [("", names.policy.show(place.policy), place.figures) for place in board.places]
    rows += [(names.task.show(task), names.policy.show(policy), dict(found)) for (task, policy), found in cells.items()]
    for task, policy, found in rows:
        for metric in figures.METRICS:
            one = found[metric.key]
            ends = ("" if value is None else repr(value) for value in (one.value, one.low, one.high))
            writer.writerow([_harmless(task), _harmless(policy), metric.short, one.n, *ends])
    return out.getvalue()


def _harmless(text: str) -> str:
    """Text that a spreadsheet could take for a formula begins with an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


def _address(root: Path, output: Path) -> str:
    """From the site to the folder that was read."""
    return quote(os.fsencode(os.path.relpath(root.resolve(), output.resolve()))) + "/"


def _refuse_foreign(output: Path) -> None:
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise InputError(f"{output}: is no folder of its own; choose another with --output")
    if output.is_dir() and not (output / MARK).is_file() and any(output.iterdir()):
        raise InputError(f"{output}: holds something that is no site; choose another folder with --output")


def _write(output: Path, files: Mapping[str, bytes]) -> None:
    """Write into a folder beside the output, then put it in its place; an earlier site goes only then."""
    output.parent.mkdir(parents=True, exist_ok=True)
    temporary = output.with_name(f".{output.name}.{secrets.token_hex(4)}.partial")
    (temporary / DATA).mkdir(parents=True)
    try:
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        if output.exists():
            earlier = temporary.with_name(temporary.name.replace(".partial", ".earlier"))
            output.rename(earlier)
            temporary.rename(output)
            shutil.rmtree(earlier)
        else:
            temporary.rename(output)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
