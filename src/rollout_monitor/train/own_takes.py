"""A user's recorded takes to training sources: features at the model's rate, and joints where they are known."""

from __future__ import annotations

from collections import Counter
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

MOST_LOST = 0.1
"""Share of a camera's frames that may be damaged: what is left where it is more shows another course of things."""


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
    take: Take,
    text: str,
    other_texts: Sequence[str],
    backbone: Backbone,
    orders: JointOrders,
    rate_hz: float,
    tell: Callable[[str], None] = lambda _: None,
) -> CellTake:
    """Read one take.

    Args:
        take: with a mark.
        text: the instruction.
        other_texts: instructions of other tasks.
        backbone: of the model that is adapted.
        orders: joint orders that the model knows.
        rate_hz: of the model.
        tell: told, in a line, how many frames of each camera do not decode, where there are any.

    Raises:
        InputError: it cannot be read, is too short, or more than `MOST_LOST` of its frames do not decode; names the
            file.
    """
    source = take.joint_sources[0] if len(take.joint_sources) == 1 else None
    steps: list[npt.NDArray[np.int8]] = []
    joints, felt, wrist = [], 0, 0
    damaged: list[str] = []
    for frame in take.frames(rate_hz, joints=source, on_bad=lambda camera, _: damaged.append(camera)):
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
    _check_damaged(take, Counter(damaged), len(steps) + damaged.count(take.cameras[0]), tell)
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


def _check_damaged(take: Take, damaged: Counter[str], chosen: int, tell: Callable[[str], None]) -> None:
    """Tell of the frames that do not decode, out of those chosen of each camera, or refuse the take."""
    if not damaged:
        return
    counts = ", ".join(f"{count} of {chosen} frames of camera {camera}" for camera, count in damaged.items())
    if max(damaged.values()) > MOST_LOST * chosen:
        raise InputError(
            f"{take.path}: take {take.id}: {counts} do not decode, more than {MOST_LOST:.0%}: leave it out or record "
            "it again"
        )
    tell(f"take {take.id}: {counts} do not decode")


def read_takes(
    takes: Sequence[Take],
    text: str,
    other_texts: Sequence[str],
    backbone: Backbone,
    orders: JointOrders,
    rate_hz: float,
    report: Callable[[int], None] = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[CellTake]:
    """Read all takes; arguments and errors as in `read_take`."""
    read = []
    for number, take in enumerate(takes, start=1):
        read.append(read_take(take, text, other_texts, backbone, orders, rate_hz, tell))
        report(number)
    return read
