"""What the tests of models share."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollout_monitor.prm.embedded import EmbeddedModel


@pytest.fixture(scope="session")
def tiny_folder() -> Path:
    """An untrained model of format 2; `make_tiny_model.py` made it."""
    return Path(__file__).parent / "data" / "tiny_model"


@pytest.fixture
def tiny(tiny_folder: Path) -> EmbeddedModel:
    return EmbeddedModel(tiny_folder)
