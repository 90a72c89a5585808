"""A small installed workspace and the repository's own scripts, for the tests of what starts things."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def prefix(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ROS 2 prefix with the repository's configuration and an executable file per node."""
    made = tmp_path / "install"
    share = made / "share" / "rollout_monitor_bringup"
    share.mkdir(parents=True)
    (share / "config").symlink_to(root / "config")
    executables = made / "lib" / "rollout_monitor_nodes"
    executables.mkdir(parents=True)
    for name in ("prm_node", "monitor_node", "recorder", "overlay_node"):
        (executables / name).write_text("#!/usr/bin/env python3\n", encoding="utf-8")
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join([str(tmp_path / "empty"), str(made)]))
    return made


@pytest.fixture(scope="session")
def load_script(root: Path) -> Callable[[str], ModuleType]:
    """Imports a file of the repository that is in no package."""

    def load(relative: str) -> ModuleType:
        path = root / relative
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def setup_env(load_script: Callable[[str], ModuleType]) -> ModuleType:
    """scripts/setup_env.py as a module."""
    return load_script("scripts/setup_env.py")
