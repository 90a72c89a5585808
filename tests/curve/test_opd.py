"""OPD metrics: the given values, a plain reference, streaming against batch, bounds, absence, bad input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from reference import reference

from rollout_monitor.curve import CONVENTIONS, OpdSettings, StreamingOpd, compute, compute_many, prefixes
from rollout_monitor.errors import InputError
from rollout_monitor.records import Label, OpdMetrics

A = [0.0, 0.2, 0.5, 0.4, 0.4, 0.7, 0.3, 0.6, 1.0]
B = [0.1, 0.5, 0.9, 0.1, 0.1]

# Curves with many ties, plateaus and exact repeats beside arbitrary ones: t* must be the first of equal drawdowns.
steps = st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.99, 1.0, 0.004, 0.005, 0.3])
curves = st.lists(st.one_of(steps, st.floats(0.0, 1.0)), min_size=1, max_size=40)
conventions = st.sampled_from(CONVENTIONS)
labels = st.sampled_from([None, Label.SUCCESS, Label.FAILURE])


def dump(metrics: OpdMetrics) -> dict[str, Any]:
    return {k: v for k, v in metrics.model_dump(mode="json").items() if k not in ("schema_version", "convention")}


def assert_close(found: dict[str, Any], wanted: dict[str, Any], tolerance: float = 1e-9) -> None:
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        if isinstance(value, float) and found[key] is not None:
            assert found[key] == pytest.approx(value, rel=tolerance, abs=tolerance), key
        else:
            assert found[key] == value, key


@pytest.mark.parametrize(
    ("curve", "convention", "ppl", "cra", "str_", "drr", "fns", "sqs"),
    [
        (A, "paper", 0.5, 0.0777778, 0.125, 1.0, None, 0.7016667),
        (A, "toolkit", 0.5, 0.0777778, 0.2222222, 1.0, None, 0.6822222),
        ([0.0, 0.0, 0.0], "paper", 0.0, 0.0, 1.0, None, 0.0, None),
        (B, "paper", 0.50625, 0.3555556, 0.25, 0.0, 0.95, None),
        (B, "toolkit", 0.4764706, 0.3555556, 0.2, 1.25e-6, 0.95, None),
    ],
)
def test_the_values_of_the_definitions(curve, convention, ppl, cra, str_, drr, fns, sqs) -> None:
    settings = OpdSettings.for_convention(convention)
    live = StreamingOpd(settings)
    for p in curve:
        live.update(p)
    for metrics in (compute(curve, settings), live.metrics()):
        for name, wanted in (("ppl", ppl), ("cra", cra), ("str_", str_), ("drr", drr), ("fns", fns), ("sqs", sqs)):
            found = getattr(metrics, name)
            if wanted is None:
                assert found is None, name
            elif name == "drr" and wanted < 1e-3:
                assert found == pytest.approx(wanted, rel=1e-4), name
            else:
                assert found == pytest.approx(wanted, abs=5e-8), name


@settings(deadline=None)
@given(curves, conventions, labels)
@example([0.5, 0.0, 0.5, 0.0, 0.25], "paper", None)  # two equal drawdowns: the first is t*, the recovery after it full
@example([1.0], "paper", None)
@example([0.0], "toolkit", None)
@example([0.7, 0.7], "paper", None)  # no path at all, yet progress
@example([5e-324, 0.0], "paper", None)
def test_batch_and_streaming_equal_the_plain_reference_at_every_prefix(curve, convention, label) -> None:
    settings = OpdSettings.for_convention(convention)
    live = StreamingOpd(settings)
    for t, p in enumerate(curve):
        live.update(p)
        wanted = reference(curve[: t + 1], convention, label.value if label else None)
        batch = compute(curve[: t + 1], settings, label)
        assert_close(dump(live.metrics(label)), wanted)
        assert_close(dump(batch), wanted)
        assert_close(dump(live.metrics(label)), dump(batch))
        assert live.mp == batch.mp
        assert live.max_drawdown == batch.max_drawdown
        assert live.drawdown == batch.mp - p
        assert live.count == t + 1


@settings(deadline=None)
@given(curves, conventions, labels)
def test_bounds_and_conditional_absence(curve, convention, label) -> None:
    metrics = compute(curve, OpdSettings.for_convention(convention), label)
    for name in ("mp", "ppl", "cra", "str_", "max_drawdown", "drr", "fns", "sqs"):
        value = getattr(metrics, name)
        assert value is None or 0.0 <= value <= 1.0, name
    assert metrics.tv >= 0.0
    assert 0 <= metrics.max_drawdown_index < len(curve)
    if convention == "toolkit-1.0":
        assert (metrics.drr, metrics.fns, metrics.sqs) == (None, None, None)
        return
    assert (metrics.fns is None) == metrics.success
    assert (metrics.sqs is None) == (not metrics.success)
    fell = any(max(curve[: t + 1]) - p > settings_floor(convention) for t, p in enumerate(curve))
    assert (metrics.drr is None) == (not fell)


def settings_floor(convention: str) -> float:
    return 0.0 if convention == "paper" else 1e-12


@settings(deadline=None)
@given(st.lists(curves, max_size=12), conventions)
def test_many_curves_of_any_lengths_equal_one_by_one(many, convention) -> None:
    settings = OpdSettings.for_convention(convention)
    given_labels = [(None, Label.SUCCESS, Label.FAILURE)[i % 3] for i in range(len(many))]
    arrays = compute_many(many, settings, given_labels)
    assert len(arrays) == len(many)
    for i, curve in enumerate(many):
        assert arrays.record(i) == compute(curve, settings, given_labels[i])


def test_a_rectangular_array_equals_one_by_one() -> None:
    block = np.random.default_rng(3).random((700, 300))  # more than one chunk
    arrays = compute_many(block)
    assert np.isnan(arrays.fns[arrays.success]).all()
    assert not np.isnan(arrays.mp).any()
    for i in (0, 1, 436, 437, 699):
        assert arrays.record(i) == compute(block[i])


@settings(deadline=None)
@given(curves, conventions)
def test_prefixes_are_the_metrics_of_each_prefix(curve, convention) -> None:
    settings = OpdSettings.for_convention(convention)
    for t, metrics in enumerate(prefixes(curve, settings)):
        assert_close(dump(metrics), dump(compute(curve[: t + 1], settings)))


def test_streaming_takes_constant_memory() -> None:
    live = StreamingOpd()
    assert not hasattr(live, "__dict__")
    rng = np.random.default_rng(0)
    for p in rng.random(5000).tolist():
        live.update(p)
    held = [getattr(live, name) for name in StreamingOpd.__slots__]
    assert all(isinstance(value, int | float | bool | OpdSettings) for value in held)


def test_streaming_agrees_with_batch_on_a_long_stream() -> None:
    curve = np.random.default_rng(1).random(200_000)
    live = StreamingOpd()
    for p in curve.tolist():
        live.update(p)
    assert_close(dump(live.metrics()), dump(compute(curve)))


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize(("label", "success"), [(Label.SUCCESS, True), (Label.FAILURE, False)])
def test_a_label_decides_success_whatever_the_curve(convention, label, success) -> None:
    for curve in ([0.0, 0.1], [0.0, 1.0]):
        metrics = compute(curve, OpdSettings.for_convention(convention), label)
        assert metrics.success is success
        assert metrics.success_from == "label"


def test_the_success_threshold_belongs_to_the_convention_unless_given() -> None:
    assert compute([0.0, 0.99]).success
    assert not compute([0.0, 0.99], OpdSettings.for_convention("toolkit-1.0")).success
    assert OpdSettings(convention="toolkit-1.0", success_threshold=0.9).success_threshold == 0.9
    assert not compute([0.0, 0.9899]).success


def test_json_keys_are_the_aliases() -> None:
    keys = compute(A).model_dump(mode="json").keys()
    assert "str" in keys
    assert "str_" not in keys


@pytest.mark.parametrize(
    ("curve", "says"),
    [
        ([], "empty"),
        ([0.1, math.nan, 0.2], "sample 1"),
        ([0.1, 0.2, math.inf], "sample 2"),
        ([-0.01], "sample 0"),
        ([0.5, 1.0000001], "sample 1"),
        ([0.5, None], "sample 1 is missing"),
        ([0.5, "0.7"], "sample 1"),
        ([True, 0.5, "x"], "sample 0"),
        (0.5, "one row"),
        ([[0.5]], "one row"),
        ("curve", "sequence of numbers"),
    ],
)
def test_bad_curves_are_errors_that_name_the_sample(curve, says) -> None:
    with pytest.raises(InputError, match=says):
        compute(curve)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-9, 1.0 + 1e-9, None, "x"])
def test_a_bad_sample_leaves_the_stream_as_it_was(bad) -> None:
    live, twin = StreamingOpd(), StreamingOpd()
    for p in B:
        live.update(p)
        twin.update(p)
        with pytest.raises(InputError, match=f"sample {live.count}"):
            live.update(bad)
        assert live.metrics() == twin.metrics()


def test_no_sample_is_an_error() -> None:
    with pytest.raises(InputError, match="empty"):
        StreamingOpd().metrics()


def test_bad_curves_among_many_are_named() -> None:
    with pytest.raises(InputError, match=r"curve 1: sample 2 is nan"):
        compute_many(np.array([[0.1, 0.2, 0.3], [0.1, 0.2, math.nan]]))
    with pytest.raises(InputError, match=r"curve 1: sample 0 is 2"):
        compute_many([[0.1], [2.0, 0.1]])
    with pytest.raises(InputError, match="1 labels were given for 2 curves"):
        compute_many([[0.1], [0.2]], labels=[None])
    assert len(compute_many([])) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"eps": -0.1},
        {"eps": math.nan},
        {"success_threshold": 0.0},
        {"fns_mp": 0.9},
        {"convention": "x"},
        {"epsilon": 1},
    ],
)
def test_wrong_settings_are_refused(wrong) -> None:
    with pytest.raises(ValidationError):
        OpdSettings(**wrong)
