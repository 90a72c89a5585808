"""The page in a real browser: it plays, one playhead for all, by mouse and by keyboard; readable in both themes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browsing import LARGEST_SCREENSHOT, SCREENSHOTS, complaints_of, contrasts
from report_examples import NS, START_NS, at, failure_report, pictures, success_report
from test_html import HOSTILE, hostile_report

from rollout_monitor.frames import RgbImage
from rollout_monitor.records import EpisodeReport, Label
from rollout_monitor.report.html import render
from rollout_monitor.store.film import Film, Shot, make_film
from rollout_monitor.store.labels import LabelFact

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DURATION_S = 38
LABELS = [
    LabelFact(episode_id="lift-0031", label=Label.SUCCESS, who="anna", note="it was done by hand", stamp_ns=START_NS),
    LabelFact(episode_id="lift-0031", who="<b>bot</b>", note=HOSTILE, stamp_ns=START_NS),
]
VIDEO, AT = "document.querySelector('video')", "document.body.style.getPropertyValue('--at')"
SHOWN = """() => {
  const video = document.querySelector("video"), canvas = document.createElement("canvas").getContext("2d");
  canvas.drawImage(video, 0, 0, 8, 8);
  return canvas.getImageData(4, 4, 1, 1).data[0];
}"""


def gray(second: float) -> RgbImage:
    """A picture that tells its time by how bright it is."""
    return np.full((48, 64, 3), 20 + 6 * int(second), np.uint8)


@pytest.fixture(scope="module")
def film() -> Film:
    def shots() -> Iterator[Shot]:
        for second in range(DURATION_S + 1):
            yield Shot("front", START_NS + second * NS, partial(gray, second))

    made = make_film(shots, ["front"], START_NS, START_NS + DURATION_S * NS)
    if made is None:
        pytest.skip("this PyAV has no H.264 encoder")
    return made


Open = Callable[..., "Page"]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page from disk; at the end nothing may have gone wrong on any."""
    opened: list[tuple[Page, list[str]]] = []

    def open_page(report: EpisodeReport, film: Film | None, width: int = 1200, scheme: str = "light") -> Page:
        file = tmp_path / f"report-{len(opened)}.html"
        file.write_text(render(report, pictures(), film=film, labels=LABELS), encoding="utf-8")
        options: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        context = browser.new_context(**options)
        trouble = complaints_of(context)
        page = context.new_page()
        page.add_init_script("window.alert = () => { throw new Error('a text from outside was run'); }")
        opened.append((page, trouble))
        page.on("request", partial(_note_outside, trouble))
        page.goto(file.as_uri())
        if film is not None:
            until(page, f"{VIDEO}.readyState >= 2 || {VIDEO}.error")
        return page

    yield open_page
    for page, trouble in opened:
        page.context.close()
        assert trouble == []


def _note_outside(trouble: list[str], request: Any) -> None:
    if not request.url.startswith(("file:", "data:", "blob:")):
        trouble.append(f"asks for {request.url[:200]}")


