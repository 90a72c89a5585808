"""Where an image message becomes a picture, for every node: decoded by cv_bridge or by the core, only when wanted.

cv_bridge is used where it is installed and right: 8-bit colour and gray with tight rows. It ignores row padding and
byte order and has read mono16 as 8 bits (vision_opencv issues 114, 115, 255), and builds against another NumPy cannot
be imported at all (issue 535); the core's own decoder does all the rest, and everything where cv_bridge is absent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.serialization import deserialize_message

from rollout_monitor import images
from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor_nodes.common.cdr import RawImage, read_compressed_image, read_image
from rollout_monitor_nodes.common.subscribe import Source
from rollout_monitor_nodes.common.types import import_type
from rollout_monitor_nodes.interfaces import COMPRESSED, IMAGE

COMPLAINT_PERIOD_S = 5.0
CV_BRIDGE_CHANNELS = {"rgb8": 3, "bgr8": 3, "rgba8": 4, "bgra8": 4, "mono8": 1}
"""Encodings that cv_bridge converts as the core does, with bytes per pixel."""


@dataclass(frozen=True)
class CameraFrame:
    """One frame as it came. ``decode`` raises InputError where the payload is no picture."""

    stamp_ns: int
    frame_id: str
    decode: Callable[[], RgbImage]
    fingerprint: bytes


def camera_sources(topic: str, transport: str) -> list[Source]:
    """Where a camera may be found, preferred first.

    Where both are published, compressed is taken: it is small enough for every transport, and most frames are never
    decoded.
    """
    base = topic.removesuffix("/compressed")
    raw, compressed = Source(base, IMAGE), Source(f"{base}/compressed", COMPRESSED)
    return {"raw": [raw], "compressed": [compressed], "auto": [compressed, raw]}[transport]


class Complaints:
    """Says what is wrong with a topic's images, each sort of trouble once in five seconds, with a count."""

    def __init__(self, complain: Callable[[str], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self._complain = complain
        self._now_s = now_s
        self._said: dict[tuple[str, str], float] = {}
        self._held_back: dict[tuple[str, str], int] = {}

    def about(self, topic: str, encoding: str, trouble: str) -> None:
        """Note one bad image; thread safe enough for counting."""
        key, now = (topic, encoding), self._now_s()
        if now - self._said.get(key, -COMPLAINT_PERIOD_S) < COMPLAINT_PERIOD_S:
            self._held_back[key] = self._held_back.get(key, 0) + 1
            return
        self._said[key] = now
        more = self._held_back.pop(key, 0)
        self._complain(f"{topic}: {trouble}" + (f" ({more} more since the last such line)" if more else ""))


class FrameReader:
    """Turns serialized image messages into frames, and says which topic and encoding cannot be read."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bridge = find_cv_bridge()
        self._complaints = Complaints(node.get_logger().error)

    def read(self, source: Source, raw: bytes) -> CameraFrame | None:
        """The frame in a message; None, after a complaint, where it cannot even be taken apart."""
        topic = self._node.resolve_topic_name(source.topic)
        try:
            return self._compressed(topic, raw) if source.type_name == COMPRESSED else self._raw(topic, raw)
        except InputError as error:
            self._complaints.about(topic, source.type_name, str(error))
            return None

    def _compressed(self, topic: str, raw: bytes) -> CameraFrame:
        image = read_compressed_image(raw)
        return CameraFrame(
            stamp_ns=image.stamp_ns,
            frame_id=image.frame_id,
            decode=self._complaining(topic, image.format, lambda: images.decode_compressed(image.format, image.data)),
            fingerprint=images.fingerprint(image.data, image.format),
        )

    def _raw(self, topic: str, raw: bytes) -> CameraFrame:
        image = read_image(raw)
        shape = (image.encoding, image.height, image.width, image.step, image.is_bigendian)
        return CameraFrame(
            stamp_ns=image.stamp_ns,
            frame_id=image.frame_id,
            decode=self._complaining(topic, image.encoding, lambda: self._decode_raw(image, raw)),
            fingerprint=images.fingerprint(image.data, *shape),
        )

    def _decode_raw(self, image: RawImage, raw: bytes) -> RgbImage:
        if self._bridge is not None and bridge_is_right(image):
            message = deserialize_message(raw, import_type(IMAGE))
            return np.ascontiguousarray(self._bridge.imgmsg_to_cv2(message, "rgb8"), dtype=np.uint8)
        return images.decode_image(
            image.encoding, image.height, image.width, image.step, image.is_bigendian, image.data
        )

    def _complaining(self, topic: str, encoding: str, decode: Callable[[], RgbImage]) -> Callable[[], RgbImage]:
        def decode_or_complain() -> RgbImage:
            try:
                return decode()
            except InputError as error:
                self._complaints.about(topic, encoding, str(error))
                raise

        return decode_or_complain


def bridge_is_right(image: RawImage) -> bool:
    """Whether cv_bridge reads this image as the core does."""
    channels = CV_BRIDGE_CHANNELS.get(image.encoding)
    return (
        channels is not None
        and image.step == image.width * channels
        and len(image.data) == image.step * image.height
        and image.width > 0
        and image.height > 0
    )


def find_cv_bridge() -> Any:
    """A CvBridge, or None where it is not installed or cannot be imported."""
    try:
        from cv_bridge import CvBridge  # noqa: PLC0415
    except Exception:  # a build against another NumPy fails in several ways
        return None
    return CvBridge()
