"""Detectors on the streams themselves: CAMERA_*, JOINTS_*, MODEL_*."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from rollout_monitor.events.alarm import Finding
from rollout_monitor.events.settings import InputSettings
from rollout_monitor.records import CameraHealth, JointHealth, KinematicSummary, Severity

_NS = 1_000_000_000


REPEATED_SHARE = 0.25
"""From this share on, stamps that do not advance are told of: a message now and then is late on any network."""

CLOCK_OFF_S = 0.5
"""Inputs whose stamps are further apart than this while both arrive are on two clocks: no transport is that slow."""


def stamp_words(now: JointHealth | CameraHealth, before: JointHealth | CameraHealth | None) -> str:
    """In words, what is wrong with an input's stamps since the older health; empty where most are as they should."""

    def since(name: str) -> int:
        return int(getattr(now, name)) - (0 if before is None else int(getattr(before, name)))

    received, found = since("received"), []
    if zero := since("unstamped"):
        found.append(f"header stamps are zero: the driver does not fill them in ({zero} of {received})")
    if received and since("not_advancing") >= REPEATED_SHARE * received:
        found.append(f"stamps repeat ({since('not_advancing')} of {received})")
    if stray := since("stray"):
        found.append(f"stamps are far apart: two publishers on two clocks, or a clock that was set ({stray})")
    if since("clock_steps"):
        found.append("stamps stepped back: the clock was set")
    return "; ".join(found)


def clock_words(health: CameraHealth) -> str:
    """In words, how far a camera's clock is off; empty where it is not, or where that is not known."""
    offset_s = health.clock_offset_s
    if offset_s is None or abs(offset_s) < CLOCK_OFF_S:
        return ""
    side = "ahead of" if offset_s > 0 else "behind"
    return (
        f"stamps of camera {health.camera} are {abs(offset_s):.1f} s {side} those of {health.offset_from} while both "
        "arrive: the clocks differ, no cable is out"
    )


def clock_trouble(cameras: Iterable[CameraHealth]) -> tuple[str, dict[str, float]]:
    """What the cameras tell of clocks that differ, as the end of a reason and as values."""
    off = [health for health in cameras if clock_words(health)]
    words = "".join(f"; {clock_words(health)}" for health in off)
    return words, {f"clock_offset_s.{health.camera}": health.clock_offset_s or 0.0 for health in off}


def camera_lost(
    health: CameraHealth,
    settings: InputSettings,
    start_ns: int = 0,
    cameras: Iterable[CameraHealth] = (),
    before: CameraHealth | None = None,
) -> Finding:
    """No frame for longer than the limit; its onset is the last frame, or the episode's start if that is later.

    Where only a clock is off, its own or that of another camera by which time went on, the reason says so; likewise
    where frames came since the health ``before``, but with stamps that are of no use.
    """
    since_ns = max(health.last_frame_ns or 0, start_ns)
    age_s = (health.stamp_ns - since_ns) / _NS
    if age_s >= settings.camera_lost_s:
        words, values = clock_trouble(cameras or [health])
        if stamps := stamp_words(health, before):
            words = f"; {stamps}{words}"
        return Finding(
            health.stamp_ns,
            Severity.ERROR,
            over=False,
            onset_ns=since_ns,
            reason=f"camera {health.camera}: no frame for {age_s:.1f} s{words}",
            values={"age_s": age_s, **values},
        )
    return Finding(health.stamp_ns, None, over=True, reason=f"camera {health.camera}: frames arrive again")


def camera_frozen(health: CameraHealth, settings: InputSettings) -> Finding:
    """Identical frames with advancing stamps."""
    words = "the same picture for {held:.1f} s while stamps advance"
    return _held(health, health.frozen_since_ns, settings.camera_frozen_s, words, "the picture changes again")


def camera_dark(health: CameraHealth, settings: InputSettings) -> Finding:
    """Exposure collapsed or the lens is covered."""
    seen = {"luminance": health.luminance or 0.0, "contrast": health.contrast or 0.0}
    words = "picture is dark or covered for {held:.1f} s"
    return _held(health, health.dark_since_ns, settings.camera_dark_s, words, "the picture is back", seen)


def _held(
    health: CameraHealth, since_ns: int | None, limit_s: float, bad: str, good: str, seen: Mapping[str, float] = {}
) -> Finding:
    """A condition of the newest pictures that has held for long enough, counted in the camera's own stamps."""
    if since_ns is not None and health.last_frame_ns is not None:
        held_s = (health.last_frame_ns - since_ns) / _NS
        if held_s >= limit_s:
            return Finding(
                health.stamp_ns,
                Severity.ERROR,
                over=False,
                onset_ns=since_ns,
                reason=f"camera {health.camera}: {bad.format(held=held_s)}",
                values={"held_s": held_s, **seen},
            )
    return Finding(health.stamp_ns, None, over=since_ns is None, reason=f"camera {health.camera}: {good}")


