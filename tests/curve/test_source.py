"""From model output and files to curves."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.curve.source import DeltaAccumulator, accumulate, from_progress, fuse, normalise, read_curve
from rollout_monitor.errors import InputError
from rollout_monitor.records import Label


def test_a_series_is_percent_as_a_whole() -> None:
    assert normalise([0.5, 1.0, 3.0, 100.0]).tolist() == [0.005, 0.01, 0.03, 1.0]
    assert normalise([0.5, 1.5, -1.5]).tolist() == [0.5, 1.5, -1.5]
    assert normalise([0.5, 1.0], unit="percent").tolist() == [0.005, 0.01]
    assert normalise([50.0], unit="fraction").tolist() == [50.0]
    assert from_progress([-4.0, 50.0, 104.0]).tolist() == [0.0, 0.5, 1.0]


def test_summed_changes_are_clipped_only_where_they_are_handed_out() -> None:
    assert accumulate([60, 60, -30], how="sum") == pytest.approx([0.6, 1.0, 0.9])
    assert accumulate([0.6, 0.6, -0.3], how="sum") == pytest.approx([0.6, 1.0, 0.9])


def test_pair_style_changes() -> None:
    assert accumulate([0.5, 0.5, -0.5]) == pytest.approx([0.5, 0.75, 0.375])
    assert accumulate([50, 50, -50]) == pytest.approx([0.5, 0.75, 0.375])
    assert accumulate([-0.2, 0.5]) == pytest.approx([0.0, 0.5])
    assert accumulate([0.1, 0.4, 0.3], how="forward") == pytest.approx([0.1, 0.4, 0.3])
    assert accumulate([-0.9, -0.2, 0.0], how="backward") == pytest.approx([0.1, 0.8, 1.0])
    assert fuse([np.array([0.0, 0.3]), np.array([0.3, 0.3]), np.array([0.6, 0.9])]) == pytest.approx([0.3, 0.5])


@settings(deadline=None)
@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=50), st.sampled_from(["incremental", "forward", "backward"]))
def test_accumulated_changes_are_a_curve(changes, how) -> None:
    curve = accumulate(changes, how=how, unit="fraction")
    assert curve.min() >= 0.0
    assert curve.max() <= 1.0
    live = DeltaAccumulator(how)
    assert [live.update(h) for h in changes] == curve.tolist()


def test_an_answer_that_could_not_be_read_is_no_number_and_moves_nothing() -> None:
    live = DeltaAccumulator(unit="percent")
    assert live.update(40) == pytest.approx(0.4)
    assert live.update(None) is None
    assert live.update(50) == pytest.approx(0.7)
    for bad in (math.nan, 140):
        with pytest.raises(InputError):
            live.update(bad)
    assert live.update(0) == pytest.approx(0.7)
    with pytest.raises(InputError, match="sample 1 is missing"):
        accumulate([0.1, None, 0.2])
    with pytest.raises(InputError, match="sample 1"):
        accumulate([0.1, -1.2], unit="fraction")
    with pytest.raises(InputError, match="same length"):
        fuse([np.array([0.1]), np.array([0.1, 0.2])])


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", "[0.1, 0.5, 1]"),
        ("a.json", "[10, 50, 100]"),
        ("a.json", '{"progress": [0.1, 0.5, 1.0], "label": null}'),
        ("a.json", '[{"progress": 0.1}, {"progress": 0.5}, {"progress": 1}]'),
        ("a.json", '{"deltas": [10, 40, 60]}'),
        ("a.csv", "0.1\n0.5\n1.0\n"),
        ("a.csv", "value\n0.1\n0.5\n1.0\n"),
        ("a.csv", "step,progress\r\n1,0.1\r\n2,0.5\r\n3,1\r\n"),
        ("a.csv", "step,StepProgress\r1,10\r2,50\r3,100\r"),
        ("a.csv", "\ufeffp\n0.1\n\n0.5\n1\n"),
    ],
)
def test_every_form_of_file_gives_the_curve(tmp_path, name, text) -> None:
    held = read_curve(write(tmp_path, name, text))
    assert held.progress == pytest.approx([0.1, 0.5, 1.0])
    assert held.stamps_ns is None
    assert held.label is None


def test_stamps_and_labels_are_read(tmp_path) -> None:
    big = 1_700_000_000_123_456_789
    held = read_curve(
        write(tmp_path, "a.json", json.dumps({"progress": [0, 1], "stamps_ns": [big, big + 1], "label": "failure"}))
    )
    assert held.stamps_ns.tolist() == [big, big + 1]
    assert held.label is Label.FAILURE
    held = read_curve(write(tmp_path, "a.csv", f"stamp_ns,p,EpisodeSuccess\n{big},0,1\n{big + 1},1,1\n"))
    assert held.stamps_ns.tolist() == [big, big + 1]
    assert held.label is Label.SUCCESS
    assert read_curve(write(tmp_path, "b.csv", "t,p\n0.5,0\n1.5,1\n")).stamps_ns.tolist() == [
        500_000_000,
        1_500_000_000,
    ]
    report = {"curve": [{"stamp_ns": 5, "raw": 0.25, "live": 0.1}, {"stamp_ns": 9, "raw": 0.5}], "label": "success"}
    held = read_curve(write(tmp_path, "r.json", json.dumps(report)))
    assert (held.progress.tolist(), held.stamps_ns.tolist(), held.label) == ([0.25, 0.5], [5, 9], Label.SUCCESS)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.json", "[]", "empty"),
        ("a.json", "[0.1, NaN]", "sample 1 is nan"),
        ("a.json", "[0.1, null]", "sample 1 is missing"),
        ("a.json", '[0.1, "0.2"]', "sample 1"),
        ("a.json", "[0.1, true]", "sample 1"),
        ("a.json", "[0.1, 1.2]", "sample 1 is 1.2"),
        ("a.json", "[10, 120]", "sample 1 is 1.2"),
        ("a.json", "[0.1", "line 1"),
        ("a.json", "7", "list of numbers"),
        ("a.json", '{"x": 1}', "progress"),
        ("a.json", '[{"progress": 0.1}, {}]', "sample 1"),
        ("a.json", '{"progress": [0.1, 0.2], "stamps_ns": [1]}', "2 samples but 1 stamps"),
        ("a.json", '{"progress": [0.1, 0.2], "stamps_ns": [1, 1]}', "sample 1"),
        ("a.json", '{"progress": [0.1], "stamps_ns": [0.5]}', "sample 0"),
        ("a.json", '{"progress": [0.1], "label": "maybe"}', "maybe"),
        ("a.csv", "", "empty"),
        ("a.csv", "p\n", "empty"),
        ("a.csv", "t,p\n0,0.1\n1,\n", "line 3: sample 1 is missing"),
        ("a.csv", "t,p\n0,0.1\n1\n", "line 3: sample 1 is missing"),
        ("a.csv", "t,p\n0,0.1\n1,abc\n", "line 3: sample 1 is 'abc'"),
        ("a.csv", "p\n0.1\ninf\n", "line 3: sample 1 is inf"),
        ("a.csv", "a,b\n1,2\n", "no progress column"),
        ("a.csv", "p,label\n0.1,success\n0.2,failure\n", "one outcome"),
        ("a.csv", "stamp_ns,p\n0.5,0.1\n", "stamp_ns"),
        ("a.txt", "0.1", "json or .csv"),
    ],
)
def test_bad_files_are_errors_that_name_file_and_place(tmp_path, name, text, says) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(InputError, match=says) as error:
        read_curve(path)
    assert str(path) in str(error.value)


def test_unreadable_files_are_errors(tmp_path) -> None:
    with pytest.raises(InputError, match=r"gone\.json"):
        read_curve(tmp_path / "gone.json")
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"p\n\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        read_curve(binary)


def test_values_outside_are_pulled_in_only_on_demand(tmp_path) -> None:
    path = write(tmp_path, "a.json", "[-0.2, 1.2]")
    assert read_curve(path, clip=True).progress.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("huge.json", "[" + "9" * 400 + ", 0.1]", "too large"),
        ("deep.json", "[" * 100_000 + "]" * 100_000, "no JSON that can be read"),
        ("digits.json", '{"progress": [0.1, ' + "9" * 5000 + "]}", "cannot|can be read|too large"),
        ("field.csv", "progress\n" + "1" * 200_000 + "\n", "no CSV that can be read"),
        ("time.csv", "t,progress\n0,0.1\n1e300,0.2\n", "line 3: the time"),
    ],
)
def test_absurd_files_are_an_error_that_names_them(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words) as raised:
        read_curve(path)
    assert name in str(raised.value)
