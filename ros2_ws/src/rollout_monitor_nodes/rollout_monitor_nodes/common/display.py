"""What the core draws, as messages: pictures, markers, text. What RViz refuses or mistakes is kept out here.

RViz ignores `step` (padded rows shear), rejects a marker with one number that is not finite, and takes a lifetime of
zero for eternity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from geometry_msgs.msg import Point
from sensor_msgs.msg import Image
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker as MarkerMsg
from visualization_msgs.msg import MarkerArray

from rollout_monitor.frames import RgbImage
from rollout_monitor.report.overlay.markers import Marker, Part, Shape
from rollout_monitor.report.overlay.view import ViewState
from rollout_monitor.report.overlay.words import lines, rich_text
from rollout_monitor_nodes.common.conversions import time_to_msg

_NS = 1_000_000_000
_SHAPES = {
    Shape.CUBE: MarkerMsg.CUBE,
    Shape.LINE_LIST: MarkerMsg.LINE_LIST,
    Shape.LINE_STRIP: MarkerMsg.LINE_STRIP,
    Shape.TEXT: MarkerMsg.TEXT_VIEW_FACING,
}
_TEXT_SIZE, _TEXT_WIDTH, _LINE_HEIGHT = 14.0, 520, 24


def image_to_msg(picture: RgbImage, stamp_ns: int, frame_id: str) -> Image:
    """A picture as rgb8 with tight rows."""
    rows, columns = picture.shape[:2]
    msg = Image(
        height=rows,
        width=columns,
        encoding="rgb8",
        is_bigendian=0,
        step=3 * columns,
        data=picture.tobytes(),  # bytes: a numpy array takes a hundred times as long
    )
    msg.header.stamp = time_to_msg(stamp_ns)
    msg.header.frame_id = frame_id
    return msg


def markers_to_msg(made: Iterable[Marker], stamp_ns: int, frame: str, namespace: str, lifetime_s: float) -> MarkerArray:
    """All parts: those that were made are added, the others deleted, under the same ids every time.

    Markers are locked to their frame: RViz puts them where it is now, even if a recording's stamps are years old.
    """
    present = {marker.part: marker for marker in made}
    return MarkerArray(
        markers=[
            _marker_to_msg(part, present.get(part), stamp_ns, frame, namespace, lifetime_s) for part in sorted(Part)
        ]
    )


def _marker_to_msg(
    part: Part, marker: Marker | None, stamp_ns: int, frame: str, namespace: str, lifetime_s: float
) -> MarkerMsg:
    msg = MarkerMsg(ns=namespace, id=int(part), action=MarkerMsg.DELETE, frame_locked=True)
    msg.header.stamp = time_to_msg(stamp_ns)
    msg.header.frame_id = frame
    msg.pose.orientation.w = 1.0
    if marker is None:
        return msg
    msg.action, msg.type = MarkerMsg.ADD, _SHAPES[marker.shape]
    msg.pose.position.x, msg.pose.position.y, msg.pose.position.z = marker.position
    msg.scale.x, msg.scale.y, msg.scale.z = marker.scale
    msg.color.r, msg.color.g, msg.color.b, msg.color.a = marker.colour
    msg.points = [Point(x=x, y=y, z=z) for x, y, z in marker.points]
    msg.text = marker.text
    msg.lifetime.sec, msg.lifetime.nanosec = divmod(round(lifetime_s * _NS), _NS)
    return msg


def overlay_text_to_msg(make: Any, view: ViewState) -> Any:
    """The view in words, as the OverlayText ``make`` (the class, which is not installed everywhere)."""
    return make(
        action=make.ADD,
        width=_TEXT_WIDTH,
        height=_LINE_HEIGHT * (len(lines(view)) + 1),
        horizontal_distance=10,
        vertical_distance=10,
        horizontal_alignment=make.LEFT,
        vertical_alignment=make.TOP,
        bg_color=ColorRGBA(r=0.0, g=0.0, b=0.0, a=0.6),
        fg_color=ColorRGBA(r=1.0, g=1.0, b=1.0, a=1.0),
        line_width=2,
        text_size=_TEXT_SIZE,
        font="DejaVu Sans Mono",
        text=rich_text(view),
    )
