"""overlay_node in a process of its own: drawn for those who look, by RViz's rules, gone when it is gone."""

from __future__ import annotations

import math
import signal
from typing import Any

import numpy as np
import pytest
from graph import Graph, Heard, Process
from rollout_monitor_nodes.common.conversions import event_to_msg, status_to_msg, time_to_msg
from rollout_monitor_nodes.common.display import image_to_msg, markers_to_msg, overlay_text_to_msg
from rollout_monitor_nodes.common.types import is_installed
from rollout_monitor_nodes.interfaces import OVERLAY_TEXT
from sensor_msgs.msg import Image
from visualization_msgs.msg import Marker, MarkerArray

from rollout_monitor.records import EpisodeState, Event, EventKind, MonitorStatus, Severity
from rollout_monitor.report.overlay.layout import Layout
from rollout_monitor.report.overlay.markers import Part, Place, markers
from rollout_monitor.report.overlay.view import LiveView, ViewState

NS = "/arm"
CAMERA = f"{NS}/camera_front/color/image_raw"
START_NS = 1_000_000_000_000
ROWS, COLUMNS, PADDING = 180, 320, 13
HOSTILE = "<script>alert('x')</script>\n\x1b[2J\U0001f600 你好 " + "x" * 10_000


def alarm(severity: Severity = Severity.ERROR, reason: str = "no frame for 1.0 s") -> Event:
    return Event(
        event_id=3,
        episode_id="take-1",
        kind=EventKind.CAMERA_LOST,
        severity=severity,
        onset_ns=START_NS,
        detected_ns=START_NS,
        subject="wrist",
        reason=reason,
    )


def status(at_s: float, *, task: str = "lift the red cube", alarms: tuple[Event, ...] = ()) -> MonitorStatus:
    return MonitorStatus(
        stamp_ns=START_NS + round(at_s * 1e9),
        episode_id="take-1",
        state=EpisodeState.RUNNING,
        task=task,
        elapsed_s=at_s,
        progress=0.4,
        mp=0.6,
        drawdown=0.2,
        smoothness=-3.0,
        moving=True,
        active_events=list(alarms),
    )


def frame(at_s: float) -> Image:
    """A grey picture whose rows are padded."""
    msg = Image(height=ROWS, width=COLUMNS, encoding="rgb8", step=3 * COLUMNS + PADDING)
    msg.data = bytes([90]) * (msg.step * ROWS)
    msg.header.stamp = time_to_msg(START_NS + round(at_s * 1e9))
    msg.header.frame_id = "front_optical"
    return msg


