"""Past episodes: found, filtered, never anything but them; and the band of those that succeeded."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_examples import NS, curve_through, failure_report, success_report

from rollout_monitor.dashboard.band import band, last_said, succeeded
from rollout_monitor.dashboard.past import PastEpisodes, Query
from rollout_monitor.errors import InputError
from rollout_monitor.records import EpisodeReport, Label
from rollout_monitor.store.episodes import EpisodeStore
from rollout_monitor.store.labels import LabelFact


def kept(store: EpisodeStore, report: EpisodeReport, name: str, page: str = "<h1>page</h1>", **fields: object) -> Path:
    return store.write(report.model_copy(update={"episode_id": name, **fields}), {}, page=page)


@pytest.fixture
def store(tmp_path: Path) -> EpisodeStore:
    store = EpisodeStore(tmp_path / "episodes")
    good, bad = success_report(), failure_report()
    kept(store, good, "good_1", start_ns=good.start_ns + 1 * NS)
    kept(store, good, "good_2", start_ns=good.start_ns + 2 * NS, task="put Ärmel <b>away</b>", robot="arx_left")
    kept(store, bad, "bad_1", start_ns=good.start_ns + 3 * NS)
    return store


def folders(past: PastEpisodes, **query: object) -> list[str]:
    return [row["folder"] for row in past.find(Query(**query))["rows"]]


def test_search_filters_and_pages(store: EpisodeStore) -> None:
    past = PastEpisodes([store.root, store.root / "not there"])
    assert folders(past) == ["bad_1", "good_2", "good_1"], "the newest first"
    assert folders(past, words="ÄRMEL away") == ["good_2"] and folders(past, words="ärmel away nothing") == []
    assert folders(past, outcome="failure") == ["bad_1"]
    assert folders(past, robot="arx_left") == ["good_2"]
    assert folders(past, task=success_report().task) != []
    assert folders(past, first=1, count=1) == ["good_2"]
    found = past.find(Query(outcome="success"))
    assert (found["found"], found["all"]) == (2, 3) and "arx_left" in found["robots"]
    assert "not there yet" in found["trouble"][0]


def test_a_label_counts_more_than_the_monitor_and_is_seen_at_once(store: EpisodeStore) -> None:
    past = PastEpisodes([store.root])
    assert folders(past, outcome="failure") == ["bad_1"]
    store.labels.add("bad_1", Label.SUCCESS, "Ada", "it held after all", stamp_ns=5)
    assert folders(past, outcome="failure") == []
    (row,) = past.find(Query(words="held after"))["rows"]
    assert (row["outcome"], row["said"]) == ("success", True)
    assert row["tags"] == [{"label": "success", "who": "Ada", "note": "it held after all"}]


def fact(label: Label | None, who: str, stamp_ns: int, note: str = "") -> LabelFact:
    return LabelFact(episode_id="take", label=label, who=who, note=note, stamp_ns=stamp_ns)


def test_what_was_said_last_counts_unless_it_was_taken_back() -> None:
    ada, bob = fact(Label.SUCCESS, "Ada", 1), fact(Label.FAILURE, "Bob", 2)
    assert last_said([ada, bob]) == {"take": Label.FAILURE}
    assert last_said([ada, bob, fact(None, "Bob", 3)]) == {"take": Label.SUCCESS}
    assert last_said([ada, bob, fact(None, "Bob", 3, "only a note")]) == {"take": Label.FAILURE}
    assert last_said([ada, fact(None, "Ada", 3)]) == {}


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("..", "report.html"),
        (".", "report.html"),
        ("../secret", "report.html"),
        ("..%2fsecret", "report.html"),
        ("/etc", "passwd"),
        ("good_1", "../good_2/report.html"),
        ("good_1", "labels.jsonl"),
        ("good_1", ""),
        (".hidden", "report.html"),
        ("link", "report.html"),
        ("good_1\n", "report.html"),
        ("x" * 5000, "report.html"),
        ("nothing", "report.html"),
    ],
)
def test_nothing_but_reports_is_ever_served(store: EpisodeStore, folder: str, name: str) -> None:
    secret = store.root.parent / "secret"
    secret.mkdir()
    (secret / "report.html").write_text("secret")
    (store.root / "link").symlink_to(secret)
    (store.root / ".hidden").mkdir()
    (store.root / ".hidden" / "report.html").write_text("half written")
    past = PastEpisodes([store.root])
    assert past.file(0, "good_1", "report.html").read_text() == "<h1>page</h1>"
    for number in (0, 1, -1):
        with pytest.raises(InputError):
            past.file(number, folder, name)


def test_a_report_that_is_a_link_is_not_followed(store: EpisodeStore, tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    page = store.root / "good_1" / "report.html"
    page.unlink()
    page.symlink_to(tmp_path / "secret.html")
    with pytest.raises(InputError):
        PastEpisodes([store.root]).file(0, "good_1", "report.html")


def test_only_episodes_of_these_stores_have_a_link(store: EpisodeStore, tmp_path: Path) -> None:
    past = PastEpisodes([tmp_path / "other", store.root])
    assert past.link(store.root / "good_1") == "/reports/1/good_1/report.html"
    assert past.link(tmp_path / "good_1") is None


def test_the_band_is_of_successful_runs_of_the_same_task_and_model(tmp_path: Path) -> None:
    store = EpisodeStore(tmp_path)
    good, bad = success_report(), failure_report()
    assert band([store.root], good.task, good.model) is None
    lengths = (10.0, 20.0, 30.0)
    for number, seconds in enumerate(lengths):
        curve = curve_through([(0, 0.0), (seconds, 1.0)], rate_hz=5.0, seed=number)
        kept(store, good, f"run_{number}", curve=curve)
    kept(store, bad, "failed", task=good.task, model=good.model)
    kept(store, good, "other_model", model="another 2")
    kept(store, good, "other_task", task="fold the towel")
    found = band([store.root, tmp_path / "absent"], good.task, good.model)
    assert found is not None and found["runs"] == len(lengths)
    assert found["times"][0] == 0.0 and found["times"][-1] == pytest.approx(max(lengths), abs=0.5)
    middle = dict(zip(found["times"], found["middle"], strict=True))
    half = min(middle, key=lambda time: abs(time - 15.0))
    assert middle[half] == pytest.approx(0.75, abs=0.05), "of 1.0, 0.75 and 0.5 after 15 s: a run that ended keeps 1.0"
    assert all(low <= mid <= high for low, mid, high in zip(found["low"], found["middle"], found["high"], strict=True))
    rows = {row.folder: row for row in store.list()}
    assert succeeded(rows["failed"], {"failed": Label.SUCCESS}) and not succeeded(
        rows["run_0"], {"run_0": Label.FAILURE}
    )
