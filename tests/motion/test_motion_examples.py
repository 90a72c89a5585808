"""The examples in the docstrings of this room are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["grid", "streaming"])
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"rollout_monitor.motion.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
