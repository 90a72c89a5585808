"""Geometry: nothing that the eye needs is lost when a curve is thinned, labels do not collide."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_examples import at, event, long_report, success_report

from rollout_monitor.records import CurvePoint, Event, EventKind, Severity
from rollout_monitor.report import drawing
from rollout_monitor.report.drawing import TimeAxis

NS = 1_000_000_000


def points_of(path: str) -> np.ndarray:
    return np.array([[float(a), float(b)] for a, b in re.findall(r"([-\d.]+) ([-\d.]+)", path)])


def curve(values: list[float], rate_hz: float = 10.0) -> list[CurvePoint]:
    return [CurvePoint(stamp_ns=at(i / rate_hz), raw=v, live=v, final=v) for i, v in enumerate(values)]


def axis_over(seconds: float) -> TimeAxis:
    return TimeAxis(at(0), at(0), round(seconds * NS))


@settings(max_examples=30, deadline=None)
@given(count=st.integers(1, 9000), seed=st.integers(0, 2**32 - 1))
def test_thinning_keeps_every_extreme(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.2, 0.8, count)
    values[rng.integers(0, count)] = 0.99  # a single spike
    values[rng.integers(0, count)] = 0.01
    made = curve(values.tolist())
    drawn = drawing.draw_curve(made, axis_over(max(count - 1, 1) / 10))
    assert drawn is not None
    xy = points_of(drawn.final)
    assert len(xy) <= 4 * drawing.COLUMNS + 4
    assert xy[:, 1].min() == pytest.approx(100 * (1 - values.max()), abs=0.006)
    assert xy[:, 1].max() == pytest.approx(100 * (1 - values.min()), abs=0.006)
    assert drawn.thinned == (count > 2000)
    assert (np.diff(xy[:, 0]) >= 0).all()


def test_a_hole_is_not_bridged() -> None:
    values = [0.1] * 20 + [0.5] * 20
    made = curve(values)
    made = made[:20] + [p.model_copy(update={"stamp_ns": p.stamp_ns + 5 * NS}) for p in made[20:]]
    drawn = drawing.draw_curve(made, axis_over(9))
    assert drawn is not None
    assert drawn.final.count("M") == 2


def test_band_spans_lower_to_upper() -> None:
    made = [p.model_copy(update={"lower": 0.25, "upper": 0.75}) for p in curve([0.5] * 50)]
    drawn = drawing.draw_curve(made, axis_over(4.9))
    assert drawn is not None
    assert set(points_of(drawn.band)[:, 1]) == {25.0, 75.0}
    alone = drawing.draw_curve(curve([0.5] * 50), axis_over(4.9))
    assert alone is not None
    assert alone.band == ""


def test_drawdowns_are_where_they_are() -> None:
    values = [0.0, 0.4, 0.8, 0.3, 0.5, 0.9, 0.7]
    drawn = drawing.draw_curve(curve(values, rate_hz=1.0), axis_over(6))
    assert drawn is not None
    assert drawn.maximum is not None
    assert drawn.current is not None
    assert (drawn.maximum.left, drawn.maximum.top, drawn.maximum.bottom) == (50.0, 20.0, 70.0)
    assert drawn.maximum.depth == pytest.approx(0.5)
    assert (drawn.current.left, drawn.current.depth) == (100.0, pytest.approx(0.2))
    rising = drawing.draw_curve(curve([0.1, 0.2, 0.9]), axis_over(0.2))
    assert rising is not None
    assert rising.maximum is None
    assert rising.current is None
    falling = drawing.draw_curve(curve([0.9, 0.5, 0.1]), axis_over(0.2))
    assert falling is not None
    assert falling.maximum is not None
    assert falling.current is None, "the end is the deepest: marked once"


@settings(max_examples=80, deadline=None)
@given(
    times=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 40), st.booleans()), max_size=30),
)
def test_spans_and_labels_do_not_overlap(times: list[tuple[float, float, bool]]) -> None:
    events: list[Event] = [
        event(n, EventKind.STALL, Severity.WARN, on, on, None if ends else on + length, "x")
        for n, (on, length, ends) in enumerate(sorted(times))
    ]
    spans = drawing.lay_out_events(events, axis_over(100), at(100))
    label = drawing.LABEL_WIDTH * 100
    taken: dict[int, float] = {}
    for span in spans:
        assert 0 <= span.left <= 100
        assert span.left + span.width <= 100.001
        assert 0 <= span.lane < drawing.MOST_LANES
        if span.labelled:
            begin = span.left - label if span.to_the_left else span.left
            assert begin >= taken.get(span.lane, -label) - 1e-6
        end = span.left + span.width + (0 if span.to_the_left else label)
        taken[span.lane] = max(taken.get(span.lane, -1), end)
    assert [span.number for span in spans] == list(range(1, len(events) + 1))


@settings(max_examples=100, deadline=None)
@given(start=st.floats(-50, 0), span=st.floats(0.001, 1e5))
def test_ticks_are_round_few_and_inside(start: float, span: float) -> None:
    axis = TimeAxis(at(start), at(0), max(round(span * NS), 1))
    ticks = axis.ticks()
    assert len(ticks) <= 10
    for left, seconds in ticks:
        assert -0.01 <= left <= 100.01
        assert seconds == pytest.approx(start + left / 100 * span, abs=1e-3 * span + 1e-3)


def test_axis_is_widened_for_data_outside() -> None:
    made = success_report()
    late = made.model_copy(update={"end_ns": at(10), "speed": [(at(-1.0), 0.1), (at(30.0), 0.2)]})
    axis = drawing.time_axis(late)
    assert (axis.start_ns, axis.start_ns + axis.span_ns) == (at(-1.0), at(30.0))
    assert axis.zero_ns == at(0)


def test_speed_strip_leaves_out_what_is_no_number() -> None:
    strip = drawing.draw_speed([(at(0), 0.2), (at(1), float("nan")), (at(2), 0.37)], axis_over(2))
    assert strip is not None
    assert (strip.samples, strip.top) == (2, 0.5)
    assert drawing.draw_speed([(at(0), float("nan"))], axis_over(2)) is None
    still = drawing.draw_speed([(at(0), 0.0), (at(1), 0.0)], axis_over(1))
    assert still is not None
    assert still.top == 1.0


def test_hover_samples_are_bounded() -> None:
    made = long_report(hours=0.5)
    table = drawing.hover_samples(made, drawing.time_axis(made))
    lengths = {len(column) for column in table.values()}
    assert lengths == {drawing.HOVER_SAMPLES}
    assert table["t"][0] == 0.0
    assert table["t"][-1] == 1800.0
