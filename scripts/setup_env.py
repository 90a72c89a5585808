"""Make everything the project runs on: a virtual environment, ROS 2 and the built workspace. Called by `make setup`.

Two ways to the same end. Where a ROS 2 installation is sourced (ROS_DISTRO is set), it is used as it is: the virtual
environment sees its packages and colcon overlays it. Elsewhere ROS 2 is installed into the virtual environment from
wheels. Each step is skipped while what it was made from has not changed, so that a second call takes no time.

This file runs on the caller's bare Python: it uses the standard library only, and syntax that an older interpreter can
parse, so that it lives to say that it is too old.
"""

# ruff: noqa: S603 - every command run here is made here, from fixed words and this project's own paths

import sys

if sys.version_info < (3, 10):  # noqa: UP036 - before anything that an old interpreter could not import
    sys.exit(
        f"setup: Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable}) is too old; "
        "rollout-monitor needs 3.10 to 3.13. Name another one: make setup PYTHON=python3.12"
    )

import argparse
import fcntl
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# In an activated virtual environment (perhaps the very one to be made) the interpreter it was made from.
PYTHON = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
WHEEL_DISTROS = ("jazzy", "kilted")
NEWEST_PYTHON = (3, 13)
WORKSPACE_PACKAGES = ("rollout_monitor_msgs", "rollout_monitor_nodes", "rollout_monitor_bringup")
INSTALLED_FROM_ROOT = ("launch", "config")  # rollout_monitor_bringup installs these folders

# Started through the interpreter of the environment, so that what colcon builds belongs to that interpreter.
COLCON = "import sys; from colcon_core.command import main; sys.exit(main())"


class SetupError(Exception):
    """Something the user must change before the setup can go on."""


@dataclass(frozen=True)
class Layout:
    """Where one variant (jazzy, kilted, or a sourced installation) keeps its things."""

    root: Path
    distro: str
    sourced: bool

    @property
    def variant(self) -> str:
        """Name of the folders below ros2_ws/build and ros2_ws/install."""
        return f"system-{self.distro}" if self.sourced else self.distro

    @property
    def venv(self) -> Path:
        """The virtual environment."""
        return self.root / (".venv" if self.variant == WHEEL_DISTROS[0] else f".venv-{self.variant}")

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.venv / "bin" / "python"

    def workspace(self, kind: str) -> Path:
        """The build, install or log folder."""
        return self.root / "ros2_ws" / kind / self.variant


@dataclass(frozen=True)
class Step:
    """One thing to make: skipped while its key equals the one kept in its stamp file."""

    name: str
    key: str
    stamp: Path
    commands: list[list[str]] = field(default_factory=list)
    call: Callable[[], None] | None = None
    stale: tuple[Path, ...] = ()  # folders of an earlier build, in which a deleted module would live on
    env: Mapping[str, str] | None = None

    def is_done(self) -> bool:
        """Whether the stamp says that exactly this was made."""
        return self.stamp.is_file() and self.stamp.read_text(encoding="utf-8") == self.key


