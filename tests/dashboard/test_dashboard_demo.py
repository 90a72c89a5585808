"""The demo shows the dashboard where it can and is the same where it cannot."""

from __future__ import annotations

import io
import socket
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rollout_monitor.cli import demo, replay
from rollout_monitor.cli.dashboard import parameters
from rollout_monitor.cli.main import build_app


def test_a_taken_port_gives_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(demo, "DASHBOARD_PORT", port)
        assert demo._free_port() not in (None, port)


@pytest.mark.parametrize("code", ["import no_such_module", "raise SystemExit(2)"])
def test_a_dashboard_that_cannot_run_is_only_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(demo, "_node", lambda *_, **__: [sys.executable, "-c", code])
    out = io.StringIO()
    with demo._dashboard(8642, tmp_path, Console(file=out)) as process:
        assert process is not None
        process.wait(60)
    assert "the dashboard could not run: see" in out.getvalue()


def test_the_command_starts_the_node_with_what_was_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    started: list[dict[str, object]] = []
    monkeypatch.setattr("rollout_monitor.cli.dashboard.become_node", lambda _, values: started.append(values))
    done = CliRunner().invoke(build_app(["dashboard"]), ["dashboard", "--namespace", "/ur5e", "--port", "0"])
    assert done.exit_code == 0, done.output
    assert started == [
        {"host": "127.0.0.1", "port": 0, "episodes": [str(tmp_path / "episodes")], "namespaces": ["/ur5e"]}
    ]
    assert "namespaces" not in parameters([Path("a")], [], "::1", 1, [], None)


def test_without_ros_the_command_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Exception, match="make setup"):
        replay.become_node("rollout_monitor_nodes.dashboard_node", {})
