"""Fixtures that every room may use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def public_data() -> Path:
    """Public recordings kept beside the repository; never part of it."""
    path = ROOT.parent / "shared" / "data" / "public"
    if not path.is_dir():
        pytest.skip(f"public recordings are not beside this checkout ({path.relative_to(ROOT.parent)} is absent)")
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; skips where there is none."""
    from browsing import open_browser  # noqa: PLC0415 - tests without pages need it not

    yield from open_browser()
