"""Data of the explorer in script files, loaded when they are needed.

A page opened from disk may not fetch files, but it may load scripts: each chunk is a script that hands one JSON value
to ``rolloutMonitor.put``. JSON is written in ASCII, so that nothing in it can end a line or a script.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rollout_monitor.curve.aggregate import Figure
from rollout_monitor.report.site.attempts import Attempt
from rollout_monitor.report.site.figures import METRICS, policy_of, task_of
from rollout_monitor.report.site.names import Names, shorten

EPISODES_PER_CHUNK = 1000
CURVES_PER_CHUNK = 50
CONTINUOUS = ("mp", "ppl", "cra", "str", "fns", "drr", "sqs")
_PARTS = 10_000  # figures are whole numbers of a hundredth of a percent
_COLUMNS = ("name", "page", "policy", "task", "outcome", "where", "tags", "start", "duration", "counted", "success")


def chunk(name: str, value: Any) -> str:
    """The script of one chunk."""
    return f"rolloutMonitor.put({json.dumps(name)},{json.dumps(value, separators=(',', ':'), allow_nan=False)});\n"


def explorer(attempts: Sequence[Attempt], names: Names, address: str) -> Iterator[tuple[str, str]]:
    """(name, script) of the chunks that the explorer loads.

    Args:
        attempts: in the order in which they are numbered.
        names: of their policies and tasks.
        address: from the site to the folder that was read, percent-encoded, with a slash at its end.
    """
    tags = sorted({tag for attempt in attempts for tag in attempt.tags})
    outcomes = sorted({attempt.outcome for attempt in attempts})
    yield (
        "names",
        chunk(
            "names",
            {
                "policies": names.policy.shown,
                "tasks": names.task.shown,
                "tags": [shorten(tag) for tag in tags],
                "outcomes": outcomes,
                "columns": [*_COLUMNS, *CONTINUOUS, "subtask"],
                "episodes": len(attempts),
                "per_chunk": EPISODES_PER_CHUNK,
                "curves_per_chunk": CURVES_PER_CHUNK,
                "address": address,
            },
        ),
    )
    lists = [{name: index for index, name in enumerate(one)} for one in (tags, outcomes)]
    for index, start in enumerate(range(0, len(attempts), EPISODES_PER_CHUNK)):
        rows = [_row(one, names, *lists) for one in attempts[start : start + EPISODES_PER_CHUNK]]
        yield f"episodes-{index}", chunk(f"episodes-{index}", rows)
    for index, start in enumerate(range(0, len(attempts), CURVES_PER_CHUNK)):
        curves = [one.seen.tolist() for one in attempts[start : start + CURVES_PER_CHUNK]]
        yield f"curves-{index}", chunk(f"curves-{index}", curves)


def _row(attempt: Attempt, names: Names, tags: dict[str, int], outcomes: dict[str, int]) -> list[Any]:
    """One attempt in the order of ``columns``; figures in hundredths of a percent, times in milliseconds."""
    metrics = attempt.metrics
    dump = metrics.model_dump(by_alias=True) if metrics is not None else {}
    return [
        shorten(attempt.name),
        attempt.page,
        names.policy.number[policy_of(attempt)],
        names.task.number[task_of(attempt)],
        outcomes[attempt.outcome],
        attempt.where,
        [tags[tag] for tag in attempt.tags],
        None if attempt.start_ns is None else attempt.start_ns // 1_000_000,
        None if attempt.duration_s is None else round(1000 * attempt.duration_s),
        int(attempt.counted),
        None if metrics is None else int(metrics.success),
        *(None if dump.get(key) is None else round(_PARTS * dump[key]) for key in CONTINUOUS),
        attempt.subtask,
    ]


def matrix(
    cells: Mapping[tuple[str, ...], Mapping[str, Figure]], policies: Sequence[str], tasks: Sequence[str], names: Names
) -> Iterator[tuple[str, str]]:
    """(name, script) of the policies-by-tasks figures, one chunk per metric.

    Args:
        cells: figures by (task, policy).
        policies: in the order of the columns.
        tasks: in the order of the rows.
        names: how they are shown, and their numbers in the explorer.
    """
    yield (
        "matrix",
        chunk(
            "matrix",
            {
                "policies": [[names.policy.number[one], names.policy.show(one)] for one in policies],
                "tasks": [[names.task.number[one], names.task.show(one)] for one in tasks],
                "metrics": [[one.key, one.short, one.name, one.better] for one in METRICS],
            },
        ),
    )
    columns = {policy: index for index, policy in enumerate(policies)}
    rows = {task: index for index, task in enumerate(tasks)}
    for metric in METRICS:
        found = [
            [rows[task], columns[policy], *_parts(figures[metric.key])] for (task, policy), figures in cells.items()
        ]
        yield f"matrix-{metric.key}", chunk(f"matrix-{metric.key}", found)


def _parts(figure: Figure) -> list[int | None]:
    ends = (figure.value, figure.low, figure.high)
    return [figure.n, *(None if end is None else round(_PARTS * end) for end in ends)]
