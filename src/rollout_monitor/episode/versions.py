"""Which programs made a report's figures."""

from __future__ import annotations

import platform
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from rollout_monitor import __version__

_PACKAGES = ("numpy", "scipy", "onnxruntime", "opencv-python-headless", "pillow", "av")


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Version of this program, of Python and of the packages that figures come through, where they are installed."""
    found = {"rollout-monitor": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # a distribution's package may carry no metadata
            continue
    return found
