"""Serialised ROS messages (CDR) to typed stream items, without ROS: the bag's own schema says how to read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError
from rosbags.interfaces.typing import Typesdict
from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from rollout_monitor import images
from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.records import Boundary, EpisodeMarker, Label

JOINT_STATE = "sensor_msgs/msg/JointState"
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
EPISODE = "rollout_monitor_msgs/msg/Episode"
DECODED_TYPES = (JOINT_STATE, IMAGE, COMPRESSED_IMAGE, EPISODE)

EPISODE_DEFINITION = """\
uint8 BOUNDARY_START=0
uint8 BOUNDARY_END=1
uint8 LABEL_NONE=0
uint8 LABEL_SUCCESS=1
uint8 LABEL_FAILURE=2
std_msgs/Header header
string episode_id
uint8 boundary
string task
uint8 label
string source
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""
"""Used where a bag (an sqlite one from before Iron) carries no definitions of its own."""

ENCAPSULATION_BYTES = 4
MOST_TRAILING_BYTES = 11
"""rclpy's ``serialize_message`` may leave 8 bytes after a message that ends in empty arrays; padding adds up to 3."""

_BOUNDARIES = (Boundary.START, Boundary.END)
_LABELS = (None, Label.SUCCESS, Label.FAILURE)
_NS = 1_000_000_000


@dataclass(frozen=True)
class BagMessage:
    """One message as it lies in the bag."""

    topic: str
    type: str
    log_ns: int
    """When it was recorded, nanoseconds."""
    raw: bytes = field(repr=False)
    """CDR, encapsulation header included."""


@dataclass(frozen=True)
class JointItem:
    """One ``sensor_msgs/JointState``. The arrays are float64 and as long as published: empty where absent."""

    topic: str
    stamp_ns: int
    names: tuple[str, ...]
    positions: npt.NDArray[np.float64]
    velocities: npt.NDArray[np.float64]
    efforts: npt.NDArray[np.float64]
    log_ns: int = 0


@dataclass(frozen=True)
class ImageItem:
    """One camera frame. ``decode`` raises InputError for a frame that cannot be read; nobody pays for it unasked."""

    topic: str
    stamp_ns: int
    decode: Callable[[], RgbImage] = field(repr=False)
    fingerprint: bytes
    """Equal for repeated frames, see :func:`rollout_monitor.images.fingerprint`."""
    log_ns: int = 0
    trouble: str = ""
    """Why the frame is seen to be unreadable without decoding it; empty where it is not."""


@dataclass(frozen=True)
class MarkerItem:
    """One episode boundary."""

    topic: str
    marker: EpisodeMarker
    log_ns: int = 0


StreamItem: TypeAlias = JointItem | ImageItem | MarkerItem


@dataclass(frozen=True)
class Definition:
    """How a bag defines a message type: text in ``ros2msg`` or ``ros2idl``."""

    text: str
    encoding: str = "ros2msg"


class Codec:
    """Decodes the message types in ``DECODED_TYPES`` by the definitions a bag carries.

    Each type has a type store of its own, so that two types may disagree about a third without harm.
    """

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        self._stores: dict[str, Typestore] = {}

    def item(self, message: BagMessage) -> StreamItem:
        """Decode one message.

        Raises:
            InputError: bytes that do not fit the type, or values that cannot be.
        """
        fields = self.fields(message)
        try:
            return _ITEMS[message.type](message, fields)
        except (AttributeError, ValidationError) as error:
            raise InputError(f"{_where(message)}: {_one_line(error)}") from error

    def fields(self, message: BagMessage) -> Any:
        """Return the message as an object with its fields as attributes.

        Raises:
            InputError: bytes that do not fit the type, or a type nobody defined.
        """
        raw = message.raw
        if len(raw) < ENCAPSULATION_BYTES or raw[0] != 0 or raw[1] > 1:
            raise InputError(f"{_where(message)}: not CDR, the first bytes are {raw[:ENCAPSULATION_BYTES].hex(' ')!r}")
        store = self._store(message.type)
        definition = store.get_msgdef(message.type)
        decode = definition.deserialize_cdr_le if raw[1] else definition.deserialize_cdr_be
        body = memoryview(raw)[ENCAPSULATION_BYTES:]
        try:
            fields, used = decode(body, 0, definition.cls, store)
        except Exception as error:  # generated code fails in as many ways as there are broken messages
            raise InputError(f"{_where(message)}: does not decode: {_one_line(error)}") from error
        if not 0 <= len(body) - used <= MOST_TRAILING_BYTES:
            raise InputError(f"{_where(message)}: {len(body)} bytes where the definition accounts for {used}")
        return fields

    def _store(self, name: str) -> Typestore:
        if name not in self._stores:
            self._stores[name] = store_for(name, self._definitions.get(name))
        return self._stores[name]