def digest(*parts: str | Path) -> str:
    """Hash of strings and of the content of files and folders; caches and build leftovers do not count."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            found.update(part.encode())
        else:
            for file in _files(part):
                found.update(str(file.relative_to(part.parent)).encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    ignored = ("__pycache__", ".egg-info", ".ruff_cache", ".mypy_cache")
    return sorted(
        file for file in path.rglob("*") if file.is_file() and not any(part.endswith(ignored) for part in file.parts)
    )


def choose_layout(root: Path, distro: str | None, environ: Mapping[str, str]) -> Layout:
    """Decide between the sourced installation and the wheels, from the environment alone."""
    sourced = environ.get("ROS_DISTRO", "")
    if sourced and environ.get("ROLLOUT_MONITOR_ROS") != "wheels":  # scripts/ros_run sets both for the wheels
        if not environ.get("AMENT_PREFIX_PATH"):
            raise SetupError(
                f"ROS_DISTRO={sourced} is set but AMENT_PREFIX_PATH is not: source the installation's setup.bash, "
                "or unset ROS_DISTRO to use the ROS 2 wheels"
            )
        if distro and distro != sourced:
            raise SetupError(
                f"DISTRO={distro} was asked for, but the sourced installation is {sourced}: use a shell without it"
            )
        return Layout(root, sourced, sourced=True)
    chosen = distro or WHEEL_DISTROS[0]
    if chosen not in WHEEL_DISTROS:
        raise SetupError(f"DISTRO={chosen}: ROS 2 wheels are set up for {' and '.join(WHEEL_DISTROS)}")
    return Layout(root, chosen, sourced=False)


def check_machine(layout: Layout, environ: Mapping[str, str]) -> None:
    """Name what is missing on this machine before minutes are spent.

    Raises:
        SetupError: the interpreter, the architecture, the compiler or a system package does not fit.
    """
    version = sys.version_info[:2]
    if version > NEWEST_PYTHON:
        raise SetupError(
            f"Python {version[0]}.{version[1]} ({PYTHON}) is newer than what was tried; rollout-monitor needs "
            "3.10 to 3.13. Name another one: make setup PYTHON=python3.12"
        )
    compiler = environ.get("CXX") or "c++"
    if not any(shutil.which(name.split()[0]) for name in (compiler, "g++", "clang++")):
        raise SetupError("no C++ compiler found, and messages are compiled: sudo apt-get install g++")
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        raise SetupError(f"no headers of {PYTHON} found, and messages need them: sudo apt-get install python3-dev")
    if importlib.util.find_spec("ensurepip") is None:
        raise SetupError(f"{PYTHON} cannot make virtual environments: sudo apt-get install python3-venv")
    if layout.sourced:
        if importlib.util.find_spec("rclpy") is None:
            raise SetupError(
                f"{PYTHON} does not see rclpy of the sourced {layout.distro}: "
                "name the interpreter that ROS uses: make setup PYTHON=/usr/bin/python3"
            )
        if importlib.util.find_spec("colcon_core") is None:
            raise SetupError("colcon is missing: sudo apt-get install python3-colcon-common-extensions")
    elif sys.platform != "linux" or platform.machine() != "x86_64":
        raise SetupError(
            f"ROS 2 wheels exist for x86_64 Linux only, this is {platform.machine()} {sys.platform}: "
            "install ROS 2, source its setup.bash and call this again"
        )


def repoint_exports(venv: Path, include: str, numpy_include: str) -> int:
    """Make the wheels' CMake exports name this interpreter.

    They carry the include folders of the machine that built them (/opt/python/cp3XX-cp3XX/...), which CMake refuses as
    absent. Returns the number of files changed; a second call changes none.
    """
    changed = 0
    for file in (venv / "share").rglob("*.cmake"):
        text = file.read_text(encoding="utf-8")
        parts = []
        for part in text.replace('"', '"\0').replace(";", ";\0").split("\0"):
            if part.startswith("/opt/python/cp"):
                end = min(index for index in (part.find('"'), part.find(";"), len(part)) if index >= 0)
                part = (numpy_include if "/numpy/" in part[:end] else include) + part[end:]  # noqa: PLW2901
            parts.append(part)
        new = "".join(parts)
        if new != text:
            file.write_text(new, encoding="utf-8")
            changed += 1
    return changed


def build_environment(layout: Layout, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which colcon builds."""
    env = dict(environ)
    env["VIRTUAL_ENV"] = str(layout.venv)
    env["PATH"] = f"{layout.venv / 'bin'}:{environ.get('PATH', '')}"
    if not layout.sourced:
        env.update(
            AMENT_PREFIX_PATH=str(layout.venv),
            CMAKE_PREFIX_PATH=str(layout.venv),
            ROS_VERSION="2",
            ROS_PYTHON_VERSION="3",
            ROS_DISTRO=layout.distro,
        )
        env.pop("PYTHONPATH", None)
    return env


