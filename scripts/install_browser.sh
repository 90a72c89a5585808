#!/usr/bin/env bash
# Puts a Chromium on this machine for the tests that look at pages; without one they are skipped and say so.
#
#     scripts/install_browser.sh
#
# Debian's own package: it has the H.264 decoder that the films of reports need. playwright (extra [dev]) drives it.
# Ubuntu's package of that name is a snap, which does not run in containers: name another Chromium or Chrome with
# ROLLOUT_MONITOR_BROWSER there.
set -euo pipefail

if [[ -n "${ROLLOUT_MONITOR_BROWSER:-}" ]] || command -v chromium >/dev/null; then
    echo "install_browser: ${ROLLOUT_MONITOR_BROWSER:-$(command -v chromium)} is there"
    exit 0
fi
if ! command -v apt-get >/dev/null || ((EUID != 0)); then
    echo "install_browser: no Chromium is there. Install it as root: apt-get install chromium" >&2
    exit 1
fi
apt-get update --quiet=2
DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends chromium fonts-noto-color-emoji
chromium --version
