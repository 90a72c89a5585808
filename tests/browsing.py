"""A real headless Chromium for tests of pages, and what every page is held to: no error, readable colours."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCREENSHOTS = Path(__file__).resolve().parents[1] / "runs" / "screenshots"
"""Kept for people to look at, outside of git."""
MOST_BYTES = 2_000_000
"""Of one screenshot."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of this machine; the test is skipped, with the reason, where there is none."""
    found = os.environ.get("ROLLOUT_MONITOR_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium on this machine: scripts/install_browser.sh installs it")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it is in the extra [dev]")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def watch(page: Page) -> list[str]:
    """Everything that goes wrong on a page from now on: errors, warnings, and requests to anywhere but itself."""
    trouble: list[str] = []
    page.on("console", lambda told: trouble.append(told.text) if told.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda asked: trouble.append(asked.url[:200]) if _outside(asked.url) else None)
    return trouble


def _outside(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:", "ws://127.0.0.1:"))


def until(page: Page, condition: str, seconds: float = 30.0) -> None:
    """Wait for a JavaScript condition; playwright's own wait runs it by `eval`, which a page's policy forbids."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(f"!!({condition})"):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {condition}"
        page.wait_for_timeout(20)


def keep_screenshot(page: Page, name: str, **options: Any) -> None:
    """Keep what a page looks like, as a JPEG under a size limit."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.jpg"
    page.screenshot(path=path, type="jpeg", quality=70, **options)
    if path.stat().st_size > MOST_BYTES:
        path.unlink()


def poor_contrasts(page: Page) -> list[str]:
    """Visible texts below AA (WCAG 2.2, 1.4.3: 4.5:1, large ones 3:1), with the ratio and both colours."""
    return list(page.evaluate(_CONTRASTS))


_CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (colour) => {
    const [r, g, b] = colour.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at), colour = rgba(style.backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (element.closest("script, style, option, .unseen")) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    let opacity = 1;
    for (let at = element; at; at = at.parentElement) opacity *= Number(getComputedStyle(at).opacity);
    const below = ground(element), ink = rgba(style.color);
    ink[3] *= opacity;
    const [light, dark] = [luminance(over(ink, below)), luminance(below)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5))
      found.push(`${ratio.toFixed(2)} ${style.color} on ${below.slice(0, 3).map(Math.round)}: ${node.data.trim()}`);
  }
  return found;
}"""
