"""The store: whole episodes or none, never overwritten, labels kept, an index that can always be made anew."""

from __future__ import annotations

import errno
import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from report_examples import failure_report, interrupted_report, pictures, success_report

from rollout_monitor.errors import InputError, StoreError
from rollout_monitor.images import encode_jpeg
from rollout_monitor.records import EpisodeReport, Label
from rollout_monitor.store import episodes, index
from rollout_monitor.store.episodes import EpisodeRow, EpisodeStore, PartlyStoredError
from rollout_monitor.store.labels import LabelFact


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EpisodeStore:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(index, "LOCK_TIMEOUT_S", 0.05)
    return EpisodeStore(tmp_path / "episodes", fallback=tmp_path / "fallback")


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_round_trip(store: EpisodeStore) -> None:
    report = failure_report()
    folder = store.write(report, pictures(), page="<p>page</p>")
    assert folder == store.root / "lift-0031"
    assert names(folder) == {"report.json", "report.html", *(f"frames/{name}" for name in pictures())}
    assert store.load("lift-0031") == report
    assert (folder / "report.html").read_text() == "<p>page</p>"
    assert (folder / "frames" / "end.jpg").read_bytes() == encode_jpeg(pictures()["end.jpg"])
    assert '"str":' in (folder / "report.json").read_text(), "metrics go by the paper's names"


def test_jpeg_bytes_are_kept_as_they_are(store: EpisodeStore) -> None:
    jpeg = encode_jpeg(pictures()["end.jpg"], 40)
    assert (store.write(success_report(), {"end.jpg": jpeg}) / "frames" / "end.jpg").read_bytes() == jpeg


def test_nothing_is_overwritten(store: EpisodeStore) -> None:
    first = store.write(success_report(), {})
    before = (first / "report.json").read_bytes()
    second = store.write(success_report().model_copy(update={"task": "another"}), {})
    third = store.write(success_report(), {})
    assert [path.name for path in (first, second, third)] == ["stack-0007", "stack-0007-2", "stack-0007-3"]
    assert (first / "report.json").read_bytes() == before
    assert store.load("stack-0007-2").task == "another"
    assert {row.folder for row in store.list()} == {"stack-0007", "stack-0007-2", "stack-0007-3"}


def test_many_writers_at_once(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LOCK_TIMEOUT_S", 30.0)
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: store.write(success_report(), {}), range(16)))
    assert len(set(folders)) == 16
    assert len(store.list()) == 16
    assert all(store.load(folder.name) == success_report() for folder in folders)


def test_rows_hold_the_headline(store: EpisodeStore) -> None:
    for report in (success_report(), failure_report(), interrupted_report()):
        store.write(report, {})
    rows = {row.folder: row for row in store.list()}
    failure = rows["lift-0031"]
    final = failure_report().metrics_final
    assert final is not None
    assert (failure.outcome, failure.decided_by, failure.label) == ("failure", "progress", "failure")
    assert (failure.mp, failure.str_, failure.fns, failure.sqs) == (final.mp, final.str_, final.fns, None)
    assert (failure.errors, failure.warnings, failure.calibrated) == (3, 3, False)
    assert rows["stack-0007"].calibrated is True
    nothing = rows["lift-0032"]
    assert (nothing.state, nothing.mp, nothing.drr) == ("INTERRUPTED", None, None)
    assert [row.start_ns for row in store.list()] == sorted((row.start_ns for row in rows.values()), reverse=True)


@pytest.mark.parametrize(
    "hostile", ["../../etc/passwd", "/absolute", "a\nb\0c", "..", "", "é" * 300, ".hidden", "x" * 500]
)
def test_ids_from_outside_stay_inside(store: EpisodeStore, hostile: str) -> None:
    report = success_report().model_copy(update={"episode_id": hostile})
    folder = store.write(report, {})
    assert folder.parent == store.root
    assert not folder.name.startswith(".")
    assert store.load(folder.name).episode_id == hostile
    assert store.list()[0].episode_id == hostile


def test_picture_names_are_checked(store: EpisodeStore) -> None:
    for wrong in ("../x.jpg", "frames/x.jpg", "x.png", ".jpg", "a\n.jpg", "x.jpg\n"):
        with pytest.raises(InputError, match=r"plain file name that ends in \.jpg"):
            store.write(success_report(), {wrong: np.zeros((4, 4, 3), np.uint8)})
    assert not store.root.exists()


def test_load_names_what_is_wrong(store: EpisodeStore) -> None:
    folder = store.write(success_report(), {})
    for missing in ("nope", "../episodes/stack-0007", ""):
        with pytest.raises(InputError, match="no episode"):
            store.load(missing)
    broken = json.loads((folder / "report.json").read_text())
    broken["curve"][3]["raw"] = 7
    (folder / "report.json").write_text(json.dumps(broken))
    with pytest.raises(StoreError, match=r"stack-0007/report\.json: .*curve\.3\.raw: .* less than or equal to 1"):
        store.load("stack-0007")
    (folder / "report.json").write_text("{")
    with pytest.raises(StoreError, match="no episode report of this version"):
        store.load("stack-0007")