def joints_lost(
    now_ns: int, last_ns: int | None, settings: InputSettings, cameras: Iterable[CameraHealth] = (), stamps: str = ""
) -> Finding:
    """No joint state for longer than the limit; judged only once joints have been seen.

    The cameras say whether it is only a clock, ``stamps`` what is wrong with the joints' own (`stamp_words`).
    """
    if last_ns is None:
        return Finding(now_ns, None, over=False)
    age_s = (now_ns - last_ns) / _NS
    if age_s >= settings.joints_lost_s:
        words, values = clock_trouble(cameras)
        words = f"; {stamps}{words}" if stamps else words
        return Finding(
            now_ns,
            Severity.ERROR,
            over=False,
            onset_ns=last_ns,
            reason=f"no joint state for {age_s:.1f} s{words}",
            values={"age_s": age_s, **values},
        )
    return Finding(now_ns, None, over=True, reason="joint states arrive again")


def joint_missing(health: JointHealth, joint: str, settings: InputSettings) -> Finding:
    """One joint left the stream while others are in it: no row of the joint grid can be formed without it."""
    now_ns = health.last_stamp_ns or 0
    since_ns = health.missing_since_ns.get(joint)
    if since_ns is None:
        return Finding(now_ns, None, over=True, reason=f"joint {joint} is there again")
    age_s = (now_ns - since_ns) / _NS
    if age_s < settings.joints_lost_s:
        return Finding(now_ns, None, over=False)
    return Finding(
        now_ns,
        Severity.ERROR,
        over=False,
        onset_ns=since_ns,
        reason=f"joint {joint} is missing for {age_s:.1f} s while others arrive: no motion figures without it",
        values={"age_s": age_s},
    )


def model_silent(
    now_ns: int,
    last_ns: int | None,
    start_ns: int,
    limit_s: float,
    *,
    lost: bool = False,
    cameras: Iterable[CameraHealth] = (),
) -> Finding:
    """MODEL_LATE or (``lost=True``) MODEL_LOST: the newest estimate with a value is older than the limit.

    Before the first estimate the episode's start counts, so a model that never answers is found too.
    """
    since_ns = start_ns if last_ns is None else last_ns
    age_s = (now_ns - since_ns) / _NS
    if age_s >= limit_s:
        what = "the progress model is gone" if lost else "the progress model is late"
        words, values = clock_trouble(cameras)
        return Finding(
            now_ns,
            Severity.ERROR if lost else Severity.WARN,
            over=False,
            onset_ns=since_ns,
            reason=f"{what}: no estimate for {age_s:.1f} s"
            + ("; going on with the joints alone" if lost else "")
            + words,
            values={"age_s": age_s, **values},
        )
    return Finding(now_ns, None, over=last_ns is not None, reason="estimates arrive again")


_INVALID = {
    "non_finite": "{:.3g} with values that are not finite",
    "malformed": "{:.3g} whose arrays do not fit their names",
    "unstamped": "{:.3g} whose header stamps are zero: the driver does not fill them in",
    "stray": "{:.3g} with a stamp far from the others (a second publisher on another clock?)",
}
"""Counts of `JointHealth` that make a stream invalid, and what each is called."""


VISITS = 3
VISITS_NS = 5 * _NS
"""So many positions that cannot be, within so long, are no lone glitch."""


class JointsInvalidDetector:
    """The joint stream carries non-finite or malformed values, stamps that cannot be, or positions that cannot be."""

    def __init__(self, settings: InputSettings) -> None:
        self._settings = settings
        self._before: JointHealth | None = None
        self._visits: deque[tuple[int, int]] = deque()  # stamp and count of implausible messages

    def update(self, summary: KinematicSummary) -> Finding:
        """Judge what came since the summary before, in whole messages: a bad one spoils each of its joints."""
        stamp_ns, health = summary.stamp_ns, summary.health
        joints = max(1, len(summary.joint_names))
        before, self._before = self._before, health
        if before is None or health.received <= before.received:
            return Finding(stamp_ns, None, over=False)
        received = health.received - before.received
        found = {name: float(getattr(health, name) - getattr(before, name)) for name in _INVALID}
        found["non_finite"] /= joints
        bad = sum(found.values())
        visits = self._visits_until(stamp_ns, health.implausible - before.implausible)
        if visits >= VISITS:
            return Finding(
                stamp_ns,
                Severity.ERROR,
                over=False,
                reason=f"joint {health.implausible_joint} jumps away and back, {visits} times in the last "
                f"{VISITS_NS // _NS} s: most likely two publishers of the same joints; "
                "rollout-monitor doctor names them",
                values={"implausible": float(visits)},
            )
        if bad >= self._settings.joints_invalid_share * received:
            return Finding(
                stamp_ns,
                Severity.ERROR,
                over=False,
                reason=f"joint states that cannot be used, {bad:.3g} in {received} messages: "
                + ", ".join(words.format(found[name]) for name, words in _INVALID.items() if found[name] > 0),
                values={"bad": bad, "received": float(received), **{name: n for name, n in found.items() if n > 0}},
            )
        return Finding(stamp_ns, None, over=True, reason="joint states are sound again")

    def _visits_until(self, stamp_ns: int, count: int) -> int:
        if count > 0:
            self._visits.append((stamp_ns, count))
        while self._visits and self._visits[0][0] < stamp_ns - VISITS_NS:
            self._visits.popleft()
        return sum(one for _, one in self._visits)
