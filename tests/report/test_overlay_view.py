"""What is kept of what the monitor says, in bounded memory; the words for it; the markers beside the arm."""

from __future__ import annotations

import html
import math
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from overlay_examples import alarm, live, status

from rollout_monitor.errors import InputError
from rollout_monitor.records import EpisodeState, Event, EventKind, Outcome, Severity
from rollout_monitor.report.overlay import rerun_stream
from rollout_monitor.report.overlay.markers import Part, Place, Shape, markers
from rollout_monitor.report.overlay.symbols import STATE_LOOKS
from rollout_monitor.report.overlay.view import ERROR_SHOWN_S, Age, LiveView, Trace, ViewState
from rollout_monitor.report.overlay.words import (
    KINDS,
    MOST_CHARACTERS,
    age_line,
    alarm_text,
    ascii_text,
    lines,
    rich_text,
    state_word,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1)), max_size=80))
def test_a_long_curve_stays_small_in_order_and_keeps_its_extremes(points: list[tuple[float, float]]) -> None:
    trace, taken = Trace(most=20), []
    for at_s, value in points:
        if not taken or at_s > taken[-1][0]:
            taken.append((at_s, value))
        trace.add(at_s, value)
        assert len(trace.points) <= 20
    kept = trace.points
    assert list(kept) == sorted(set(kept)) and set(kept) <= set(taken)
    if taken:
        for extreme in (min, max):
            assert extreme(v for _, v in kept) == extreme(v for _, v in taken)


def test_a_new_attempt_begins_a_new_curve() -> None:
    view = live()
    assert len(view.view().curve) == 4
    view.on_status(status(0.0, episode_id="take-2", progress=0.1))
    assert view.view().curve == ((0.0, 0.1),)
    view.on_status(status(5.0, episode_id="take-2", progress=0.2))
    view.on_status(status(1.0, episode_id="take-2", progress=0.3))  # a bag that loops
    assert view.view().curve == ((1.0, 0.3),)


def outcome_event(kind: EventKind, at_s: float, episode: str = "take-1") -> Event:
    at_ns = round(at_s * 1e9)
    severity = Severity.ERROR if kind is EventKind.FAILURE else Severity.INFO
    event = alarm(kind, severity, "decided")
    return event.model_copy(update={"episode_id": episode, "detected_ns": at_ns, "cleared_ns": at_ns})


def test_the_outcome_is_shown_when_its_attempt_has_ended() -> None:
    view = live()
    view.on_event(outcome_event(EventKind.SUCCESS, 24.0))
    assert view.view().outcome is None and state_word(view.view()) == "RUNNING"
    view.on_status(status(24.0, state=EpisodeState.ENDED))
    assert view.view().outcome is Outcome.SUCCESS and state_word(view.view()) == "SUCCESS"
    view.on_status(status(0.0, episode_id="take-2", state=EpisodeState.ENDED))
    assert view.view().outcome is None and state_word(view.view()) == "ENDED"


def test_an_error_is_one_while_it_lasts_or_is_fresh() -> None:
    view = live()
    assert not view.view().error
    view.on_event(outcome_event(EventKind.FAILURE, 24.0))
    assert view.view().error
    assert not view.view(now_ns=round((24.0 + ERROR_SHOWN_S + 0.1) * 1e9)).error
    assert live(alarms=[alarm(EventKind.MODEL_LOST, Severity.ERROR, "gone")]).view(now_ns=10**15).error
    assert not live(alarms=[alarm(EventKind.STALL, Severity.WARN, "slow")]).view().error


def test_a_smoothness_that_is_no_number_is_unknown() -> None:
    view = LiveView()
    view.on_status(status(0.0, smoothness=-math.inf))
    assert view.view().smoothness is None


# --- words -------------------------------------------------------------------------------------------------------


def test_every_kind_and_state_has_its_word_and_look() -> None:
    assert set(KINDS) == set(EventKind)
    assert set(STATE_LOOKS) == {None, *EpisodeState}
    words = {state_word(ViewState(state=state)) for state in (None, *EpisodeState)}
    assert len(words) == len(EpisodeState) + 1