# --- labels -------------------------------------------------------------------------------------------------------


def test_labels_are_added_and_stay(store: EpisodeStore) -> None:
    store.write(success_report(), {})
    store.labels.add("stack-0007", Label.FAILURE, "operator", "it fell\nlater", stamp_ns=20)
    store.labels.add("stack-0007", Label.SUCCESS, "second look", stamp_ns=10)
    store.labels.add("stack-0007", None, "operator", "camera dirty", stamp_ns=30)
    facts = store.labels.of("stack-0007")
    assert [(fact.label, fact.who) for fact in facts] == [
        (Label.FAILURE, "operator"),
        (Label.SUCCESS, "second look"),
        (None, "operator"),
    ]
    assert store.load("stack-0007") == success_report(), "a label is a fact beside the report, not a change of it"
    with sqlite3.connect(store.root / "index.sqlite") as connection:
        for statement in ("DELETE FROM labels", "UPDATE labels SET label = 'success'"):
            with pytest.raises(sqlite3.IntegrityError, match="labels are never"):
                connection.execute(statement)
    with pytest.raises(InputError, match="no episode 'other'"):
        store.labels.add("other", Label.SUCCESS, "operator", stamp_ns=1)
    with pytest.raises(InputError, match="who"):
        store.labels.add("stack-0007", Label.SUCCESS, "", stamp_ns=1)


def test_a_torn_line_costs_only_itself(store: EpisodeStore) -> None:
    store.write(success_report(), {})
    store.labels.add("stack-0007", Label.SUCCESS, "a", stamp_ns=1)
    with (store.root / "labels.jsonl").open("ab") as stream:
        stream.write(b'{"episode_id": "stack-0007", "wh')
    store.labels.add("stack-0007", Label.FAILURE, "b", stamp_ns=2)
    assert [fact.who for fact in store.labels.all()] == ["a", "b"]
    (problem,) = store.reindex().problems
    assert problem.startswith("labels.jsonl line 2 is no label")


def test_many_label_writers_at_once(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LOCK_TIMEOUT_S", 30.0)
    store.write(success_report(), {})
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.labels.add("stack-0007", None, f"w{n}", "x" * 300, stamp_ns=n), range(40)))
    assert {fact.who for fact in store.labels.all()} == {f"w{n}" for n in range(40)}
    assert len(store._index.labels()) == 40


# --- trouble ------------------------------------------------------------------------------------------------------


def test_a_locked_index_costs_only_the_index(store: EpisodeStore) -> None:
    store.write(success_report(), {})
    with sqlite3.connect(store.root / "index.sqlite", isolation_level=None) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(PartlyStoredError, match=r"locked.*is safe in .*lift-0031.*reindex --store") as error:
            store.write(failure_report(), pictures())
        with pytest.raises(PartlyStoredError, match=r"the label is safe in labels\.jsonl.*reindex"):
            store.labels.add("lift-0031", Label.FAILURE, "operator", stamp_ns=5)
        with pytest.raises(StoreError, match="locked"):
            store.reindex()
        holder.execute("ROLLBACK")
    assert error.value.path == store.root / "lift-0031"
    assert store.load("lift-0031") == failure_report()
    assert {row.folder for row in store.list()} == {"stack-0007"}
    done = store.reindex()
    assert (done.episodes, done.labels, done.problems) == (2, 1, [])
    assert {row.folder for row in store.list()} == {"stack-0007", "lift-0031"}
    assert [fact.who for fact in store._index.labels()] == ["operator"]


@pytest.mark.parametrize(
    "content",
    [b"not a database at all, but long enough to be taken for one" * 90, b"SQLite format 3\0" + b"\xff" * 4080],
)
def test_a_damaged_index_is_put_aside(store: EpisodeStore, content: bytes) -> None:
    store.write(success_report(), {})
    (store.root / "index.sqlite").write_bytes(content)
    with pytest.raises(PartlyStoredError, match="reindex") as error:
        store.write(failure_report(), {})
    assert (error.value.path / "report.json").is_file()
    with pytest.raises(StoreError, match="all reports are safe in their folders"):
        store.list()
    done = store.reindex()
    assert done.episodes == 2
    assert "is kept as index.sqlite.damaged" in done.problems[0]
    assert (store.root / "index.sqlite.damaged").read_bytes() == content
    assert len(store.list()) == 2


