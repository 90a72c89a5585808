"""The page: self-contained, safe against what it shows, complete for every kind of episode."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_examples import (
    at,
    event,
    failure_report,
    interrupted_report,
    long_report,
    pictures,
    report,
    scene,
    success_report,
)

from rollout_monitor.images import encode_jpeg
from rollout_monitor.records import (
    CameraHealth,
    EpisodeReport,
    EpisodeState,
    EventKind,
    JointHealth,
    KeyFrame,
    MotionFigures,
    OutcomeDecision,
    Severity,
)
from rollout_monitor.report import health
from rollout_monitor.report.html import render
from rollout_monitor.store.film import Film
from rollout_monitor.store.labels import LabelFact

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \" ' & {{ 7*7 }} \n\u202e\U0001f916"
VOID = {"meta", "link", "img", "br", "hr", "input", "rect", "path", "use", "image"}


class Page(HTMLParser):
    """Elements, attributes and text of a page; fails on tags that do not close."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.by_tag: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.by_tag.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        if self.open:
            self.by_tag[self.open[-1]][-1] += data
        if not {"script", "style"} & set(self.open):
            self.text += data

    def words(self) -> str:
        return " ".join(self.text.split())

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.elements for key, value in attributes.items() if key == name]


EXAMPLES = {"success": success_report, "failure": failure_report, "interrupted": interrupted_report}


@pytest.fixture(params=sorted(EXAMPLES))
def example(request: pytest.FixtureRequest) -> EpisodeReport:
    return EXAMPLES[request.param]()


def test_page_is_well_formed_and_self_contained(example: EpisodeReport) -> None:
    html = render(example, pictures())
    page = Page(html)
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert not re.search(r"(https?:)?//[a-z]", re.sub(r"data:image/jpeg;base64,[\w+/=]+", "", html)), "no address"
    for link in [*page.attributes("href"), *page.attributes("src")]:
        assert link.startswith(("#", "data:image/jpeg;base64,"))
        if link.startswith("#"):
            assert link[1:] in ids
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")], "no inline handlers"
    assert html.startswith("<!DOCTYPE html>") or html.lstrip().startswith("<!DOCTYPE html>")


def test_policy_allows_only_the_pages_own_script(example: EpisodeReport) -> None:
    page = Page(render(example, pictures()))
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "samples"}, {}]
    digest = base64.b64encode(hashlib.sha256(page.by_tag["script"][1].encode()).digest()).decode()
    policies = [a["content"] for tag, a in page.elements if tag == "meta" and "Content-Security-Policy" in str(a)]
    assert policies[0] is not None
    assert f"script-src 'sha256-{digest}'" in policies[0]
    assert "default-src 'none'" in policies[0]


def test_the_same_report_gives_the_same_page(example: EpisodeReport) -> None:
    assert render(example, pictures()) == render(
        EpisodeReport.model_validate_json(example.model_dump_json()), pictures()
    )


def hostile_report() -> EpisodeReport:
    base = failure_report()
    hostile_event = event(
        0, EventKind.CONTACT, Severity.ERROR, 3, 4, None, HOSTILE, subject=HOSTILE, evidence=HOSTILE
    ).model_copy(update={"values": {HOSTILE: 1.0}})
    return base.model_copy(
        update={
            "episode_id": HOSTILE,
            "task": HOSTILE * 60,
            "source": HOSTILE,
            "robot": HOSTILE,
            "outcome": OutcomeDecision(
                outcome=base.outcome.outcome, decided_by="model", reason=HOSTILE, calibrated=True
            ),
            "calibration": HOSTILE,
            "model": HOSTILE,
            "model_hash": HOSTILE,
            "bag": HOSTILE,
            "i_phys": HOSTILE,
            "notes": [HOSTILE, "x" * 10_000],
            "settings": {HOSTILE: HOSTILE},
            "joint_names": [HOSTILE, *base.joint_names[1:]],
            "motion": base.motion and base.motion.model_copy(update={"worst_joint_v": HOSTILE}),
            "events": [hostile_event],
            "cameras": [CameraHealth(camera=HOSTILE, stamp_ns=0)],
            "key_frames": [KeyFrame(stamp_ns=at(1), camera=HOSTILE, file=HOSTILE, why=HOSTILE)],
        }
    )


def test_hostile_texts_are_shown_and_do_nothing() -> None:
    for kept in ({}, {HOSTILE: scene(0)}):
        html = render(hostile_report(), kept)
        page = Page(html)
        assert [tag for tag, _ in page.elements].count("script") == 2
        assert not [tag for tag, _ in page.elements if tag == "img"]
        assert "49" not in re.findall(r"\{\{ 7\*7 \}\}|\b49\b", page.text), "not a template of ours"
        assert page.text.count("alert(1)") > 60
        assert "alert" not in "".join(page.by_tag["script"])
    clean = Page(render(failure_report(), {}))
    safe = [name for _, attributes in Page(render(hostile_report(), {})).elements for name in attributes]
    assert set(safe) <= {name for _, attributes in clean.elements for name in attributes} | {"data-alt", "data-picture"}