def plan(layout: Layout, environ: Mapping[str, str]) -> list[Step]:
    """All steps from nothing to a built workspace, in order."""
    state = layout.venv / ".setup"
    interpreter = f"{PYTHON} {platform.python_version()}"
    base = layout.root / "requirements"
    build, constraints = base / "build.txt", base / "constraints.txt"
    wheels = [] if layout.sourced else [base / f"ros-{layout.distro}.txt", build]
    numpy = [f"numpy=={version}" for version in _numpy_of_ros(layout, environ)]

    pip = [str(layout.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    everything = [*numpy, *(f"--requirement={file}" for file in wheels), f"--constraint={constraints}"]
    project = ["--no-build-isolation", f"--editable={layout.root}[dev]"]
    ros_key = digest(interpreter, layout.distro, *numpy, *wheels)
    packages_key = digest(ros_key, constraints, layout.root / "pyproject.toml")

    make_venv = [PYTHON, "-m", "venv", "--clear", *(["--system-site-packages"] if layout.sourced else [])]
    steps = [
        Step("virtual environment", digest(interpreter), state / "venv", [[*make_venv, str(layout.venv)]]),
        Step(
            "Python packages" if layout.sourced else f"ROS 2 {layout.distro} and Python packages",
            packages_key,
            state / "packages",
            [[*pip, _pinned(build, "setuptools")], [*pip, *everything, *project]],
        ),
    ]
    if not layout.sourced:
        steps.append(Step("CMake exports", ros_key, state / "exports", call=lambda: _repoint(layout)))
    env = build_environment(layout, environ)
    for package in WORKSPACE_PACKAGES:
        sources = [layout.root / "ros2_ws" / "src" / package]
        if package.endswith("_bringup"):
            sources += [layout.root / name for name in INSTALLED_FROM_ROOT]
        key = digest(ros_key, str(layout.root), *sources)
        stamp = layout.workspace("build") / f"{package}.stamp"
        stale = _python_builds(layout, package) if (sources[0] / "setup.py").is_file() else ()
        steps.append(Step(f"workspace: {package}", key, stamp, [_colcon(layout, package)], env=env, stale=stale))
    return steps


def _numpy_of_ros(layout: Layout, environ: Mapping[str, str]) -> list[str]:
    """Version of the numpy that a sourced ROS was compiled against: the environment must keep to it."""
    if not layout.sourced:
        return []
    code = "import numpy; print(numpy.__version__)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False, env=dict(environ))
    return done.stdout.split()


def _pinned(requirements: Path, name: str) -> str:
    """The pin of one package, out of a requirements file."""
    for line in requirements.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}=="):
            return line.split("#")[0].strip()
    raise SetupError(f"{requirements} does not pin {name}")


def _repoint(layout: Layout) -> None:
    ask = "import numpy, sysconfig; print(sysconfig.get_path('include')); print(numpy.get_include())"
    done = subprocess.run([str(layout.python), "-c", ask], capture_output=True, text=True, check=True)
    include, numpy_include = done.stdout.splitlines()
    repoint_exports(layout.venv, include, numpy_include)


def _colcon(layout: Layout, package: str) -> list[str]:
    return [
        str(layout.python), "-c", COLCON, "--log-base", str(layout.workspace("log")), "build",
        "--merge-install", "--base-paths", str(layout.root / "ros2_ws" / "src"), "--packages-select", package,
        "--build-base", str(layout.workspace("build")), "--install-base", str(layout.workspace("install")),
        "--cmake-args", "-DBUILD_TESTING=OFF", f"-DPython3_EXECUTABLE={layout.python}",
    ]  # fmt: skip


def _python_builds(layout: Layout, package: str) -> tuple[Path, ...]:
    installed = layout.workspace("install").glob(f"**/{package}/__init__.py")
    return (layout.workspace("build") / package, *(file.parent for file in installed))


def run(step: Step, log: Path) -> None:
    """Carry out one step, its output going to a log file; leave the stamp only when all of it worked.

    Raises:
        SetupError: a command failed; the message holds the end of its output.
    """
    step.stamp.unlink(missing_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    for folder in step.stale:
        shutil.rmtree(folder, ignore_errors=True)
    for command in step.commands:
        with log.open("ab") as out:
            out.write(f"$ {shlex.join(command)}\n".encode())
            out.flush()
            done = subprocess.run(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=step.env, check=False)
        if done.returncode:
            end = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:])
            raise SetupError(f"{step.name} failed with exit code {done.returncode}; the end of {log}:\n{end}")
    if step.call:
        step.call()
    step.stamp.parent.mkdir(parents=True, exist_ok=True)
    step.stamp.write_text(step.key, encoding="utf-8")


@contextmanager
def one_at_a_time(layout: Layout) -> Iterator[None]:
    """Let a second setup of the same environment wait for the first."""
    with layout.venv.with_name(f"{layout.venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(arguments: list[str] | None = None) -> int:
    """Command line of `make setup`."""
    parser = argparse.ArgumentParser(description="Prepare the virtual environment, ROS 2 and the workspace.")
    parser.add_argument("--distro", default=None, help=f"ROS 2 wheels to use: {', '.join(WHEEL_DISTROS)}")
    parser.add_argument("--dry-run", action="store_true", help="print what would be run, do nothing")
    options = parser.parse_args(arguments)
    try:
        layout = choose_layout(ROOT, options.distro or None, os.environ)
        check_machine(layout, os.environ)
        if options.dry_run:
            for step in plan(layout, os.environ):
                print(f"# {step.name}{' (done)' if step.is_done() else ''}")
                for command in step.commands:
                    print(shlex.join(command))
            return 0
        with one_at_a_time(layout):
            for step in plan(layout, os.environ):
                if not step.is_done():
                    start = time.monotonic()
                    print(f"setup: {step.name} ...", flush=True)
                    run(step, layout.workspace("log") / "setup.log")
                    print(f"setup: {step.name}: {time.monotonic() - start:.0f} s", flush=True)
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
