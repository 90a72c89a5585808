"""The site in a real browser, opened from disk: no errors, filters by keyboard, links to reports, contrast, print."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import complaints_of, contrasts, keep_screenshot
from episodes_making import Made

PAGES = ("index", "tasks", "portraits", "failures", "transfer", "explorer", "read")
PATIENCE_MS = 60_000
"""A loaded machine draws late; nothing here waits so long on a good day."""

UNNAMED = """[...document.querySelectorAll("select, input")].filter(
  (control) => !control.labels.length || !control.labels[0].innerText.trim()).length"""
"""Controls without a label."""


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page; the test fails where its console complained, a script failed or a dialog opened."""
    context = browser.new_context()
    made = context.new_page()
    made.set_default_timeout(PATIENCE_MS)
    complaints = complaints_of(context)
    made.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield made
    context.close()
    assert complaints == []


def url(made: Made, name: str, hash_: str = "") -> str:
    return (made.site / f"{name}.html").as_uri() + hash_


def told(page: Any, text: str) -> None:
    """Wait until the status line says it."""
    page.locator("#status", has_text=re.compile(f"^{re.escape(text)}$")).wait_for()


def reach(page: Any, name: str) -> None:
    """Move on with the Tab key until the control of this name has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == name:
            return
    raise AssertionError(f"{name} cannot be reached with the Tab key")


def names(page: Any) -> list[str]:
    return page.locator("#episodes tbody th bdi").all_text_contents()


def test_every_page_opens_from_disk_and_is_legible_in_light_and_dark(page: Any, made: Made) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for name in PAGES:
            page.goto(url(made, name))
            if name == "tasks":
                told(page, "MP, maximum progress, higher is better; 4 of 4 tasks.")
            if name == "explorer":
                told(page, "205 of 205 attempts")
            assert page.title().endswith("rollout-monitor"), "no text from outside runs"
            assert page.locator("h1").count() == 1
            assert page.locator("img").count() == 0
            found = contrasts(page)
            assert len(found) > 20
            assert [text for text in found if text["value"] < text["needed"]] == [], (scheme, name)
            assert page.evaluate(UNNAMED) == 0
            if scheme == "light" and name in ("index", "portraits", "explorer"):
                keep_screenshot(page, f"site-{name}")


def test_no_page_is_wider_than_a_telephone(page: Any, made: Made) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for name in PAGES:
        page.goto(url(made, name))
        if name in ("tasks", "explorer"):
            page.locator("tbody tr").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


def test_explorer_filters_by_keyboard(page: Any, made: Made) -> None:
    page.goto(url(made, "explorer"))
    told(page, "205 of 205 attempts")
    reach(page, "policy")
    page.keyboard.press("ArrowDown")  # the hostile name sorts first
    told(page, "1 of 205 attempts")
    assert names(page) == ["odd/odd"]
    page.keyboard.press("ArrowDown")
    of_policy = sum(report.source == "policy-0" for report in made.reports.values())
    told(page, f"{of_policy} of 205 attempts")
    reach(page, "counts")
    page.keyboard.press("ArrowDown")
    chosen = {
        name: report
        for name, report in made.reports.items()
        if report.source == "policy-0" and report.metrics_final.success
    }
    told(page, f"{len(chosen)} of 205 attempts")
    reach(page, "where")
    page.keyboard.press("ArrowDown")
    chosen = {name: report for name, report in chosen.items() if name.startswith("sim/")}
    told(page, f"{len(chosen)} of 205 attempts")
    reach(page, "min")
    page.keyboard.type("70")
    chosen = {name: report for name, report in chosen.items() if report.metrics_final.mp >= 0.7}
    assert chosen
    told(page, f"{len(chosen)} of 205 attempts")
    newest = sorted(chosen, key=lambda name: -chosen[name].start_ns)
    assert names(page) == newest[:25]
    assert "counts=success" in page.url, "the address holds the choice"
    page.reload()
    told(page, f"{len(chosen)} of 205 attempts")
    page.get_by_role("button", name="Show all").focus()
    page.keyboard.press("Enter")
    told(page, "205 of 205 attempts")
    page.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    page.get_by_text("page 2 of 9").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Next", "the focus stays with the pages"


def test_explorer_by_tag_metric_and_order(page: Any, made: Made) -> None:
    page.goto(url(made, "explorer"))
    told(page, "205 of 205 attempts")
    page.get_by_label("Tag").select_option("lab:a")
    told(page, "108 of 205 attempts")
    page.locator("[name=metric]").select_option("SQS")
    page.locator("[name=order]").select_option("metric, highest first")
    page.locator("[name=min]").fill("0")
    real = {n: r.metrics_final.sqs for n, r in made.reports.items() if n.startswith("real/")}
    real = {name: sqs for name, sqs in real.items() if sqs is not None}
    told(page, f"{len(real)} of 205 attempts")
    best = page.locator("#episodes tbody tr").first
    assert best.locator("th bdi").text_content() == max(real, key=lambda name: real[name])
    assert f"SQS {100 * max(real.values()):.1f}" in best.text_content()
    page.locator("[name=max]").fill("0")
    told(page, "None of 205 attempts fits; show all to start again.")


def test_curves_are_those_of_the_reports_and_lead_to_them(page: Any, made: Made) -> None:
    page.goto(url(made, "explorer"))
    told(page, "205 of 205 attempts")
    page.get_by_label("Name contains").fill("rr00107")
    told(page, "1 of 205 attempts")
    drawn = page.locator("#episodes path.curve").get_attribute("d")
    pairs = [step.split(" ") for step in drawn.removeprefix("M").split("L")]
    report = made.reports["real/rr00107"]
    times = [(p.stamp_ns - report.start_ns) / (report.end_ns - report.start_ns) for p in report.curve]
    assert [float(x) for x, _ in pairs] == pytest.approx([200 * t for t in times], abs=0.2)
    assert [float(y) for _, y in pairs] == pytest.approx([50 - 50 * p.final for p in report.curve], abs=0.1)
    link = page.get_by_role("link", name="real/rr00107")
    link.focus()
    assert page.locator("#together path.lifted").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url("**/real/rr00107/report.html")
    assert page.title().endswith(report.task)


def test_links_into_the_explorer_choose_what_they_say(page: Any, made: Made) -> None:
    page.goto(url(made, "failures"))
    cell = page.locator("table").first.locator("tr", has_text="policy-3").locator("td a").first
    count, target = int(cell.text_content()), cell.get_attribute("href")
    cell.click()
    told(page, f"{count} of 205 attempts")
    assert "metric=mp" in target
    assert page.get_by_label("Counts as").input_value() == "failure"
    page.goto(url(made, "tasks"))
    page.locator("#matrix tbody tr", has_text="task 1").locator("td a").nth(1).click()
    told(page, "14 of 205 attempts")


def test_policies_by_tasks(page: Any, made: Made) -> None:
    page.goto(url(made, "tasks"))
    told(page, "MP, maximum progress, higher is better; 4 of 4 tasks.")
    reach(page, "metric")
    page.keyboard.press("Home")
    told(page, "SR, success rate, higher is better; 4 of 4 tasks.")
    column = page.locator("#matrix thead th").all_text_contents().index("policy-1")
    row = page.locator("#matrix tbody tr", has_text="task 0")
    of_cell = [r for r in made.reports.values() if r.source == "policy-1" and r.task.startswith("task 0")]
    rate = sum(r.metrics_final.success for r in of_cell) / len(of_cell)
    assert row.locator("td b").nth(column - 1).text_content() == f"{100 * rate:.1f}"
    assert "n 14" in row.locator("td").nth(column - 1).text_content()
    page.get_by_label("Task contains").fill("task 2")
    told(page, "SR, success rate, higher is better; 1 of 4 tasks.")


def test_on_paper_controls_are_gone_and_figures_stay(page: Any, made: Made) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(url(made, "index"))
    assert not page.locator("nav").is_visible() or not page.locator("nav ul").is_visible()
    assert page.locator("table.board tbody tr").first.is_visible()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground in ("rgba(0, 0, 0, 0)", "rgb(255, 255, 255)"), "paper is white, whatever the screen"
    assert len(page.pdf()) > 10_000


def test_a_missing_file_is_told_of(browser: Any, made: Made, tmp_path: Path) -> None:
    copy = shutil.copytree(made.site, tmp_path / "site")
    (copy / "data" / "episodes-0.js").unlink()
    context = browser.new_context()
    page = context.new_page()
    page.goto((copy / "explorer.html").as_uri())
    told(page, "data/episodes-0.js could not be loaded; keep the whole folder together")
    context.close()


def test_the_names_chunk_is_what_the_explorer_lists(page: Any, made: Made) -> None:
    page.goto(url(made, "explorer"))
    told(page, "205 of 205 attempts")
    listed = page.get_by_label("Policy").locator("option").all_text_contents()
    text = (made.site / "data" / "names.js").read_text().partition(",")[2].removesuffix(");\n")
    assert listed == ["all", *json.loads(text)["policies"]]
