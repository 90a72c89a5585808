#!/usr/bin/env bash
# Installs what the tests of pages need: Debian's Chromium, and playwright, which drives it, into a virtual environment.
#
#     scripts/install_browser.sh [VENV]        default: .venv
#
# Chromium comes from the distribution and not from playwright, so that it gets its security updates. Ubuntu has it as a
# snap only: there, install any Chromium or Chrome and name it in CHROMIUM. Without this the tests of pages are skipped.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="${1:-$root/.venv}"
python="$venv/bin/python"
playwright="playwright==1.65.2"

if [[ ! -x "$python" ]]; then
    echo "install_browser: no Python in $venv; make the environment first (make setup) or name another one" >&2
    exit 2
fi

chromium="${CHROMIUM:-$(command -v chromium || true)}"
if [[ -z "$chromium" ]]; then
    install=(apt-get install --yes --no-install-recommends chromium)
    if [[ $(id -u) != 0 ]]; then
        echo "install_browser: Chromium is missing. Install it and run this again:" >&2
        echo "    sudo ${install[*]}" >&2
        exit 1
    fi
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive "${install[@]}"
    chromium="$(command -v chromium)"
fi

"$python" -m pip install --quiet --disable-pip-version-check "$playwright"

CHROMIUM="$chromium" "$python" - <<'PY'
import os

from playwright.sync_api import sync_playwright

arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=arguments)
    print(f"install_browser: Chromium {browser.version} draws pages")
    browser.close()
PY
