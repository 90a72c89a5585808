"""What the site reads: tags, later labels, what takes no part, and what cannot be read and is told of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from episodes_making import HOSTILE_TASK, Made, store_all, synthetic_report

from rollout_monitor.cli.main import main
from rollout_monitor.curve.settings import DEFAULT, OpdSettings
from rollout_monitor.errors import InputError
from rollout_monitor.records import EpisodeState, Label, Outcome
from rollout_monitor.report.site import build
from rollout_monitor.report.site.attempts import MARK, POINTS, Attempt, Found, read_attempts, thin
from rollout_monitor.report.site.names import LONGEST, names_of
from rollout_monitor.report.site.pages import MOST_ROWS
from rollout_monitor.report.site.tags import Tags, read_tags, where_of
from rollout_monitor.store.episodes import REPORT, EpisodeStore


def episode(name: str = "one", *, skill: float = 0.5, seed: int = 1, **given: str):
    return synthetic_report(name, "policy-a", "stack", skill=skill, seed=seed, **given)


def read(root: Path, tags: Tags | None = None) -> Found:
    return read_attempts(root, tags or Tags(), DEFAULT)


def only(root: Path, tags: Tags | None = None) -> Attempt:
    (attempt,) = read(root, tags).attempts
    return attempt


def test_a_report_says_who_did_what(tmp_path: Path) -> None:
    kept = store_all(tmp_path, [episode()])["one"]
    attempt = only(tmp_path)
    assert (attempt.name, attempt.policy, attempt.task, attempt.where) == ("one", "policy-a", "stack", None)
    assert attempt.metrics == kept.metrics_final
    assert attempt.outcome == kept.outcome.outcome.value
    assert attempt.last == kept.curve[-1].final
    assert attempt.counted
    assert attempt.page is None


@pytest.mark.parametrize(
    ("noted", "robot", "source", "where"),
    [
        ([], "simulated UR5e", "pi0.5", "sim"),
        ([], "", "sim_robot", "sim"),
        ([], "ur5e", "operator", None),
        ([], "simon", "simple-policy", None),
        (["sim", "lab", "real"], "simulated UR5e", "", "real"),
    ],
)
def test_simulated_only_where_something_says_so(noted: list[str], robot: str, source: str, where: str | None) -> None:
    assert where_of(noted, robot, source) == where


def test_tags_file_and_notes_say_more(tmp_path: Path) -> None:
    store_all(tmp_path / "store", [episode("a"), episode("b", seed=2)])
    labels = EpisodeStore(tmp_path / "store").labels
    labels.add("a", None, "ann", "dim light #dim #real, not#this", stamp_ns=1)
    (tmp_path / "tags.csv").write_text(
        "episode,policy,task,where,tags\nstore/a,pi0,,,night #shift:2\nstore/b,,unstack,Sim,\nstore/gone,x,,,\n"
    )
    found = read(tmp_path, read_tags(tmp_path / "tags.csv"))
    a, b = found.attempts
    assert (a.policy, a.task, a.where, a.tags) == ("pi0", "stack", "real", ("dim", "night", "shift:2"))
    assert (b.policy, b.task, b.where) == ("policy-a", "unstack", "sim")
    assert found.problems == ["tags.csv line 4: no episode 'store/gone' was read"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "episode is needed"),
        ("name,where\na,sim\n", "episode is needed"),
        ("episode,wherre\na,sim\n", "episode is needed"),
        ("episode,where\na,moon\n", "line 2: where is 'moon'"),
        ("episode,where\na,sim\na,real\n", "line 3: 'a' comes twice"),
        ("episode,where\na\n", "line 2: has 1 cells"),
    ],
)
def test_a_wrong_tags_file_is_an_error_that_names_the_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "tags.csv").write_text(text)
    with pytest.raises(InputError, match=told):
        read_tags(tmp_path / "tags.csv")


def test_a_later_label_overrules_without_changing_the_report(tmp_path: Path) -> None:
    kept = store_all(tmp_path, [episode(skill=0.0)])["one"]
    assert kept.metrics_final.success is False
    before = (tmp_path / "one" / REPORT).read_bytes()
    labels = EpisodeStore(tmp_path).labels
    labels.add("one", Label.FAILURE, "ann", stamp_ns=2)
    assert not only(tmp_path).relabelled, "it says the same"
    labels.add("one", Label.SUCCESS, "bob", stamp_ns=3)
    labels.add("one", Label.FAILURE, "late arrival of an early word", stamp_ns=1)
    attempt = only(tmp_path)
    assert attempt.relabelled
    assert attempt.outcome == "success"
    m = attempt.metrics
    assert (m.success, m.success_from, m.fns) == (True, "label", None)
    assert m.sqs == pytest.approx(0.5 * m.ppl + 0.3 * (1 - m.cra) + 0.2 * (1 - m.str_))
    assert m.mp == kept.metrics_final.mp
    assert (tmp_path / "one" / REPORT).read_bytes() == before
    assert "1 attempts count by a label that was given after" in (build(tmp_path).folder / "index.html").read_text()


def test_what_was_not_an_attempt_takes_no_part(tmp_path: Path) -> None:
    undecided = {"outcome": Outcome.UNDECIDED, "decided_by": "none"}
    broken_off = episode("broken-off").model_copy(
        update={
            "state": EpisodeState.INTERRUPTED,
            "label": None,
            "outcome": episode().outcome.model_copy(update=undecided),
        }
    )
    blind = episode("blind").model_copy(update={"metrics_final": None, "curve": []})
    store_all(tmp_path, [broken_off, blind, episode("whole")])
    outcomes = {one.name: (one.outcome, one.counted) for one in read(tmp_path).attempts}
    assert outcomes == {
        "blind": ("unmeasured", False),
        "broken-off": ("interrupted", False),
        "whole": (episode().outcome.outcome.value, True),
    }
    EpisodeStore(tmp_path).labels.add("broken-off", Label.FAILURE, "ann", stamp_ns=1)
    assert {one.name: one.counted for one in read(tmp_path).attempts}["broken-off"], "somebody saw how it went"
    assert "1 policy, 1 task, 2 attempts" in (build(tmp_path).folder / "index.html").read_text()


def test_nothing_is_left_out_silently(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store_all(tmp_path, [episode("whole"), episode("torn"), episode("old"), episode("nan"), episode("gone")])
    (tmp_path / "torn" / REPORT).write_bytes((tmp_path / "torn" / REPORT).read_bytes()[:500])
    old = json.loads((tmp_path / "old" / REPORT).read_text())
    (tmp_path / "old" / REPORT).write_text(json.dumps({**old, "schema_version": 0}))
    (tmp_path / "nan" / REPORT).write_text(json.dumps({**old, "duration_s": float("nan")}))
    (tmp_path / "gone" / REPORT).unlink()
    (tmp_path / "gone" / "frames").mkdir()
    (tmp_path / ".late.abc.partial").mkdir()
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / REPORT)
    (tmp_path / "link").symlink_to(tmp_path / "whole")
    (tmp_path / "curve").mkdir()
    (tmp_path / "curve" / "curve.csv").write_text("progress\n0.1\nbanana\n")
    (tmp_path / "labels.jsonl").write_text("no label\n")
    built = build(tmp_path)
    assert built.episodes == 1
    for told in (
        "torn: report.json: no episode report of this version",
        "old: report.json: no episode report of this version: schema_version",
        "nan: report.json: no episode report of this version: duration_s",
        "gone: has no report.json",
        ".late.abc.partial: is unfinished",
        "pipe: report.json: is no file",
        "link: is a link to a folder; links are not followed",
        "curve: curve.csv: line 3: sample 1 is 'banana', not a number",
        ".: labels.jsonl line 1 is no label",
    ):
        assert sum(line.startswith(told) for line in built.problems) == 1, (told, built.problems)
    assert len(built.problems) == 9
    page = (built.folder / "read.html").read_text()
    assert all(line.split(" ")[0] in page for line in built.problems)
    assert "9 problems" in (built.folder / "index.html").read_text()
    with pytest.raises(SystemExit) as stop:
        main(["report", str(tmp_path)])
    assert stop.value.code == 0
    told = capsys.readouterr()
    assert told.out.strip() == str(tmp_path / "site" / "index.html")
    assert told.err.count("note: ") == 9
    assert "1 attempts, 1 in the figures, 9 problems" in told.err


def test_an_earlier_site_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    store_all(tmp_path / "in", [episode("one")])
    built = build(tmp_path / "in")
    (built.folder / "leftover").write_text("x")
    assert build(tmp_path / "in").episodes == 1, "a site is not read as episodes"
    assert sorted(path.name for path in built.folder.iterdir() if path.name.startswith((".", "l"))) == [MARK]
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="holds something that is no site"):
        build(tmp_path / "in", mine)
    with pytest.raises(InputError, match="is no folder of its own"):
        build(tmp_path / "in", mine / "thesis.tex")
    assert (mine / "thesis.tex").read_text() == "x"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith((".partial", ".earlier"))] == []


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        build(tmp_path / "nope")
    with pytest.raises(InputError, match="holds no episode that could be read: expected folders"):
        build(tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / REPORT).write_text("{}")
    with pytest.raises(InputError, match=r"one: report\.json: no episode report"):
        build(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_curve_files_take_their_names_from_folders(tmp_path: Path) -> None:
    folder = tmp_path / "pi0" / "hang_mug"
    folder.mkdir(parents=True)
    (folder / "curve.csv").write_text("t,progress,label\n0,0.1,failure\n1,0.6,failure\n2,0.3,failure\n")
    attempt = only(tmp_path)
    assert (attempt.policy, attempt.task, attempt.outcome, attempt.duration_s) == ("pi0", "hang_mug", "failure", 2.0)
    (folder / "task.txt").write_text("hang the\n mug\n")
    assert only(tmp_path).task == "hang the mug"
    assert attempt.metrics.convention == "paper"
    toolkit = read_attempts(tmp_path, Tags(), OpdSettings.for_convention("toolkit")).attempts
    assert toolkit[0].metrics.convention == "toolkit"
    store_all(tmp_path / "store", [episode()])
    page = (build(tmp_path, settings=OpdSettings.for_convention("toolkit")).folder / "index.html").read_text()
    assert "several conventions are mixed" in page
    assert "2 judges" in page


def test_thinning_keeps_every_peak_and_fall() -> None:
    values = np.full(5000, 0.4)
    values[1234], values[1235] = 0.93, 0.02
    seen = thin(np.arange(5000, dtype=np.int64) * 200_000_000, values)
    assert seen.shape[1] <= POINTS
    assert {930, 20, 400} == set(seen[1].tolist())
    assert (np.diff(seen[0].astype(int)) >= 0).all()
    assert (seen[0][0], seen[0][-1] > 980) == (0, True)
    few = thin(np.array([5, 6, 9]), np.array([0.0, 0.5, 1.0]))
    assert few.tolist() == [[0, 250, 1000], [0, 500, 1000]]
    assert thin(np.array([], dtype=np.int64), np.array([])).shape == (2, 0)
    assert thin(np.array([7, 7]), np.array([0.1, 0.2])).tolist() == [[0, 0], [100, 200]]


def test_long_names_are_cut_and_told_apart(made: Made, tmp_path: Path) -> None:
    long = "y" * 5000
    store_all(tmp_path, [episode("a").model_copy(update={"task": long + end}) for end in "12"])
    names = names_of(read(tmp_path).attempts)
    assert len(names.task.shown) == 2
    assert names.task.shown[1] == names.task.shown[0] + " [2]"
    assert len(names.task.shown[0]) == LONGEST
    sizes = {path.name: path.stat().st_size for path in made.site.rglob("*.html")}
    assert max(sizes.values()) < 120_000, sizes


def test_names_from_outside_are_text_everywhere(made: Made) -> None:
    for path in made.site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        assert "<script>document.title" not in page, path
        assert "<img src=x" not in page, path
        assert page.count("<script>") == (1 if path.name in ("tasks.html", "explorer.html") else 0)
        assert "default-src 'none'" in page
    for path in (made.site / "data").glob("*.js"):
        script = path.read_bytes()
        assert script.isascii(), path
        assert script.count(b"\n") == 1, path
        name, _, value = script.decode().removeprefix("rolloutMonitor.put(").removesuffix(");\n").partition(",")
        assert json.loads(name) == path.stem
        json.loads(value)
    names = json.loads((made.site / "data" / "names.js").read_text().partition(",")[2].removesuffix(");\n"))
    assert any(task.startswith(HOSTILE_TASK[:20]) and "\n" not in task for task in names["tasks"])


def test_a_folder_name_that_is_no_utf8(tmp_path: Path) -> None:
    store_all(tmp_path, [episode()])
    (tmp_path / "one").rename(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 #1"))
    attempt = only(tmp_path)
    assert attempt.name == "caf\\xe9 #1"
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 #1")) / "report.html").write_text("x")
    assert only(tmp_path).page == "caf%E9%20%231/report.html"
    build(tmp_path)


def test_a_table_for_spreadsheets_starts_no_formula(tmp_path: Path) -> None:
    store_all(tmp_path, [episode().model_copy(update={"source": "=HYPERLINK(1)"})])
    table = (build(tmp_path).folder / "data" / "figures.csv").read_text()
    assert "'=HYPERLINK(1)" in table
    assert ",=HYPERLINK" not in table


def test_a_policy_per_attempt_is_doubted_and_tables_are_cut(tmp_path: Path) -> None:
    """As recordings judged offline have it, whose source is their file's name."""
    folder = tmp_path / "{}" / "take"
    for number in range(MOST_ROWS + 5):
        place = Path(str(folder).format(f"take-{number:03d}.mp4"))
        place.mkdir(parents=True)
        (place / "curve.csv").write_text(f"progress\n0.1\n{number / 300}\n")
    site = build(tmp_path).folder
    board = (site / "index.html").read_text()
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 5} policies" in board
    assert board.count("1 attempt, 1 task<") == MOST_ROWS
    assert "nearly as many policies as attempts" in (site / "read.html").read_text()
    assert (site / "data" / "figures.csv").read_text().count("\n") == 1 + 2 * 11 * (MOST_ROWS + 5)


def test_a_site_without_any_figure(tmp_path: Path) -> None:
    store_all(tmp_path, [episode().model_copy(update={"metrics_final": None, "curve": []})])
    built = build(tmp_path)
    assert (built.episodes, built.counted) == (1, 0)
    assert "No attempt takes part in figures" in (built.folder / "index.html").read_text()
    assert "Nothing to compare" in (built.folder / "transfer.html").read_text()
    assert "No attempt counts as a success" in (built.folder / "portraits.html").read_text()
