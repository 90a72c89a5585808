"""The label file: every mistake has a line number."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout_monitor.errors import InputError
from rollout_monitor.store.takes_labels import read_labels

WORDS = {True: ["true", "True", " yes", "1", "success", "SUCCEEDED"], False: ["false", "no ", "0", "fail", "Failure"]}
NAMES = {name: name for name in ("a", "b", "day 1/c", "ü,d")} | {"a.hdf5": "a"}


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    given_labels=st.dictionaries(
        st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1), st.tuples(st.booleans(), st.integers(0, 4))
    ),
    swapped=st.booleans(),
    ending=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig"]),
)
def test_what_is_written_is_read(
    tmp_path: Path, given_labels: dict[str, tuple[bool, int]], swapped: bool, ending: str, encoding: str
) -> None:
    rows = [["take", "success", "note"]]
    for name, (success, word) in given_labels.items():
        rows.append([name, WORDS[success][word], "x, y"])
    if swapped:
        rows = [[row[1], row[0], row[2]] for row in rows]
    out = io.StringIO()
    csv.writer(out, lineterminator=ending).writerows(rows)
    path = write(tmp_path / "labels.csv", out.getvalue(), encoding)
    claims = read_labels(path, {name: name for name in given_labels})
    assert {name: claim.success for name, claim in claims.items()} == {
        name: success for name, (success, _) in given_labels.items()
    }
    assert all(claim.who == "label file" for claim in claims.values())
    assert [claim.where for claim in claims.values()] == [f"{path} line {2 + at}" for at in range(len(claims))]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=80), st.text(max_size=60).map(lambda text: f"take,success\n{text}".encode())))
def test_anything_else_is_an_error_that_names_the_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(data)
    try:
        claims = read_labels(path, NAMES)
    except InputError as error:
        assert str(path) in str(error)
    else:
        assert set(claims) <= set(NAMES.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the header"),
        ("take;success\na;true\n", "line 1: expected the header"),
        ("a,true\n", "line 1: expected the header"),
        ("take,success\na,true\nbb,false\n", "line 3: there is no take 'bb'; names look like 'b'"),
        ("take,success\na,true\n\nb,maybe\n", "line 4: success is 'maybe'; write true or false"),
        ("take,success\na,\n", "line 2: success is empty; write true or false, or leave the line out"),
        ("take,success\na,true\na,true\n", "line 3: take 'a' has a line already"),
        ("take,success\na,true\na.hdf5,true\n", "line 3: take 'a.hdf5' has a line already"),
        ("take,success\na\n", "line 2: expected a take and its success"),
        ("take,success\n ,true\n", "line 2: names no take"),
        ('take,success\n"a,true\n', "line 2: unexpected end of data"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "labels.csv", text)
    with pytest.raises(InputError) as error:
        read_labels(path, NAMES)
    assert str(error.value).startswith(f"{path} {message}")


def test_quoted_names_and_columns_in_any_order(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", 'operator,Success,Take\nann,yes,"ü,d"\nbob,no,day 1/c\n')
    assert {name: claim.success for name, claim in read_labels(path, NAMES).items()} == {"ü,d": True, "day 1/c": False}


def test_no_file_and_another_encoding(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="label file cannot be read: No such file"):
        read_labels(tmp_path / "labels.csv", NAMES)
    with pytest.raises(InputError, match="is not UTF-8"):
        read_labels(write(tmp_path / "l.csv", "take,success\nü,true\n", "latin-1"), NAMES)
