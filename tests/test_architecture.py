"""The import rules of the house, checked on the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

BOTTOM = {
    "records",
    "errors",
    "frames",
    "joint_history",
    "stamps",
    "images",
    "picture_files",
    "depth",
    "trends",
    "__version__",
}
"""Modules that everyone may import, and that import only each other."""

ALLOWED: dict[str, set[str]] = {
    "curve": set(),
    "motion": set(),
    "prm": set(),
    "events": {"curve", "motion", "prm"},
    "quality": {"curve", "motion", "prm"},
    "episode": {"events", "quality", "curve", "motion", "prm"},
    "judges": {"events", "quality", "curve", "motion", "prm"},
    "store": set(),
    "report": {"store", "curve"},
    "dashboard": {"store"},
    "sim": {"store"},
    "train": {"sim", "judges", "prm", "store", "curve", "events"},
    "bringup": {"episode", "events", "curve", "motion", "prm"},
}
HEAVY = {"torch", "robosuite", "mujoco", "onnx", "transformers", "pyarrow", "h5py", "rerun"}
HEAVY_ROOMS = {"sim", "train"}


def modules(root: Path) -> list[tuple[Path, str]]:
    package = root / "src" / "rollout_monitor"
    return [(path, path.relative_to(package).parts[0].removesuffix(".py")) for path in sorted(package.rglob("*.py"))]


def imports(path: Path) -> list[tuple[str, bool]]:
    """Every imported module, and whether the import stands at module level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; this project writes absolute ones"
            found.append((node.module or "", id(node) in top))
            found += [(f"{node.module}.{alias.name}", id(node) in top) for alias in node.names]
    return found


def test_core_never_imports_ros(root: Path) -> None:
    ros = {"rclpy", "sensor_msgs", "std_msgs", "builtin_interfaces", "rollout_monitor_msgs", "rollout_monitor_nodes"}
    for path, _ in modules(root):
        for name, _ in imports(path):
            assert name.split(".")[0] not in ros, f"{path.name} imports {name}: the core knows no ROS"


def test_imports_go_down_only(root: Path) -> None:
    for path, room in modules(root):
        if room in {"cli", "__init__", "__main__"}:
            continue
        allowed = BOTTOM if room in BOTTOM else BOTTOM | {room} | ALLOWED[room]
        for name, _ in imports(path):
            parts = name.split(".")
            if parts[0] == "rollout_monitor" and len(parts) > 1:
                assert parts[1] in allowed, f"{room}/{path.name} imports {name}: not below {room}"


def test_main_path_needs_nothing_heavy(root: Path) -> None:
    for path, room in modules(root):
        if room in HEAVY_ROOMS:
            continue
        for name, at_top in imports(path):
            assert not (at_top and name.split(".")[0] in HEAVY), f"{path.name} imports {name} at module level"


@pytest.mark.parametrize("word", ["import pickle", "allow_pickle=True", "shell=True", "os.system("])
def test_nothing_unsafe(root: Path, word: str) -> None:
    for folder in ("src", "ros2_ws/src", "scripts", "bench"):
        for path in (root / folder).rglob("*.py"):
            assert word not in path.read_text(encoding="utf-8"), f"{path}: {word} is not allowed here"


def test_rooms_are_documented(root: Path) -> None:
    for path, _ in modules(root):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{path}: says not what it is for"