def test_absent_things_are_named_as_absent() -> None:
    text = Page(render(interrupted_report(), {})).words()
    for told in (
        "Interrupted",
        "No progress estimate came, so there is no curve",
        "Absent: no progress estimate came in this episode, so there is no curve to measure",
        "Absent: no joint states came in this episode",
        "No camera was heard",
        "No joint state was heard",
        "No picture was kept",
        "not measured",
        "stream time 12.000 s",
        "CLOCK JUMP",
    ):
        assert told in text
    assert "nan" not in text.lower().split()


def test_a_bare_report_draws() -> None:
    bare = EpisodeReport(
        episode_id="x",
        task="",
        state=EpisodeState.ENDED,
        start_ns=0,
        end_ns=0,
        duration_s=0.0,
        outcome=OutcomeDecision(outcome="undecided", decided_by="none", reason=""),
    )
    text = Page(render(bare, {})).words()
    assert "No task given" in text
    assert "Nothing was measured" in text
    full = success_report()
    for empty in (
        {"curve": full.curve[:1]},
        {"speed": []},
        {"motion": None},
        {"motion": MotionFigures(samples=0, duration_s=0.0)},
        {"joints": JointHealth()},
        {"metrics_live": None, "largest_live_final_gap": None},
        {"cameras": []},
        {"curve": [], "metrics_final": None, "metrics_live": None},
        {"start_ns": at(5), "end_ns": at(3)},
        {"joint_names": full.joint_names[:2]},
        {"curve": [point.model_copy(update={"lower": None, "upper": None}) for point in full.curve]},
    ):
        Page(render(full.model_copy(update=empty), {}))


def test_metrics_stand_live_beside_final() -> None:
    made = success_report()
    html = render(made, {})
    text = Page(html).words()
    final, live = made.metrics_final, made.metrics_live
    assert final is not None
    assert live is not None
    for name in ("mp", "ppl", "tv", "cra", "str_", "max_drawdown"):
        assert f"{getattr(live, name):.2f}{getattr(final, name):.2f}" in re.sub(r"\s", "", text)
    assert "Absent: defined for failures only" in text
    assert f"PPL: {live.ppl:.3f} live, {final.ppl:.3f} final" in text
    assert "Absent: defined for successes only" in Page(render(failure_report(), {})).words()
    assert "paper convention" in text


def test_events_are_marked_listed_and_reachable() -> None:
    made = failure_report()
    page = Page(render(made, pictures()))
    listed = [
        attributes
        for tag, attributes in page.elements
        if tag == "li" and str(attributes.get("id", "")).startswith("event-")
    ]
    marks = [attributes for tag, attributes in page.elements if tag == "a" and "span" in str(attributes.get("class"))]
    assert len(listed) == len(marks) == len(made.events)
    assert [mark["href"] for mark in marks] == [f"#event-{number}" for number in range(1, len(made.events) + 1)]
    ordered = sorted(made.events, key=lambda e: e.onset_ns)
    for number, (mark, shown) in enumerate(zip(marks, ordered, strict=True), start=1):
        assert f"Event {number}, {shown.severity.value.lower()}: {shown.kind.value}" in str(mark["aria-label"])
        assert shown.reason in str(mark["aria-label"])
    stall = next(m for m, e in zip(marks, ordered, strict=True) if e.kind is EventKind.STALL)
    assert f"left:min({16 / 38 * 100:.3f}%" in str(stall["style"])
    assert "until the end, noticed after 5.0 s" in page.words()


def test_pictures_are_embedded_once_and_missing_ones_said() -> None:
    made = failure_report()
    html = render(made, pictures())
    assert html.count("data:image/jpeg;base64,") == 5
    page = Page(html)
    uses = [attributes["href"] for tag, attributes in page.elements if tag == "use"]
    assert len(uses) == 3 + 2 + 1 + 2 + 1, "key frames, events, where it failed, a fall, under the playhead"
    some = {name: encode_jpeg(picture) for name, picture in pictures().items() if name != "peak.jpg"}
    some["end.jpg"] = some["end.jpg"][:100]
    page = Page(render(made, some))
    assert page.words().count("picture not kept") == 2 + 1 + 2


def test_pictures_from_the_episodes_folder(tmp_path: Path) -> None:
    made = failure_report()
    (tmp_path / "frames").mkdir()
    for name, picture in pictures().items():
        (tmp_path / "frames" / name).write_bytes(encode_jpeg(picture))
    (tmp_path / "secret.jpg").write_bytes(encode_jpeg(scene(0)))
    outside = made.model_copy(
        update={"key_frames": [KeyFrame(stamp_ns=at(1), camera="c", file="../secret.jpg", why="x")]}
    )
    assert render(made, tmp_path).count("data:image/jpeg;base64,") == 5
    assert "picture not kept" in Page(render(outside, tmp_path)).words()


