"""Where an image message becomes a frame, for every node: looked at when it comes, decoded only when wanted.

The core decodes, live as from a recording: it honours row padding and byte order and reads mono16 as 16 bits, where
cv_bridge has not (vision_opencv issues 115, 114 and 255; ADR 6). cv_bridge, where it is installed and can be imported,
is asked for encodings that the core does not know, and only for messages that it is known to read rightly.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.serialization import deserialize_message

from rollout_monitor import images
from rollout_monitor.errors import InputError, quoted
from rollout_monitor.frames import RgbImage
from rollout_monitor_nodes.common.cdr import RawCompressedImage, RawImage, read_compressed_image, read_image
from rollout_monitor_nodes.common.subscribe import Source
from rollout_monitor_nodes.common.types import import_type
from rollout_monitor_nodes.interfaces import COMPRESSED, IMAGE

COMPLAINT_PERIOD_S = 5.0
MOST_KINDS = 8
_OTHER = ""
_PARTICULARS = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\b[0-9a-f]{2}( [0-9a-f]{2})+\b|\d+""")
"""Quoted names, bytes in hexadecimal, numbers."""

CORE_ENCODINGS = frozenset(images.supported_encodings())


@dataclass(frozen=True)
class CameraFrame:
    """One frame as it came. ``decode`` raises InputError where the payload is no picture."""

    stamp_ns: int
    frame_id: str
    decode: Callable[[], RgbImage]
    fingerprint: bytes
    encoding: str
    """As the message says: a raw image's encoding, or the format of a compressed one."""


def camera_sources(topic: str, transport: str) -> list[Source]:
    """Where a camera may be found, preferred first.

    Where both are published, compressed is taken: it is small enough for every transport, and most frames are never
    decoded. A depth camera's compressed topic ends in ``/compressedDepth`` and is named so.
    """
    ending = "/compressedDepth" if topic.endswith("/compressedDepth") else "/compressed"
    base = topic.removesuffix(ending)
    raw, compressed = Source(base, IMAGE), Source(base + ending, COMPRESSED)
    return {"raw": [raw], "compressed": [compressed], "auto": [compressed, raw]}[transport]


class Complaints:
    """Says what is wrong with a topic's images, each kind of trouble once in five seconds, with a count.

    A kind is a sentence without its names and numbers: a camera that invents an encoding for every frame has one kind
    of trouble. What is kept is bounded; kinds beyond the first ``MOST_KINDS`` of a topic are taken for one.
    """

    def __init__(self, complain: Callable[[str], None], now_s: Callable[[], float] = time.monotonic) -> None:
        self._complain = complain
        self._now_s = now_s
        self._topics: dict[str, dict[str, _Said]] = {}

    def about(self, topic: str, trouble: str) -> None:
        """Note one bad image; thread safe enough for counting."""
        kinds = self._topics.setdefault(topic, {})
        kind = _PARTICULARS.sub("", trouble)
        said = kinds.setdefault(kind if kind in kinds or len(kinds) < MOST_KINDS else _OTHER, _Said())
        now = self._now_s()
        if now - said.at_s < COMPLAINT_PERIOD_S:
            said.held_back += 1
            return
        more, said.at_s, said.held_back = said.held_back, now, 0
        self._complain(f"{topic}: {trouble}" + (f" ({more} more since the last such line)" if more else ""))


@dataclass
class _Said:
    """When a kind of trouble was last told, and how often it came since."""

    at_s: float = -math.inf
    held_back: int = 0


class FrameReader:
    """Turns serialized image messages into frames, and says which topic and encoding cannot be read."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._bridge = find_cv_bridge()
        self._complaints = Complaints(node.get_logger().error)
        self.trouble = ""
        """What was wrong with the newest message that could not be read."""

    def read(self, source: Source, raw: bytes) -> CameraFrame | None:
        """The frame in a message; None, after a complaint, where it is seen to be unreadable without decoding it."""
        topic = self._node.resolve_topic_name(source.topic)
        try:
            if source.type_name == COMPRESSED:
                return self._compressed(topic, read_compressed_image(raw))
            return self._raw(topic, read_image(raw), raw)
        except InputError as error:
            self.trouble = str(error)
            self._complaints.about(topic, self.trouble)
            return None

    def _compressed(self, topic: str, image: RawCompressedImage) -> CameraFrame:
        images.check_compressed(image.format, image.data)
        return CameraFrame(
            stamp_ns=image.stamp_ns,
            frame_id=image.frame_id,
            decode=self._complaining(topic, lambda: images.decode_compressed(image.format, image.data)),
            fingerprint=images.fingerprint(image.data, image.format),
            encoding=image.format,
        )

    def _raw(self, topic: str, image: RawImage, raw: bytes) -> CameraFrame:
        shape = (image.encoding, image.height, image.width, image.step)
        bridge = self._bridge
        if bridge is not None and image.encoding not in CORE_ENCODINGS and bridge_is_right(bridge, image):
            decode = partial(_by_cv_bridge, bridge, image.encoding, raw)
        else:
            images.check_image(*shape, image.data)
            decode = partial(images.decode_image, *shape, image.is_bigendian, image.data)
        return CameraFrame(
            stamp_ns=image.stamp_ns,
            frame_id=image.frame_id,
            decode=self._complaining(topic, decode),
            fingerprint=images.fingerprint(image.data, *shape, image.is_bigendian),
            encoding=image.encoding,
        )

    def _complaining(self, topic: str, decode: Callable[[], RgbImage]) -> Callable[[], RgbImage]:
        def decode_or_complain() -> RgbImage:
            try:
                return decode()
            except InputError as error:
                self._complaints.about(topic, str(error))
                raise

        return decode_or_complain


def find_cv_bridge() -> Any:
    """A CvBridge, or None where it is not installed or cannot be imported."""
    try:
        from cv_bridge import CvBridge  # noqa: PLC0415
    except Exception:  # a build against another NumPy fails in several ways (vision_opencv issue 535)
        return None
    return CvBridge()


def bridge_is_right(bridge: Any, image: RawImage) -> bool:
    """Whether cv_bridge knows the encoding and none of its known faults can touch this message.

    Rows must be tight, the buffer whole, and samples of more than one byte little-endian.
    """
    try:
        dtype, channels = bridge.encoding_to_dtype_with_channels(image.encoding)
        sample_bytes = np.dtype(dtype).itemsize
    except Exception:  # CvBridgeError, and a few others for names it cannot take apart
        return False
    return (
        image.width > 0
        and image.height > 0
        and image.step == image.width * sample_bytes * channels
        and len(image.data) == image.step * image.height
        and not (image.is_bigendian and sample_bytes > 1)
    )


def _by_cv_bridge(bridge: Any, encoding: str, raw: bytes) -> RgbImage:
    message = deserialize_message(raw, import_type(IMAGE))
    try:
        return np.ascontiguousarray(bridge.imgmsg_to_cv2(message, "rgb8"), dtype=np.uint8)
    except Exception as error:  # CvBridgeError and whatever OpenCV raises
        why = quoted(str(error), 200)
        raise InputError(f"image encoding {quoted(encoding)}: cv_bridge cannot convert it to rgb8: {why}") from error
