"""`rollout-monitor report`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_examples import START_NS, failure_report, pictures, success_report

from rollout_monitor.cli.main import main
from rollout_monitor.records import Label
from rollout_monitor.report.html import render
from rollout_monitor.report.markdown import summary
from rollout_monitor.store.bags import ImageItem, open_bag
from rollout_monitor.store.episodes import EpisodeStore
from rollout_monitor.store.film import read_film


@pytest.fixture
def store(tmp_path: Path) -> EpisodeStore:
    store = EpisodeStore(tmp_path / "episodes")
    store.write(failure_report(), pictures())
    store.write(success_report().model_copy(update={"task": "[red]stack[/red]"}), {})
    return store


def run(*arguments: str | Path) -> int:
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_draws_a_page_again(store: EpisodeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = store.root / "lift-0031"
    assert run("report", folder) == 0
    assert capsys.readouterr().out.strip() == str(folder / "report.html")
    page = (folder / "report.html").read_text()
    assert page == render(failure_report(), folder)
    assert page.count("data:image/jpeg") == 5
    assert (folder / "report.md").read_text() == summary(failure_report())
    assert run("report", folder / "report.json", "-o", tmp_path / "page.html") == 0
    assert (tmp_path / "page.html").read_text() == page


def test_a_page_drawn_again_tells_of_labels(store: EpisodeStore) -> None:
    store.labels.add("lift-0031", Label.SUCCESS, "anna", "#night", stamp_ns=START_NS)
    assert run("report", store.root / "lift-0031") == 0
    assert "anna" in (store.root / "lift-0031" / "report.html").read_text()
    assert "`anna` **success**" in (store.root / "lift-0031" / "report.md").read_text()


def test_a_film_is_made_from_the_recording(store: EpisodeStore, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bag = root / "demo" / "lift_success"
    with open_bag(bag) as reader:
        start_ns = next(item.stamp_ns for item in reader.decoded() if isinstance(item, ImageItem))
    made = failure_report().model_copy(update={"episode_id": "f", "start_ns": start_ns, "end_ns": start_ns + 10**9})
    folder = store.write(made, {})
    assert run("report", folder, "--recording", bag) == 0
    film = read_film(folder / "film.mp4")
    assert film is not None
    assert film.cameras == ("front", "wrist")
    assert 'id="film"' in (folder / "report.html").read_text()
    assert run("report", folder) == 0
    assert 'id="film"' in (folder / "report.html").read_text(), "the film that lies there is used again"
    assert run("report", store.root / "lift-0031", "--recording", bag) == 2
    assert "no picture between the episode's start and end" in capsys.readouterr().err


def test_lists(store: EpisodeStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run("report", "list", "--store", store.root) == 0
    told = capsys.readouterr().out
    assert "lift-0031" in told
    assert "failure" in told
    assert "[red]stack[/red]" in told, "texts from outside are not markup"
    assert run("report", "list", "--store", store.root, "--json") == 0
    assert {row["folder"] for row in json.loads(capsys.readouterr().out)} == {"lift-0031", "stack-0007"}


def test_reindexes(store: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    (store.root / "index.sqlite").write_bytes(b"x" * 5000)
    assert run("report", "list", "--store", store.root) == 1
    assert "report reindex --store" in capsys.readouterr().err
    assert run("report", "reindex", "--store", store.root) == 0
    captured = capsys.readouterr()
    assert "2 episodes and 0 labels" in captured.out
    assert "index.sqlite.damaged" in captured.err
    assert run("report", "list", "--store", store.root) == 0


def test_wrong_use_is_exit_code_2(tmp_path: Path, store: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("report", tmp_path / "nope") == 2
    assert "expected an episode's folder" in capsys.readouterr().err
    assert run("report", "list", "--store", tmp_path / "nope") == 2
    assert run("report") == 2
    (store.root / "lift-0031" / "report.json").write_text("{}")
    assert run("report", store.root / "lift-0031") == 1
    assert "report.json: no episode report of this version" in capsys.readouterr().err
