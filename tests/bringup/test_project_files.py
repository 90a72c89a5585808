"""What stands at the top of the repository keeps to its rules: Dockerfile, hooks, licence, pins, targets."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml


@pytest.fixture(scope="session")
def docker(root: Path) -> list[tuple[str, str]]:
    """Instructions of the Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (root / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]  # type: ignore[misc]


def of(docker: list[tuple[str, str]], name: str) -> list[str]:
    return [rest for instruction, rest in docker if instruction == name]


def test_the_image_is_the_official_one_of_a_named_release(docker: list[tuple[str, str]]) -> None:
    assert of(docker, "FROM") == ["ros:jazzy-ros-base-noble"]


def test_nothing_is_fetched_around_the_package_managers(docker: list[tuple[str, str]]) -> None:
    for command in of(docker, "RUN"):
        assert not re.search(r"\b(curl|wget|git clone|sudo|chmod 777)\b|\|\s*(ba)?sh\b", command)
    assert of(docker, "ADD") == []


def test_package_lists_do_not_stay_in_the_image(docker: list[tuple[str, str]]) -> None:
    for command in of(docker, "RUN"):
        if "apt-get install" in command:
            assert command.startswith("apt-get update && ")
            assert "--yes --no-install-recommends" in command
            assert command.endswith("rm -rf /var/lib/apt/lists/*")


def test_it_builds_by_the_same_setup_and_runs_as_nobody_special(docker: list[tuple[str, str]]) -> None:
    assert "make setup" in of(docker, "RUN")[-1]
    assert of(docker, "USER") == ["10001:10001"]
    names = [name for name, _ in docker]
    assert names.index("USER") < names.index("COPY") < names.index("ENTRYPOINT")
    assert all(rest.startswith("[") for name in ("ENTRYPOINT", "CMD") for rest in of(docker, name)), "exec form"


def test_what_is_built_here_stays_out_of_the_image(root: Path) -> None:
    ignored = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".git", ".venv*", "ros2_ws/build", "ros2_ws/install", "ros2_ws/log"} <= set(ignored)


def test_hooks_are_local_and_use_the_projects_environment(root: Path) -> None:
    config = yaml.safe_load((root / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    for hook in config["repos"][0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith("scripts/ros_run ")


def test_the_licence_is_apache_2_in_full_and_the_same_everywhere(root: Path) -> None:
    text = (root / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = { text = "Apache-2.0" }' in (root / "pyproject.toml").read_text(encoding="utf-8")
    for manifest in (root / "ros2_ws" / "src").glob("*/package.xml"):
        assert "<license>Apache-2.0</license>" in manifest.read_text(encoding="utf-8")


def test_one_version_everywhere(root: Path) -> None:
    version = re.search(r'__version__ = "(.+)"', (root / "src/rollout_monitor/__init__.py").read_text(encoding="utf-8"))
    assert version is not None
    for manifest in (root / "ros2_ws" / "src").glob("*/package.xml"):
        assert f"<version>{version[1]}</version>" in manifest.read_text(encoding="utf-8"), manifest
    assert f'version="{version[1]}"' in (root / "ros2_ws/src/rollout_monitor_nodes/setup.py").read_text(
        encoding="utf-8"
    )


def test_every_requirement_is_pinned(root: Path) -> None:
    pin = re.compile(r"^[A-Za-z0-9._-]+==[A-Za-z0-9.]+(; python_version (<|>=) \"3\.11\")?$")
    for file in (root / "requirements").glob("*.txt"):
        for line in file.read_text(encoding="utf-8").splitlines():
            words = line.split("#")[0].strip()
            assert not words or pin.match(words), f"{file.name}: {line}"


def test_every_target_is_listed_with_what_it_does(root: Path) -> None:
    text = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", text, flags=re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.+)$", text, flags=re.MULTILINE)
    assert phony is not None
    assert targets == set(phony[1].split())
    shown = subprocess.run(["make", "-C", str(root), "help"], capture_output=True, text=True, check=True).stdout
    for target in targets:
        assert re.search(rf"make {target} +\S", shown), f"'make help' does not show {target}"


def test_ci_runs_what_everybody_runs(root: Path) -> None:
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "make test"


def test_scripts_can_be_executed(root: Path) -> None:
    for script in (root / "scripts").iterdir():
        if script.is_file() and script.suffix != ".py":
            assert os.access(script, os.X_OK), script
            assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash")


def test_no_path_of_a_machine_stands_in_the_build_files(root: Path) -> None:
    for name in ("Makefile", "Dockerfile", ".ci/run", "scripts/ros_run", "scripts/setup_env.py", "pyproject.toml"):
        text = (root / name).read_text(encoding="utf-8")
        assert not re.search(r"/(home|root|work|Users)/", text), name


def test_test_modules_have_names_of_their_own(root: Path) -> None:
    """pytest imports them by name alone, and two of one name stop the whole run."""
    names = [path.name for path in (root / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