def test_an_index_of_a_later_version_is_not_misread(store: EpisodeStore) -> None:
    store.write(success_report(), {})
    with sqlite3.connect(store.root / "index.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="schema version 99"):
        store.list()


def test_a_missing_index_is_made(store: EpisodeStore) -> None:
    store.write(success_report(), {})
    store.write(failure_report(), {})
    (store.root / "index.sqlite").unlink()
    assert len(store.list()) == 2
    (store.root / "index.sqlite").unlink()
    store.write(interrupted_report(), {})
    assert len(store.list()) == 3


def test_rows_added_while_reindexing_stay(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write(success_report(), {})
    real = store._rows_from_folders

    def listed_before_another_came(problems: list[str]) -> list[EpisodeRow]:
        rows = list(real(problems))
        EpisodeStore(store.root).write(failure_report(), {})
        return rows

    monkeypatch.setattr(store, "_rows_from_folders", listed_before_another_came)
    store.reindex()
    assert {row.folder for row in store.list()} == {"stack-0007", "lift-0031"}


def test_rows_of_removed_folders_go(store: EpisodeStore) -> None:
    shutil.rmtree(store.write(success_report(), {}))
    store.write(failure_report(), {})
    store.reindex()
    assert [row.folder for row in store.list()] == ["lift-0031"]


def test_reindex_tells_what_it_could_not_read(store: EpisodeStore) -> None:
    folder = store.write(success_report(), {})
    store.write(failure_report(), {})
    (folder / "report.json").write_text("{}")
    (store.root / ".lift-9.ab12.partial").mkdir()
    (store.root / "somebody's notes").mkdir()
    done = store.reindex()
    assert done.episodes == 1
    assert any("stack-0007/report.json" in problem for problem in done.problems)
    assert any(".lift-9.ab12.partial was left by a crash" in problem for problem in done.problems)


def test_root_that_cannot_be_written_falls_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "file").write_text("in the way")
    for fallback, safe in (
        (tmp_path / "fallback", tmp_path / "fallback"),
        (None, tmp_path / "state/rollout-monitor/rescued"),
    ):
        store = EpisodeStore(tmp_path / "file" / "episodes", fallback=fallback)
        with pytest.raises(PartlyStoredError, match=f"Not a directory.*is safe in {safe}/lift-0031.*reindex") as error:
            store.write(failure_report(), pictures(), page="<p>")
        assert error.value.path == safe / "lift-0031"
        assert names(error.value.path) == {"report.json", "report.html", *(f"frames/{name}" for name in pictures())}


def disk_with(room: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files be written below each folder up to a number of bytes more than there are, as a full disk would."""
    real = episodes.write_synced

    def used(place: str) -> int:
        return sum(
            path.stat().st_size for path in Path(place).rglob("*.*") if path.is_file() and "index" not in path.name
        )

    limits = {place: used(place) + more for place, more in room.items()}

    def write(path: Path, data: bytes) -> None:
        place = next((name for name in limits if str(path).startswith(name)), None)
        if place is None or used(place) + len(data) > limits[place]:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, data)

    monkeypatch.setattr(episodes, "write_synced", write)


def test_a_full_disk_leaves_no_half_episode(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(success_report(), {})
    before = names(store.root)
    disk_with({str(store.root): 60_000, str(tmp_path / "fallback"): 10**9}, monkeypatch)
    with pytest.raises(
        PartlyStoredError, match=r"No space left on device.*the report of lift-0031 is safe in .*fallback"
    ):
        store.write(failure_report(), pictures())
    after = {name for name in names(store.root) if not name.startswith("index.sqlite")}
    assert after == {name for name in before if not name.startswith("index.sqlite")}
    assert not list(store.root.glob(".*"))


def test_full_disks_everywhere_keep_the_figures(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(failure_report().model_dump_json(indent=1).encode())
    disk_with({str(store.root): size + 100, str(tmp_path / "fallback"): 10, str(tmp_path / "state"): 10}, monkeypatch)
    with pytest.raises(
        PartlyStoredError, match="the report's figures, without page and pictures, of lift-0031 is safe"
    ) as error:
        store.write(failure_report(), pictures(), page="x" * 1000)
    assert error.value.path.parent == store.root
    assert EpisodeReport.model_validate_json((error.value.path / "report.json").read_bytes()) == failure_report()


def test_nothing_anywhere_names_every_place(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_with({}, monkeypatch)
    with pytest.raises(StoreError, match="nothing of the report of lift-0031 could be kept") as error:
        store.write(failure_report(), {})
    assert not isinstance(error.value, PartlyStoredError)
    for place in (store.root, tmp_path / "fallback", tmp_path / "state"):
        assert str(place) in str(error.value)


def test_label_facts_are_versioned_records() -> None:
    fact = LabelFact(episode_id="a", label=Label.SUCCESS, who="me", stamp_ns=1)
    assert LabelFact.model_validate_json(fact.model_dump_json()) == fact
    assert fact.schema_version == 1
