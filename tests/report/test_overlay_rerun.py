"""The Rerun stream, with the real SDK: what is written can be read by its own tools."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from overlay_examples import alarm, live

from rollout_monitor.errors import InputError
from rollout_monitor.records import EventKind, Severity
from rollout_monitor.report.overlay.markers import Place
from rollout_monitor.report.overlay.picture import draw_overlay
from rollout_monitor.report.overlay.rerun_stream import RerunStream
from rollout_monitor.report.overlay.view import ViewState

pytest.importorskip("rerun", reason="the extra [rerun] (170 MB, Python 3.11 or newer) is not installed")

PLACE = Place("base_link")


def test_a_file_holds_the_view(tmp_path: Path) -> None:
    file = tmp_path / "take.rrd"
    stream = RerunStream(str(file), "/ur5e")
    stream.send(ViewState(), None, PLACE)  # nothing heard yet: nothing to send
    hostile = alarm(EventKind.CAMERA_LOST, Severity.ERROR, "<script>\n\U0001f600" + "x" * 10_000)
    for events in ([], [hostile], [hostile]):
        view = live(task="<script>" * 2000, alarms=events).view()
        stream.send(view, draw_overlay(view, None), PLACE)
    stream.close()
    command = [sys.executable, "-m", "rerun", "rrd", "print", "-v", str(file)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    for entity in ("/overlay", "/curves/progress", "/curves/mp", "/now", "/alarms", "/arm/fill", "/arm/hoop"):
        assert entity in printed, entity


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        RerunStream(str(tmp_path / "none" / "take.rrd"))


def test_a_viewer_that_is_not_there_is_said_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(InputError, match="no viewer listens"):
        RerunStream(f"rerun+http://127.0.0.1:{port}/proxy")