class Arm:
    """What a camera and a monitor would publish, by hand, and the node that draws it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.now_s = 0.0
        self.statuses = graph.publisher(f"{NS}/rollout/status", "rollout_monitor_msgs/msg/MonitorStatus", "LATCHED")
        self.events = graph.publisher(f"{NS}/rollout/events", "rollout_monitor_msgs/msg/MonitorEvent", "RECORDS")
        self.camera = graph.publisher(CAMERA, "sensor_msgs/msg/Image", "SENSOR")
        self.diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
        self.node: Process = graph.start("overlay_node", namespace=NS, markers__frame="tool0", stale_s=30.0)
        graph.until("the node hears the monitor", self.statuses.get_subscription_count)

    def step(self, **fields: Any) -> None:
        """A moment of the attempt: a frame and a status."""
        self.now_s += 0.1
        self.camera.publish(frame(self.now_s))
        self.statuses.publish(status_to_msg(status(self.now_s, **fields)))
        self.graph.pump()

    def until(self, what: str, check: Any, **fields: Any) -> Any:
        """Let time go on until something holds."""

        def stepped() -> Any:
            self.step(**fields)
            return check()

        return self.graph.until(what, stepped)

    def counted(self, part: str, key: str) -> list[int]:
        """A counter as every diagnostics message so far had it."""
        name = f"{NS[1:]}/overlay_node: {part}"
        found = [one for msg in self.diagnostics.messages for one in msg.status if one.name == name]
        return [int(pair.value) for one in found for pair in one.values if pair.key == key]


def pictures(heard: Heard) -> list[np.ndarray]:
    return [np.frombuffer(bytes(m.data), np.uint8).reshape(m.height, m.width, 3) for m in heard.messages]


def test_drawn_for_those_who_look_and_only_then(graph: Graph) -> None:
    arm = Arm(graph)
    arm.until("three reports of an idle node", lambda: len(arm.counted("overlay", "drawn")) >= 3)
    assert set(arm.counted("overlay", "drawn")) == {0}
    assert "overlay_node" not in graph.subscribers(CAMERA)

    seen = graph.listen(f"{NS}/rollout/overlay", "sensor_msgs/msg/Image", "SENSOR")  # as RViz asks: best effort

    def with_camera() -> Any:
        return next((msg for msg in seen.messages if msg.header.frame_id == "front_optical"), None)

    msg = arm.until("a picture with the camera's in it", with_camera)
    assert (msg.encoding, msg.is_bigendian, msg.width, msg.height) == ("rgb8", 0, 640, 360)
    assert msg.step == 3 * msg.width and len(msg.data) == msg.step * msg.height
    assert START_NS < msg.header.stamp.sec * 10**9 + msg.header.stamp.nanosec <= START_NS + round(arm.now_s * 1e9)
    picture = pictures(seen)[seen.messages.index(msg)]
    bar = Layout.of(640, ROWS, COLUMNS).bar
    row = picture[(bar.y0 + bar.y1) // 2, bar.x0 : bar.x1].astype(int)
    filled = np.flatnonzero((row[:, 2] > 200) & (row[:, 0] < 120))
    assert abs(filled.max() + 1 - 0.4 * bar.width) <= 1
    assert np.all(picture[120:240, 250:600] == 90), "the camera's picture shows between the panels"

    before = len(seen.messages)
    arm.until("pictures of a hostile task", lambda: len(seen.messages) > before + 3, task=HOSTILE)
    arm.until("the counter moves", lambda: arm.counted("overlay", "drawn")[-1] > 0)

    graph.node.destroy_subscription(seen.subscription)
    arm.until("the camera let go", lambda: "overlay_node" not in graph.subscribers(CAMERA))
    reports = len(arm.counted("overlay", "drawn"))
    arm.until("three reports later", lambda: len(arm.counted("overlay", "drawn")) > reports + 2)
    assert len(set(arm.counted("overlay", "drawn")[reports + 1 :])) == 1
    assert "Traceback" not in arm.node.text


def test_markers_keep_rvizs_rules_and_are_deleted_at_the_end(graph: Graph) -> None:
    arm = Arm(graph)
    seen = graph.listen(f"{NS}/rollout/markers", "visualization_msgs/msg/MarkerArray", "RECORDS")
    arm.until("markers", lambda: seen.messages, task=HOSTILE)
    assert marker(seen.messages[-1], Part.HOOP).action == Marker.DELETE
    arm.until(
        "a hoop", lambda: marker(seen.messages[-1], Part.HOOP).action == Marker.ADD, alarms=(alarm(reason=HOSTILE),)
    )
    for message in seen.messages:
        check(message)
        assert {m.header.frame_id for m in message.markers} == {"tool0"}
        stamps = {m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for m in message.markers}
        assert len(stamps) == 1 and (stamps.pop() - START_NS) % 100_000_000 == 0, "a status's stamp"
    assert marker(seen.messages[-1], Part.TEXT).text == "RUNNING\n40 %"

    arm.node.signal(signal.SIGINT)
    assert arm.node.wait() == 0
    graph.until("all deleted", lambda: all(m.action == Marker.DELETE for m in seen.messages[-1].markers))
    assert [m.id for m in seen.messages[-1].markers] == [int(part) for part in Part]
    assert {m.ns for m in seen.messages[-1].markers} == {"arm/progress"}


def test_an_error_that_is_over_at_once_is_shown_for_a_while(graph: Graph) -> None:
    arm = Arm(graph)
    seen = graph.listen(f"{NS}/rollout/markers", "visualization_msgs/msg/MarkerArray", "RECORDS")
    graph.until("the node hears events", arm.events.get_subscription_count)
    arm.until("markers", lambda: seen.messages)
    over = alarm().model_copy(update={"detected_ns": START_NS + 10**9, "cleared_ns": START_NS + 10**9})
    arm.events.publish(event_to_msg(over))
    arm.until("a hoop", lambda: marker(seen.messages[-1], Part.HOOP).action == Marker.ADD)
    arm.now_s += 30.0
    arm.until("no hoop", lambda: marker(seen.messages[-1], Part.HOOP).action == Marker.DELETE)


# --- messages, without a graph -----------------------------------------------------------------------------------


def marker(message: MarkerArray, part: Part) -> Marker:
    return next(m for m in message.markers if m.id == part)


def check(message: MarkerArray) -> None:
    """What RViz's MarkerCommon and its markers reject, warn of or garble."""
    keys = [(m.ns, m.id) for m in message.markers]
    assert len(set(keys)) == len(keys)
    for m in message.markers:
        position, orientation = m.pose.position, m.pose.orientation
        numbers = [position.x, position.y, position.z, m.scale.x, m.scale.y, m.scale.z]
        numbers += [m.color.r, m.color.g, m.color.b, m.color.a]
        numbers += [value for p in m.points for value in (p.x, p.y, p.z)]
        assert all(math.isfinite(number) for number in numbers)
        assert (orientation.x, orientation.y, orientation.z, orientation.w) == (0.0, 0.0, 0.0, 1.0)
        assert m.text.isascii() and m.frame_locked
        if m.action == Marker.ADD:
            assert m.lifetime.sec * 10**9 + m.lifetime.nanosec > 100_000, "else it stays for ever"
            assert m.color.a > 0
            if m.type == Marker.CUBE:
                assert m.scale.x * m.scale.y * m.scale.z > 0
            elif m.type == Marker.TEXT_VIEW_FACING:
                assert m.scale.z > 0 and m.text
            elif m.type == Marker.LINE_LIST:
                assert m.scale.x > 0 and len(m.points) % 2 == 0 and m.points
            else:
                assert m.type == Marker.LINE_STRIP and m.scale.x > 0 and len(m.points) >= 2