@settings(max_examples=60)
@given(st.text(max_size=60), st.integers(10, 50))
def test_any_text_becomes_one_short_line_of_ascii(text: str, most: int) -> None:
    line = ascii_text(text, most)
    assert line.isascii() and (line.isprintable() or not line)
    assert len(line) <= most and line == line.strip()


def test_letters_keep_what_can_be_kept() -> None:
    assert ascii_text("été à Zürich") == "ete a Zurich"
    assert ascii_text("拿 cup \U0001f600") == "? cup ?"
    assert ascii_text("x" * 10_000, 20) == "x" * 17 + "..."
    assert len(ascii_text("x" * 10_000)) == MOST_CHARACTERS
    assert ascii_text("a\r\n\tb\x00c\u202e") == "a b c"


def test_lines_say_all_and_are_escaped_for_html() -> None:
    view = live(task="<b>bold</b>", alarms=[alarm(EventKind.STALL, Severity.WARN, "a < b")]).view(
        [Age("estimate", 7.0)]
    )
    said = lines(view)
    assert said[0] == "RUNNING  24.0 s" and said[1] == "<b>bold</b>"
    assert "47 %   MP 66 %   drawdown 19 %" in said and "[!] NO PROGRESS: a < b" in said
    assert said[-1] == "[!] NO NEW ESTIMATE for 7.0 s"
    assert "<" not in rich_text(view) and html.unescape(rich_text(view)) == "\n".join(said)
    assert age_line(view) == "DATA 7.0 S OLD" and age_line(ViewState()) == ""
    assert alarm_text(alarm(EventKind.CONTACT, Severity.WARN, "")) == "CONTACT"


# --- markers -----------------------------------------------------------------------------------------------------


def test_the_bar_in_3d_is_as_high_as_progress() -> None:
    place = Place("base_link", x=1.0, y=2.0, z=0.5, height=0.8)
    made = {marker.part: marker for marker in markers(live().view(), place)}
    assert set(made) == set(Part) - {Part.HOOP}
    fill, track = made[Part.FILL], made[Part.TRACK]
    assert fill.scale[2] == pytest.approx(0.47 * 0.8)
    assert fill.position[2] - fill.scale[2] / 2 == pytest.approx(0.5), "it stands on the foot"
    assert track.scale[2] == 0.8 and track.position == (1.0, 2.0, pytest.approx(0.9))
    ticks = [made[Part.TICKS].points[index][2] for index in range(0, 8, 2)]
    assert ticks == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert made[Part.BEST].points[0][2] == pytest.approx(0.66 * 0.8)
    assert made[Part.TEXT].text == "RUNNING\n47 %"


def test_markers_of_nothing_and_of_an_error() -> None:
    place = Place("tool0")
    assert markers(ViewState(), place) == ()
    unknown = markers(ViewState(state=EpisodeState.RUNNING, stamp_ns=0), place)
    assert {marker.part for marker in unknown} == {Part.TRACK, Part.TICKS, Part.TEXT}
    hoop = next(m for m in markers(ViewState(state=EpisodeState.RUNNING, error=True), place) if m.part is Part.HOOP)
    assert hoop.shape is Shape.LINE_STRIP and hoop.points[0] == hoop.points[-1]
    assert all(math.hypot(x, y) == pytest.approx(place.hoop_radius) for x, y, _ in hoop.points)
    assert hoop.colour[0] > 0.8 and max(hoop.colour[1:3]) < 0.2


def test_part_numbers_never_change() -> None:
    """Of an older node's markers, which a newer one replaces."""
    assert [part.name for part in Part] == ["TRACK", "FILL", "TICKS", "BEST", "TEXT", "HOOP"]
    assert [int(part) for part in Part] == list(range(6))


# --- rerun -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["file.txt", "http://127.0.0.1:9876", ""])
def test_what_is_no_rerun_target_is_refused(target: str) -> None:
    with pytest.raises(InputError, match="rerun target"):
        rerun_stream.RerunStream(target)


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(InputError, match=r"extra \[rerun\]"):
        rerun_stream.RerunStream("take.rrd")