def until(page: Page, condition: str, seconds: float = 60.0) -> None:
    """Wait for a JavaScript condition; playwright's own wait runs it by `eval`, which the page's policy forbids."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(f"!!({condition})"):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {condition}"
        page.wait_for_timeout(20)


def keep(page: Page, name: str) -> None:
    """Keep a picture of the whole page, for people: it is long, so in a lower quality than others."""
    SCREENSHOTS.mkdir(exist_ok=True)
    picture = page.screenshot(path=SCREENSHOTS / f"{name}.jpg", type="jpeg", quality=35, full_page=True)
    assert len(picture) <= LARGEST_SCREENSHOT


def poor(page: Page) -> list[dict[str, Any]]:
    return [text for text in contrasts(page) if text["value"] < text["needed"]]


def time_shown(page: Page) -> float:
    """Seconds under the playhead."""
    return float(page.evaluate(f"parseFloat({AT})")) / 100 * DURATION_S


def sticking_out(page: Page) -> list[str]:
    """Elements that make the page wider than its window."""
    return list(
        page.evaluate(
            """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
            .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll > *"))
            .map((one) => `${one.tagName}.${one.className} ${one.getBoundingClientRect().right}`)"""
        )
    )


def settled(page: Page) -> None:
    until(page, f"!{VIDEO}.seeking")


def test_film_playhead_and_values_follow_the_pointer(show: Open, film: Film) -> None:
    page = show(failure_report(), film)
    page.locator(".chart").scroll_into_view_if_needed()
    box = page.locator(".over").bounding_box()
    assert box is not None
    for part in (0.9, 0.25, 0.6):
        page.mouse.move(box["x"] + part * box["width"], box["y"] + 60)
        second = part * DURATION_S
        until(page, f"Math.abs({VIDEO}.currentTime - {second}) < 0.1 && !{VIDEO}.seeking")
        assert time_shown(page) == pytest.approx(second, abs=0.1)
        assert abs(page.evaluate(SHOWN) - (20 + 6 * int(second))) <= 4, "the picture of that second"
        assert page.locator("[data-column=t]").inner_text() == f"+{second:.1f} s"
        nearest = min(failure_report().curve, key=lambda point: abs(point.stamp_ns - at(second)))
        assert page.locator("[data-column=final]").inner_text() == f"{nearest.final:.2f}"
        assert "rad/s³" in page.locator("[data-joint='3'][data-what=jerk]").inner_text()
        heads = page.locator(".playhead").evaluate_all("all => all.map((one) => one.checkVisibility())")
        assert len(heads) == 1 + 2 * 6, "the chart's, and two for each joint"
        assert all(heads)


def test_it_plays_and_the_playhead_follows(show: Open, film: Film) -> None:
    page = show(failure_report(), film)
    page.locator(".controls select").select_option("8")
    page.locator(".play").click()
    until(page, f"{VIDEO}.currentTime > 4")
    assert page.locator(".play").inner_text() == "Pause"
    page.locator(".play").click()
    until(page, f"{VIDEO}.paused")
    until(page, f"Math.abs(parseFloat({AT}) / 100 * {DURATION_S} - {VIDEO}.currentTime) < 0.1")
    assert time_shown(page) > 3
    page.locator(".falls .jump").first.click()
    until(page, f"Math.abs({VIDEO}.currentTime - 10.4) < 0.1")
    assert time_shown(page) == pytest.approx(10.4, abs=0.05)


def test_keyboard_alone_is_enough(show: Open, film: Film) -> None:
    page = show(failure_report(), film)
    reached, marks = set(), []
    for _ in range(200):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            "(() => { const at = document.activeElement, style = getComputedStyle(at);"
            " return [at.className.split(' ')[0] || at.tagName, style.outlineStyle]; })()"
        )
        if name == "BODY":
            break
        reached.add(name)
        marks.append((name, outline))
        if name == "chart":
            page.keyboard.press("ArrowRight")
            page.keyboard.press("Shift+ArrowRight")
            settled(page)
            assert time_shown(page) == pytest.approx(2.0, abs=0.01), "one and ten samples of 0.2 s from the first one"
            page.keyboard.press("End")
            assert time_shown(page) == DURATION_S
            page.keyboard.press("Home")
            settled(page)
            page.keyboard.press("Space")
            until(page, f"{VIDEO}.currentTime > 0.2")
            page.keyboard.press("Space")
            until(page, f"{VIDEO}.paused")
        elif name == "enlarge" and not page.locator("dialog[open]").count():
            page.keyboard.press("Enter")
            assert page.locator("dialog[open] svg").count() == 1
            page.keyboard.press("Escape")
            assert page.locator("dialog[open]").count() == 0
    assert {"chart", "play", "SELECT", "full", "jump", "enlarge", "span", "scroll", "SUMMARY"} <= reached
    assert not [name for name, outline in marks if outline == "none"], "where the keyboard is can be seen"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_readable(show: Open, film: Film, scheme: str) -> None:
    for report, name in ((failure_report(), "failure"), (success_report(), "success")):
        page = show(report, film, scheme=scheme)
        page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        page.locator(".chart").press("ArrowRight")
        assert poor(page) == []
        keep(page, f"report-{name}-{scheme}")


def test_contrast_is_measured(show: Open) -> None:
    page = show(success_report(), None)
    page.evaluate("document.querySelector('h1').style.color = '#aaaaaa'")
    assert len(poor(page)) == 1


def test_without_a_film_the_key_frames_follow(show: Open) -> None:
    page = show(failure_report(), None)
    picture = page.locator(".still use")
    first = picture.get_attribute("href")
    page.locator(".chart").press("End")
    assert picture.get_attribute("href") != first
    assert "wrist: end" in page.locator(".stage .frame").inner_text()
    assert "No film was made" in page.locator(".stage").inner_text()


def test_a_film_that_does_not_play_is_replaced(show: Open, film: Film) -> None:
    broken = Film(b"\0" * 500, film.start_ns, film.step_ms, film.cameras, film.width, film.height)
    page = show(failure_report(), broken)
    page.wait_for_selector(".still", state="visible")
    assert page.locator("video, .controls").evaluate_all("all => all.every((one) => one.hidden)")
    assert "does not play the film" in page.locator(".stage figcaption").inner_text()


@pytest.mark.parametrize("width", [390, 1200])
def test_hostile_texts_harm_nothing(show: Open, film: Film, width: int) -> None:
    report = hostile_report().model_copy(update={"task": HOSTILE + "W" * 10_000 + "🤖" * 50})
    page = show(report, film, width=width)
    page.locator(".chart").press("End")
    assert sticking_out(page) == []
    assert page.locator("h1").inner_text().count("W") == 10_000
    assert page.locator("img, iframe, object").count() == 0


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_sticks_out(show: Open, film: Film, width: int) -> None:
    page = show(failure_report(), film, width=width)
    assert sticking_out(page) == []
    keep(page, f"report-{width}-wide")


def test_on_paper(show: Open, film: Film) -> None:
    page = show(failure_report(), film, scheme="dark")
    page.locator(".chart").press("ArrowRight")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 690, "height": 1000})  # A4 between its margins
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ground')") == "#fcfcfb"
    hidden = page.locator(".stage, .now, .playhead, dialog").evaluate_all(
        "all => all.map((one) => one.checkVisibility())"
    )
    assert hidden
    assert not any(hidden)
    assert page.locator(".frames figure").first.is_visible()
    assert sticking_out(page) == []
    assert poor(page) == []
    paper = page.pdf(format="A4")
    assert paper.count(b"/Type /Page\n") <= 8
    keep(page, "report-paper")
