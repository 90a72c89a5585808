"""The table of data health: one row for each thing that is counted, one column for each stream."""

from __future__ import annotations

from dataclasses import dataclass

from rollout_monitor.records import CameraHealth, EpisodeReport, JointHealth
from rollout_monitor.report.wording import ABSENT, number

_COUNTS = (
    ("received", "received", "all that came"),
    ("used", "used", "what the figures are made from"),
    ("bad", "bad", "could not be decoded"),
    ("repeated", "repeated", "the same picture as the one before"),
    ("not_advancing", "out of order", "the stamp did not advance"),
    ("unstamped", "unstamped", "the stamp was zero"),
    ("stray", "stray", "the stamp was far from its neighbours"),
    ("malformed", "malformed", "arrays that do not fit their names"),
    ("unusable", "unusable", "no finite position of a wanted joint"),
    ("implausible", "implausible", "a joint cannot have been there and back"),
    ("non_finite", "not finite", "joint values, not messages"),
    ("lost", "lost on the way", "as the middleware counts them"),
    ("gaps", "gaps", "holes too long to be filled"),
    ("clock_steps", "clock steps", "stamps went back a little"),
    ("clock_jumps", "clock jumps", "stamps went back a lot"),
)
_FINE = {"received", "used"}


@dataclass(frozen=True)
class Cell:
    """One figure; `odd` where it should be zero and is not."""

    text: str
    odd: bool = False


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    meaning: str
    cells: list[Cell]


@dataclass(frozen=True)
class Health:
    """The whole table: the names of the streams and the rows."""

    streams: list[str]
    rows: list[Row]


def health(report: EpisodeReport) -> Health | None:
    """Data health of all streams; None where nothing was heard."""
    streams: list[CameraHealth | JointHealth] = [*report.cameras, *([report.joints] if report.joints else [])]
    if not streams:
        return None
    names = [camera.camera for camera in report.cameras] + (["joint states"] if report.joints else [])
    rows = [
        Row("rate", "near the end", [Cell(_rate(stream)) for stream in streams]),
        Row("at the end", "", [_state(stream) for stream in streams]),
        *(
            Row(name, meaning, [_count(stream, field) for stream in streams])
            for field, name, meaning in _COUNTS
            if any(hasattr(stream, field) for stream in streams)
        ),
    ]
    if any(_offset(stream) for stream in streams):
        rows.append(
            Row("clock", "its stamps against another input's", [Cell(_offset(one) or ABSENT) for one in streams])
        )
    return Health(names, rows)


def _rate(stream: CameraHealth | JointHealth) -> str:
    return ABSENT if stream.rate_hz is None else f"{number(stream.rate_hz, 1)} Hz"


def _count(stream: CameraHealth | JointHealth, field: str) -> Cell:
    value = getattr(stream, field, None)
    if value is None:
        return Cell(ABSENT)
    about = stream.implausible_joint if field == "implausible" and isinstance(stream, JointHealth) else ""
    return Cell(f"{value} ({about})" if about and value else str(value), odd=bool(value) and field not in _FINE)


def _state(stream: CameraHealth | JointHealth) -> Cell:
    if isinstance(stream, CameraHealth):
        since = (("frozen", stream.frozen_since_ns), ("dark", stream.dark_since_ns))
        states = [word for word, stamp in since if stamp is not None]
        return Cell(" and ".join(states) or "live", odd=bool(states))
    missing = ", ".join(sorted(stream.missing_since_ns))
    return Cell(f"without {missing}" if missing else "live", odd=bool(missing))


def _offset(stream: CameraHealth | JointHealth) -> str:
    if not isinstance(stream, CameraHealth) or stream.clock_offset_s is None:
        return ""
    return f"{number(stream.clock_offset_s, 3)} s" + (f" from {stream.offset_from}" if stream.offset_from else "")
