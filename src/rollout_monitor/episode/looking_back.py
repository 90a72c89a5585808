"""What a whole attempt shows once it is over: its falls, what its stalls were, where it came no further."""

from __future__ import annotations

from collections.abc import Sequence

from rollout_monitor.curve.checks import Floats
from rollout_monitor.curve.drawdowns import find_drawdowns
from rollout_monitor.episode.key_frames import KeyFrames
from rollout_monitor.records import (
    Drawdown,
    Event,
    EventKind,
    FailurePoint,
    MotionStretch,
    Outcome,
    OutcomeDecision,
    Severity,
    Stall,
)

_NS = 1_000_000_000
_AT_BEST = 0.01
"""Progress this close to the best still stands at its best."""
_WITH_FRAMES = 12
"""Falls with pictures: the deepest ones. A judge that trembles for hours must not fill the disk."""
_VERDICTS = {EventKind.SUCCESS, EventKind.FAILURE, EventKind.PLATEAU_DONE}


def drawdowns(
    stamps_ns: Sequence[int], final: Floats, events: Sequence[Event], end_ns: int, frames: KeyFrames
) -> list[Drawdown]:
    """Falls of the final curve with the events that told of them and, for the deepest, the frames around them."""
    found = find_drawdowns(stamps_ns, final)
    deepest = {fall.peak_ns for fall in sorted(found, key=lambda fall: -fall.depth)[:_WITH_FRAMES]}
    told = [event for event in events if event.kind is EventKind.DRAWDOWN]
    return [
        fall.model_copy(
            update={
                "event_id": next((e.event_id for e in told if _overlap(fall, e, end_ns)), None),
                **(_frames_around(fall, frames) if fall.peak_ns in deepest else {}),
            }
        )
        for fall in found
    ]


def _overlap(fall: Drawdown, event: Event, end_ns: int) -> bool:
    return event.onset_ns < (fall.recovered_ns or end_ns) and (event.cleared_ns or end_ns) > fall.peak_ns


def _frames_around(fall: Drawdown, frames: KeyFrames) -> dict[str, str | None]:
    recovered = fall.recovered_ns
    return {
        "before": frames.keep(fall.peak_ns, "before a fall"),
        "after": frames.keep(fall.trough_ns, "lowest of a fall"),
        "regained": None if recovered is None else frames.keep(recovered, "fall made good"),
    }


def stalls(events: Sequence[Event], end_ns: int, motion: Sequence[MotionStretch]) -> list[Stall]:
    """STALL events, split by the arm's motion.

    Args:
        events: of the episode.
        end_ns: the episode's end.
        motion: when the arm moved and when it stood, in order; what lies between was not seen.
    """
    found = []
    for event in events:
        if event.kind is not EventKind.STALL:
            continue
        until_ns = end_ns if event.cleared_ns is None else event.cleared_ns
        inside = [
            stretch.model_copy(
                update={"start_ns": max(stretch.start_ns, event.onset_ns), "end_ns": min(stretch.end_ns, until_ns)}
            )
            for stretch in motion
            if stretch.start_ns < until_ns and stretch.end_ns > event.onset_ns
        ]
        moving_s, still_s = (_length_s(inside, moving) for moving in (True, False))
        found.append(
            Stall(
                event_id=event.event_id,
                onset_ns=event.onset_ns,
                end_ns=until_ns,
                moving_s=moving_s,
                still_s=still_s,
                unseen_s=max(0.0, (until_ns - event.onset_ns) / _NS - moving_s - still_s),
                stretches=inside,
            )
        )
    return found


def _length_s(stretches: Sequence[MotionStretch], moving: bool) -> float:
    return sum(one.end_ns - one.start_ns for one in stretches if one.moving is moving) / _NS


def failed_at(
    outcome: OutcomeDecision,
    stamps_ns: Sequence[int],
    final: Floats,
    events: Sequence[Event],
    start_ns: int,
    frames: KeyFrames,
) -> FailurePoint | None:
    """Where the attempt came no further: the last time it stood at its best, and what was never made good after that.

    A stall that lasted to the end began there, whatever a trembling curve adds afterwards. None for a success and
    without a curve.
    """
    if outcome.outcome is Outcome.SUCCESS or not len(final):
        return None
    best = float(final.max())
    index = max(i for i, value in enumerate(final.tolist()) if value >= best - _AT_BEST)
    stamp_ns = stamps_ns[index]
    cause = next(
        (
            event
            for event in sorted(events, key=lambda event: (event.onset_ns, event.event_id))
            if event.cleared_ns is None and event.severity is not Severity.INFO and event.kind not in _VERDICTS
        ),
        None,
    )
    where = f"it came no further than {best:.0%}, last at {(stamp_ns - start_ns) / _NS:.1f} s"
    if cause is not None and cause.kind is EventKind.STALL and cause.onset_ns < stamp_ns:
        stamp_ns = cause.onset_ns
        where = f"it came no further than {best:.0%}"
        why = f"; from {(stamp_ns - start_ns) / _NS:.1f} s on {cause.reason}"
    elif cause is not None:
        why = f"; what began at {(cause.onset_ns - start_ns) / _NS:.1f} s was never made good: {cause.reason}"
    elif index == len(final) - 1:
        why = ": it was at its best when it ended"
    else:
        why = "; no alarm lasted to the end that would say why"
    return FailurePoint(
        stamp_ns=stamp_ns,
        progress=best,
        event_id=None if cause is None else cause.event_id,
        picture=frames.keep(stamp_ns, "furthest for the last time"),
        reason=where + why,
    )
