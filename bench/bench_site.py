"""The site of `rollout-monitor report DIR` over thousands of synthetic episodes: time, size, memory. Judges nothing.

The episodes are invented (`tests/report/episodes_making.py`) and written through the product's own store; the builder
runs in a process of its own, so that its peak memory is its own. With Chromium and playwright the explorer's first
view and a change of filter are timed, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "report"))

from episodes_making import many, store_each

BUILD = """
import json, re, sys, time
from pathlib import Path
from rollout_monitor.report.site import build
start, cpu = time.perf_counter(), time.process_time()
built = build(Path(sys.argv[1]))
print(json.dumps({"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu,
                  "peak_mb": int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024,
                  "episodes": built.episodes, "files": built.files, "size": built.size, "largest": built.largest}))
"""


def main() -> None:
    """Print a line per part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--policies", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0, help="of an episode, at five estimates a second")
    given = parser.parse_args()
    each = max(given.episodes // (given.policies * given.tasks), 1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        reports = many(given.policies, given.tasks, each, seconds=given.seconds, speed=True)
        episodes = sum(1 for _ in store_each(root, reports))
        stored = sum(path.stat().st_size for path in root.glob("*/report.json"))
        out = subprocess.run([sys.executable, "-c", BUILD, str(root)], check=True, capture_output=True, text=True)
        told = json.loads(out.stdout)
        name, largest = told["largest"]
        pages = {path.name: path.stat().st_size for path in (root / "site").glob("*.html")}
        print(
            f"site over {told['episodes']} synthetic episodes of {given.seconds:g} s ({given.policies} policies, "
            f"{given.tasks} tasks, {stored / 1e6:.0f} MB of reports): {told['seconds']:.1f} s ({told['cpu']:.1f} s of "
            f"processor), {told['size'] / 1e6:.1f} MB in {told['files']} files, the largest {name} "
            f"{largest / 1e6:.2f} MB, the largest page {max(pages.values()) / 1e6:.2f} MB, peak memory "
            f"{told['peak_mb']:.0f} MB"
        )
        browse(root / "site", episodes)


def browse(site: Path, episodes: int) -> None:
    """Time the explorer in a browser, where there is one."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415
    except ImportError:
        chromium = None
    if chromium is None:
        print("explorer: not timed, there is no Chromium with playwright here")
        return
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=chromium, args=[] if os.geteuid() else ["--no-sandbox"])
        page = browser.new_page()
        start = time.perf_counter()
        page.goto((site / "explorer.html").as_uri())
        page.get_by_text(f"{episodes} of {episodes} attempts").wait_for()
        opened = time.perf_counter() - start
        start = time.perf_counter()
        page.locator("[name=order]").select_option("high")
        page.wait_for_function("location.hash.includes('order=high')")
        page.locator("#episodes tbody tr").first.wait_for()
        page.locator("[name=policy]").select_option(index=3)
        page.get_by_text(f" of {episodes} attempts").filter(has_not_text=f"{episodes} of {episodes}").wait_for()
        filtered = time.perf_counter() - start
        heap = page.evaluate("performance.memory ? performance.memory.usedJSHeapSize : 0")
        browser.close()
    print(
        f"explorer in Chromium: first view {opened:.2f} s, another order and a filter {filtered:.2f} s (0.15 s of each "
        f"is waiting for the next key), {heap / 1e6:.0f} MB of script memory"
    )


if __name__ == "__main__":
    main()
