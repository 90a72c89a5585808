"""What is read straight from serialized bytes is what a full deserialisation gives."""

from __future__ import annotations

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from hypothesis import given
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message
from rollout_monitor_nodes.common import cdr
from rollout_monitor_nodes.common.conversions import time_from_msg
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Header

from rollout_monitor.errors import InputError

TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=9)
HEADERS = st.builds(
    lambda sec, nanosec, frame: Header(stamp=Time(sec=sec, nanosec=nanosec), frame_id=frame),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 10**9 - 1),
    TEXTS,
)


@given(HEADERS, TEXTS, st.binary(max_size=40), st.integers(0, 2**32 - 1), st.integers(0, 1))
def test_image_fields(header: Header, encoding: str, data: bytes, number: int, big: int) -> None:
    msg = Image(header=header, encoding=encoding, data=data, height=number, width=7, step=number, is_bigendian=big)
    image = cdr.read_image(serialize_message(msg))
    assert (image.height, image.width, image.step, image.is_bigendian) == (number, 7, number, big)
    assert (image.frame_id, image.encoding, bytes(image.data)) == (header.frame_id, encoding, data)
    assert image.stamp_ns == time_from_msg(header.stamp)


@given(HEADERS, TEXTS, st.binary(max_size=40))
def test_compressed_image_fields(header: Header, form: str, data: bytes) -> None:
    image = cdr.read_compressed_image(serialize_message(CompressedImage(header=header, format=form, data=data)))
    assert (image.stamp_ns, image.frame_id) == (time_from_msg(header.stamp), header.frame_id)
    assert (image.format, bytes(image.data)) == (form, data)


@given(HEADERS, st.integers(-(2**31) * 10**9, 2**31 * 10**9 - 1), st.lists(TEXTS, max_size=3))
def test_a_new_stamp_changes_nothing_else(header: Header, stamp_ns: int, names: list[str]) -> None:
    raw = serialize_message(JointState(header=header, name=names))
    moved = cdr.with_header_stamp(raw, stamp_ns)
    assert cdr.header_stamp_ns(moved) == stamp_ns
    assert len(moved) == len(raw)
    read = deserialize_message(moved, JointState)
    assert (read.header.frame_id, list(read.name)) == (header.frame_id, names)


def test_big_endian_messages_are_read_too() -> None:
    raw = bytes([0, 0, 0, 0]) + (12).to_bytes(4, "big") + (34).to_bytes(4, "big") + bytes(8)
    assert cdr.header_stamp_ns(raw) == 12_000_000_034
    assert cdr.header_stamp_ns(cdr.with_header_stamp(raw, 5)) == 5


DOUBLES = st.lists(st.floats(allow_nan=True), max_size=9)


@given(st.lists(st.builds(lambda *a: a, HEADERS, st.lists(TEXTS, max_size=4), DOUBLES, DOUBLES, DOUBLES), max_size=12))
def test_joint_states_of_any_publishers(
    messages: list[tuple[Header, list[str], list[float], list[float], list[float]]],
) -> None:
    """One reader for all: what it remembers of one publisher does not leak into another's message."""
    reader = cdr.JointReader()
    for header, names, positions, velocities, efforts in messages:
        msg = JointState(header=header, name=names, position=positions, velocity=velocities, effort=efforts)
        joints = reader.read(serialize_message(msg))
        assert (joints.stamp_ns, list(joints.names)) == (time_from_msg(header.stamp), names)
        got = [joints.positions, joints.velocities, joints.efforts]
        for read, sent in zip(got, (positions, velocities, efforts), strict=True):
            assert np.array_equal(np.array(read, dtype=float), np.array(sent, dtype=float), equal_nan=True)


def test_joint_names_of_one_publisher_are_made_once() -> None:
    reader = cdr.JointReader()
    raws = [serialize_message(JointState(name=["a", "b"], position=[float(k), 1.0])) for k in range(3)]
    first, *others = [reader.read(raw) for raw in raws]
    assert all(joints.names is first.names for joints in others)
    assert [joints.positions[0] for joints in (first, *others)] == [0.0, 1.0, 2.0]


@given(st.data())
def test_a_joint_state_cut_anywhere_is_an_input_error(data: st.DataObject) -> None:
    raw = serialize_message(JointState(name=["a", "bc"], position=[1.0, 2.0], velocity=[3.0], effort=[4.0, 5.0]))
    reader = cdr.JointReader()
    if data.draw(st.booleans()):
        reader.read(raw)
    end = data.draw(st.integers(0, len(raw) - 8))
    with pytest.raises(InputError):
        reader.read(raw[:end])


@given(st.binary(max_size=60))
def test_rubbish_is_an_input_error_and_nothing_else(raw: bytes) -> None:
    for read in (cdr.read_image, cdr.read_compressed_image, cdr.header_stamp_ns, cdr.JointReader().read):
        try:
            read(raw)
        except InputError:
            continue


@pytest.mark.parametrize("keep", [0, 3, 8, 11, 20, 40])
def test_a_message_cut_short_is_refused(keep: int) -> None:
    raw = serialize_message(Image(encoding="rgb8", data=bytes(100)))
    with pytest.raises(InputError):
        cdr.read_image(raw[:keep])