def test_wide_pictures_are_scaled_down() -> None:
    wide = np.random.default_rng(0).integers(0, 256, (1080, 1920, 3), dtype=np.uint8)
    made = success_report().model_copy(
        update={"key_frames": [KeyFrame(stamp_ns=at(1), camera="c", file="w.jpg", why="x")]}
    )
    page = Page(render(made, {"w.jpg": wide}))
    (image,) = [attributes for tag, attributes in page.elements if tag == "image"]
    assert (image["width"], image["height"]) == ("640", "360")


def test_a_long_episode_stays_small() -> None:
    made = long_report()
    assert len(made.curve) == 72_001
    html = render(made, {})
    assert len(html.encode()) < 1_000_000
    assert "Drawn from 72001 estimates and 216000 speed samples, thinned" in Page(html).words()
    assert "thinned" not in Page(render(success_report(), {})).words()


def test_samples_are_the_curves_own() -> None:
    made = success_report()
    samples = json.loads(Page(render(made, {})).by_tag["script"][0])
    assert samples["t"][:3] == [0.0, 0.2, 0.4]
    assert samples["final"] == [round(point.final, 3) for point in made.curve]
    assert samples["x"][0] == 0
    assert samples["x"][-1] == 100
    assert len(samples["speed"]) == len(made.curve)


def test_key_figures_can_be_read_without_colour() -> None:
    for make, word, symbol in (
        (success_report, "Success", "✓"),
        (failure_report, "Failure", "✕"),
        (interrupted_report, "Interrupted", "‖"),
    ):
        text = Page(render(make(), {})).words()
        assert text.split(" ", 1)[1].startswith(f"{symbol}{word}") or f"{symbol}{word}" in text[:200]
    undecided = report("u", "t", success_report().curve, 24.0, [])
    assert "?Undecided" in Page(render(undecided, {})).words()


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast_is_aa(root: Path, scheme: int) -> None:
    """Text colours reach 4.5:1 on the ground, lines 3:1 (WCAG 2.2, 1.4.3 and 1.4.11)."""
    css = (root / "src/rollout_monitor/report/static/episode.css").read_text()
    block = re.findall(r":root \{(.*?)\}", css, re.S)[scheme]
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block))
    ground = luminance(colours["ground"])
    for name in (
        "ink",
        "soft",
        "final",
        "success",
        "failure",
        "undecided",
        "info",
        "warn",
        "error",
        "live",
        "raw",
        "speed",
    ):
        light, dark = sorted((ground, luminance(colours[name])), reverse=True)
        needed = 3.0 if name in ("live", "raw", "speed") else 4.5
        assert (light + 0.05) / (dark + 0.05) >= needed, name


def test_every_count_of_the_streams_is_shown() -> None:
    base = failure_report()
    assert base.joints is not None
    joints = base.joints.model_copy(
        update={"implausible": 7, "implausible_joint": "elbow_joint", "clock_steps": 11, "missing_since_ns": {"w3": 1}}
    )
    cameras = [base.cameras[0].model_copy(update={"clock_steps": 13, "unstamped": 17, "stray": 19, "lost": 23})]
    text = Page(render(base.model_copy(update={"joints": joints, "cameras": cameras}), {})).words()
    assert "a joint cannot have been there and back—7 (elbow_joint)" in text
    assert "stamps went back a little1311" in text
    assert "without w3" in text
    shown = {count[0] for count in health._COUNTS}
    for record in (JointHealth, CameraHealth):
        counts = {name for name, field in record.model_fields.items() if field.annotation is int}
        assert counts - {"schema_version", "stamp_ns"} <= shown, "every count has its row"


def test_usual_ranges_stand_beside_the_metrics() -> None:
    text = Page(render(success_report(), {})).words()
    assert "0.81 to 0.93 (n 12) below" in text
    assert "n is how many" in text
    assert "No usual ranges" in Page(render(failure_report(), {})).words()


def test_what_was_said_is_shown_with_who_said_it() -> None:
    facts = [
        LabelFact(episode_id="x", label="failure", who="anna", note="slipped #grip #night", stamp_ns=at(60)),
        LabelFact(episode_id="x", who=HOSTILE, note=HOSTILE + " #grip", stamp_ns=at(61)),
    ]
    text = Page(render(success_report(), {}, labels=facts)).words()
    assert "failure, anna 2026-" in text
    assert "grip anna, </script>" in text
    assert "night anna" in text
    assert "Nobody has labelled this attempt" in Page(render(success_report(), {})).words()
    assert "failure, given at its end by operator" in Page(render(failure_report(), {})).words()


def test_a_film_is_embedded_under_the_pages_policy() -> None:
    film = Film(b"\0\1\2", at(0), 100, (HOSTILE,), 480, 360)
    page = Page(render(success_report(), {}, film=film))
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "samples"}, {"type": "video/mp4", "id": "film"}, {}]
    assert base64.b64decode(page.by_tag["script"][1]) == b"\0\1\2"
    (policy,) = [str(a["content"]) for tag, a in page.elements if tag == "meta" and "Content-Security-Policy" in str(a)]
    assert "media-src blob:" in policy
    assert json.loads(page.by_tag["script"][0])["film"] == 0