def store_for(name: str, definition: Definition | None) -> Typestore:
    """Type store that knows ``name``, from its definition or, without one, from ROS 2 Jazzy's common interfaces.

    Raises:
        InputError: a definition that cannot be read, or none for a type that is not common.
    """
    if definition is None and name == EPISODE:
        definition = Definition(EPISODE_DEFINITION)
    if definition is None or not definition.text:
        common = get_typestore(Stores.ROS2_JAZZY)
        if name not in common.fielddefs:
            raise InputError(f"the bag does not define {name} and it is no common ROS 2 type: record it as MCAP")
        return common
    store = get_typestore(Stores.EMPTY)
    try:
        store.register(_types(name, definition))
    except Exception as error:
        raise InputError(f"the definition of {name} cannot be read: {_one_line(error)}") from error
    if name not in store.fielddefs:
        raise InputError(f"the definition stored for {name} defines other types only")
    return store


def _types(name: str, definition: Definition) -> Typesdict:
    if definition.encoding in ("ros2idl", "omgidl"):
        return get_types_from_idl(definition.text)
    return get_types_from_msg(definition.text, name)


def stamp_ns(header: Any) -> int:
    """Header stamp in nanoseconds."""
    return int(header.stamp.sec) * _NS + int(header.stamp.nanosec)


def _joint_item(message: BagMessage, fields: Any) -> JointItem:
    return JointItem(
        topic=message.topic,
        stamp_ns=stamp_ns(fields.header),
        names=tuple(fields.name),
        positions=np.asarray(fields.position, dtype=np.float64),
        velocities=np.asarray(fields.velocity, dtype=np.float64),
        efforts=np.asarray(fields.effort, dtype=np.float64),
        log_ns=message.log_ns,
    )


def _image_item(message: BagMessage, fields: Any) -> ImageItem:
    shape = (fields.encoding, fields.height, fields.width, fields.step, fields.is_bigendian)

    def decode() -> RgbImage:
        return images.decode_image(*shape, fields.data)

    return ImageItem(
        topic=message.topic,
        stamp_ns=stamp_ns(fields.header),
        decode=decode,
        fingerprint=images.fingerprint(fields.data, *shape),
        log_ns=message.log_ns,
        trouble=_trouble(lambda: images.check_image(*shape[:4], fields.data)),
    )


def _compressed_item(message: BagMessage, fields: Any) -> ImageItem:
    def decode() -> RgbImage:
        return images.decode_compressed(fields.format, fields.data)

    return ImageItem(
        topic=message.topic,
        stamp_ns=stamp_ns(fields.header),
        decode=decode,
        fingerprint=images.fingerprint(fields.data, fields.format),
        log_ns=message.log_ns,
        trouble=_trouble(lambda: images.check_compressed(fields.format, fields.data)),
    )


def _trouble(check: Callable[[], None]) -> str:
    try:
        check()
    except InputError as error:
        return str(error)
    return ""


def _marker_item(message: BagMessage, fields: Any) -> MarkerItem:
    if fields.boundary >= len(_BOUNDARIES) or fields.label >= len(_LABELS):
        raise InputError(f"{_where(message)}: boundary {fields.boundary} or label {fields.label} is not a known value")
    marker = EpisodeMarker(
        boundary=_BOUNDARIES[fields.boundary],
        stamp_ns=stamp_ns(fields.header),
        episode_id=fields.episode_id,
        task=fields.task,
        label=_LABELS[fields.label],
        source=fields.source,
    )
    return MarkerItem(topic=message.topic, marker=marker, log_ns=message.log_ns)


_ITEMS: dict[str, Callable[[BagMessage, Any], StreamItem]] = {
    JOINT_STATE: _joint_item,
    IMAGE: _image_item,
    COMPRESSED_IMAGE: _compressed_item,
    EPISODE: _marker_item,
}


def _where(message: BagMessage) -> str:
    return f"{message.topic} ({message.type}) at log time {message.log_ns} ns"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
