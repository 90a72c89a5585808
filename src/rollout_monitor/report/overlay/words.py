"""Plain words for states and alarms, and text from outside made fit for fonts that know ASCII only."""

from __future__ import annotations

import html
import unicodedata

from rollout_monitor.records import EpisodeState, Event, EventKind, Outcome, Severity
from rollout_monitor.report.overlay.view import Age, ViewState

MOST_CHARACTERS = 200
"""Of a text from outside; more fits on no line here."""

KINDS = {
    EventKind.STALL: "no progress",
    EventKind.DRAWDOWN: "progress lost",
    EventKind.PLATEAU_DONE: "looks done",
    EventKind.SUCCESS: "success",
    EventKind.FAILURE: "failure",
    EventKind.TIMEOUT: "over time",
    EventKind.ROUGH_MOTION: "rough motion",
    EventKind.CONTACT: "contact",
    EventKind.CAMERA_LOST: "no camera picture",
    EventKind.CAMERA_FROZEN: "camera frozen",
    EventKind.CAMERA_DARK: "camera dark",
    EventKind.JOINTS_LOST: "no joint data",
    EventKind.JOINTS_INVALID: "joint data wrong",
    EventKind.MODEL_LATE: "estimates late",
    EventKind.MODEL_LOST: "no estimates",
    EventKind.CLOCK_JUMP: "clock jumped",
}
SEVERITY_MARKS = {Severity.INFO: "i", Severity.WARN: "!", Severity.ERROR: "X"}
_STATES = {
    EpisodeState.IDLE: "IDLE",
    EpisodeState.RUNNING: "RUNNING",
    EpisodeState.ENDED: "ENDED",
    EpisodeState.INTERRUPTED: "INTERRUPTED",
}
_OUTCOMES = {Outcome.SUCCESS: "SUCCESS", Outcome.FAILURE: "FAILURE", Outcome.UNDECIDED: "UNDECIDED"}
WAITING = "NO MONITOR"


def ascii_text(text: str, most: int = MOST_CHARACTERS) -> str:
    """Text from outside as one line of printable ASCII: accents go, what has no letter becomes ``?``.

    Args:
        text: anything.
        most: longest result in characters; a longer text ends in ``...``.
    """
    head = unicodedata.normalize("NFKD", text[: 4 * most])  # bounded before anything walks through it
    letters = (letter for letter in head if not unicodedata.combining(letter))
    line = " ".join("".join(_letter(letter) for letter in letters).split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 3]}..."


def _letter(letter: str) -> str:
    if not letter.isprintable():
        return " " if letter.isspace() or ord(letter) < 0x20 else ""
    return letter if letter.isascii() else " " if letter.isspace() else "?"


def state_word(view: ViewState) -> str:
    """The state in one or two words; an outcome takes the place of ENDED."""
    if view.state is None:
        return WAITING
    if view.outcome is not None and view.state is EpisodeState.ENDED:
        return _OUTCOMES[view.outcome]
    return _STATES[view.state]


def alarm_text(event: Event) -> str:
    """What an alarm is and why it was raised, in one line of ASCII."""
    subject = f" ({ascii_text(event.subject, 40)})" if event.subject else ""
    reason = f": {ascii_text(event.reason)}" if event.reason else ""
    return f"{KINDS[event.kind].upper()}{subject}{reason}"


def age_text(seconds: float) -> str:
    """An age for people: ``0.4 s``, ``12 s``, ``3 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def age_line(view: ViewState) -> str:
    """How old what is shown is, in capitals where it is too old; empty where nothing should be there."""
    if view.oldest_s is None:
        return ""
    line = f"data {age_text(view.oldest_s)} old"
    return line.upper() if view.old else line


def old_text(age: Age) -> str:
    """What does not come any more, and for how long."""
    return f"NO NEW {age.what.upper()} for {age_text(age.seconds)}"


def percent(value: float | None) -> str:
    """A share in whole percent; ``--`` where it is not known."""
    return "--" if value is None else f"{100 * value:.0f} %"


def lines(view: ViewState) -> list[str]:
    """The whole view in a few lines of ASCII, for displays that can only write."""
    head = f"{state_word(view)}  {view.elapsed_s:.1f} s" if view.state is not None else state_word(view)
    said = [head, *([ascii_text(view.task, 80)] if view.task else [])]
    said.append(f"{percent(view.progress)}   MP {percent(view.mp)}   drawdown {percent(view.drawdown)}")
    said.append("smoothness " + ("--" if view.smoothness is None else f"{view.smoothness:.1f}"))
    said += [f"[{SEVERITY_MARKS[event.severity]}] {alarm_text(event)}" for event in view.alarms]
    said += [f"[!] {old_text(age)}" for age in view.old]
    return said


def rich_text(view: ViewState) -> str:
    """The lines for a display that takes its text for HTML (`rviz_2d_overlay_plugins` does): escaped."""
    return "\n".join(html.escape(line) for line in lines(view))