@pytest.mark.parametrize("progress", [None, 0.0, 1e-9, 0.5, 1.0])
def test_messages_at_both_ends_of_the_scale(progress: float | None) -> None:
    for error in (False, True):
        view = ViewState(state=EpisodeState.RUNNING, stamp_ns=0, progress=progress, mp=progress, error=error)
        check(markers_to_msg(markers(view, Place("base_link")), 0, "base_link", "progress", 2.0))


def test_a_picture_of_any_width_has_tight_rows() -> None:
    msg = image_to_msg(np.zeros((3, 321, 3), np.uint8), 7, "f")
    assert (msg.step, len(msg.data), msg.header.stamp.nanosec) == (963, 3 * 963, 7)


class FakeOverlayText:
    """The fields of rviz_2d_overlay_msgs/OverlayText, where that is not installed."""

    ADD, LEFT, TOP = 0, 0, 3
    FIELDS = frozenset(
        (
            *("action", "width", "height", "horizontal_distance", "vertical_distance"),
            *("horizontal_alignment", "vertical_alignment", "bg_color", "line_width", "text_size", "font"),
            *("fg_color", "text"),
        )
    )

    def __init__(self, **fields: Any) -> None:
        assert set(fields) <= self.FIELDS
        vars(self).update(fields)


def test_words_for_the_2d_overlay_are_escaped_for_its_html() -> None:
    """The plugin writes with QStaticText, which takes tags for formatting."""
    live = LiveView()
    live.on_status(status(1.0, task=HOSTILE, alarms=(alarm(reason=HOSTILE),)))
    text = overlay_text_to_msg(FakeOverlayText, live.view()).text
    assert "<" not in text and "&lt;script&gt;" in text and text.isascii() and len(text) < 2000
    assert text.splitlines()[0] == "RUNNING  1.0 s"


@pytest.mark.skipif(not is_installed(OVERLAY_TEXT.type), reason="rviz_2d_overlay_msgs is not installed")
def test_words_for_the_2d_overlay_fit_its_message() -> None:
    from rviz_2d_overlay_msgs.msg import OverlayText  # noqa: PLC0415

    assert overlay_text_to_msg(OverlayText, ViewState()).text
