"""A user's recorded takes to training sources: features at the model's rate, and joints where they are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rollout_monitor.errors import InputError
from rollout_monitor.prm.backbone import CELLS, CHANNELS, Backbone
from rollout_monitor.prm.embedded import choose_views
from rollout_monitor.prm.joint_names import JointOrders
from rollout_monitor.prm.posture import FEATURES
from rollout_monitor.store.takes import Take, unlabelled
from rollout_monitor.train.cell_takes import CellTake, curve_by_time
from rollout_monitor.train.examples import as_steps

FEWEST_FRAMES = 8
"""A shorter take shows no course of things."""


def check_marks(takes: Sequence[Take]) -> None:
    """Refuse takes of which nobody said whether they succeeded.

    Raises:
        InputError: names them and what to do.
    """
    silent = unlabelled(takes)
    if silent:
        shown = ", ".join(silent[:5]) + (f" and {len(silent) - 5} more" if len(silent) > 5 else "")
        raise InputError(
            f"nobody said whether {len(silent)} of {len(takes)} takes succeeded: {shown}; say so in a CSV with the "
            "header take,success (--labels) or put them into folders called success and fail, see docs/takes.md"
        )


def read_take(
    take: Take, text: str, other_texts: Sequence[str], backbone: Backbone, orders: JointOrders, rate_hz: float
) -> CellTake:
    """Read one take.

    Args:
        take: with a mark.
        text: the instruction.
        other_texts: instructions of other tasks.
        backbone: of the model that is adapted.
        orders: joint orders that the model knows.
        rate_hz: of the model.

    Raises:
        InputError: it cannot be read, or is too short; names the file.
    """
    source = take.joint_sources[0] if len(take.joint_sources) == 1 else None
    steps: list[npt.NDArray[np.int8]] = []
    joints, felt, wrist = [], 0, 0
    for frame in take.frames(rate_hz, joints=source, on_bad=lambda *_: None):
        views = choose_views(frame.images)
        step = np.zeros((2, CHANNELS, CELLS, CELLS), dtype=np.int8)
        for place, picture in enumerate(views):
            if picture is not None:
                step[place] = as_steps(backbone.grid([picture])[0])
        steps.append(step)
        wrist += views[1] is not None
        known = orders.features(frame.joints) if frame.joints is not None and orders else None
        felt += known is not None
        joints.append(np.zeros(FEATURES, dtype=np.float32) if known is None else known)
    if len(steps) < FEWEST_FRAMES:
        raise InputError(
            f"{take.path}: take {take.id} has {len(steps)} usable frames at {rate_hz:g} Hz; at least {FEWEST_FRAMES} "
            "are needed: leave it out or record it again"
        )
    success = bool(take.success)
    return CellTake(
        id=take.id,
        steps=np.stack(steps),
        joints=np.stack(joints),
        has_joints=felt > len(steps) // 2,
        has_wrist=wrist > len(steps) // 2,
        success=success,
        text=text,
        other_texts=tuple(other_texts),
        curve=curve_by_time(len(steps), success),
    )


def read_takes(
    takes: Sequence[Take],
    text: str,
    other_texts: Sequence[str],
    backbone: Backbone,
    orders: JointOrders,
    rate_hz: float,
    report: Callable[[int], None] = lambda _: None,
) -> list[CellTake]:
    """Read all takes; arguments and errors as in `read_take`."""
    read = []
    for number, take in enumerate(takes, start=1):
        read.append(read_take(take, text, other_texts, backbone, orders, rate_hz))
        report(number)
    return read
