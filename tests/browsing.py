"""A real browser for the tests of pages, and what is asked of every page: no error, contrast, a picture kept of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCREENSHOTS = Path(__file__).resolve().parents[1] / "screenshots"
LARGEST_SCREENSHOT = 500_000
"""Bytes of one; a dozen of them fit easily into what a CI keeps."""


def open_browser() -> Iterator[Any]:
    """Headless Chromium. Skips, with the reason, where there is none."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        pytest.skip("no Chromium here: scripts/install_browser.sh installs one")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: scripts/install_browser.sh installs it")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


def complaints_of(context: Any) -> list[str]:
    """What the consoles of a browser context's pages complain about from now on, and every script error."""
    found: list[str] = []

    def on_console(message: Any) -> None:
        if message.type in ("error", "warning"):
            found.append(f"{message.type}: {message.text}")

    context.on("console", on_console)
    context.on("weberror", lambda error: found.append(f"script: {error.error}"))
    return found


def keep_screenshot(page: Any, name: str) -> None:
    """Keep a picture of the page, for people who look at what CI did."""
    SCREENSHOTS.mkdir(exist_ok=True)
    file = SCREENSHOTS / f"{name}.jpg"
    page.screenshot(path=file, type="jpeg", quality=60, full_page=True, scale="css")
    assert file.stat().st_size <= LARGEST_SCREENSHOT


_CONTRASTS = """
() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (element) => {
    if (!element) return [255, 255, 255];
    const own = parse(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, ground(element.parentElement));
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (element.closest(".unseen, template, datalist, option")) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const behind = ground(element);
    const value = ratio(over(parse(style.color), behind), behind);
    found.push({ text: text.slice(0, 40), value, needed: large ? 3 : 4.5 });
  }
  return found;
}
"""


def contrasts(page: Any) -> list[dict[str, Any]]:
    """Contrast of every visible text with what is behind it, and what WCAG 2.2 AA needs: text, value, needed."""
    return list(page.evaluate(_CONTRASTS))
