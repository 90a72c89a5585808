"""Compressed depth against an encoder and a quantiser written here, number by number, from their definitions."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.depth import decode_depth
from rollout_monitor.errors import InputError
from rollout_monitor.images import DEPTH_WHITE_M, check_compressed, decode_compressed, decode_image

Samples = npt.NDArray[np.uint16]
HEADER = struct.pack("<iff", 0, 0.0, 0.0)


def png(samples: Samples) -> bytes:
    done, encoded = cv2.imencode(".png", samples)
    assert done
    return bytes(encoded)


def rvl(samples: Samples) -> bytes:
    """The stream of a picture: sizes, then nibbles packed into words from the top."""
    nibbles: list[int] = []

    def put(value: int) -> None:
        while True:
            value, low = value >> 3, value & 7
            nibbles.append(low | (8 if value else 0))
            if not value:
                return

    flat, at, previous = samples.reshape(-1).tolist(), 0, 0
    while at < len(flat):
        for measured in (False, True):
            run = at
            while run < len(flat) and bool(flat[run]) is measured:
                run += 1
            put(run - at)
            for value in flat[at:run] if measured else ():
                difference, previous = value - previous, value
                put(2 * difference if difference >= 0 else -2 * difference - 1)
            at = run
    nibbles += [0] * (-len(nibbles) % 8)
    words = [int("".join(f"{nibble:x}" for nibble in nibbles[i : i + 8]), 16) for i in range(0, len(nibbles), 8)]
    return struct.pack("<II", samples.shape[1], samples.shape[0]) + struct.pack(f"<{len(words)}I", *words)


def depth_picture(seed: int, height: int, width: int, holes: float) -> Samples:
    """Random walk with holes: neighbours are alike, but any 16 bit value and any run length happens."""
    rng = np.random.default_rng(seed)
    walk = rng.integers(0, 65536) + np.cumsum(rng.integers(-900, 900, height * width))
    samples = (walk % 65536).astype(np.uint16)
    samples[rng.random(samples.size) < holes] = 0
    return samples.reshape(height, width)


SHAPES = {
    "seed": st.integers(0, 2**32 - 1),
    "height": st.integers(1, 20),
    "width": st.integers(1, 20),
    "holes": st.sampled_from([0.0, 0.1, 0.7, 1.0]),
}


@settings(max_examples=120, deadline=None)
@given(**SHAPES, codec=st.sampled_from([" png", " rvl", ""]))
def test_millimetres(seed: int, height: int, width: int, holes: float, codec: str) -> None:
    samples = depth_picture(seed, height, width, holes)
    body = rvl(samples) if codec == " rvl" else png(samples)
    metres = decode_depth(f"16UC1; compressedDepth{codec}", HEADER + body)
    np.testing.assert_allclose(metres, samples / 1000.0, rtol=1e-6)
    raw = decode_image("16UC1", height, width, 2 * width, False, samples.tobytes())
    drawn = decode_compressed(f"16UC1; compressedDepth{codec}", HEADER + body)
    assert np.array_equal(drawn, raw), "drawn as the raw topic is drawn"


@settings(max_examples=80, deadline=None)
@given(**SHAPES, codec=st.sampled_from(["png", "rvl"]), farthest=st.sampled_from([4.0, 10.0]))
def test_inverse_depth(seed: int, height: int, width: int, holes: float, codec: str, farthest: float) -> None:
    """What the transport's quantiser makes of a depth picture in metres comes back within its own resolution."""
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.3, farthest * 0.999, (height, width))
    depth[rng.random(depth.shape) < holes] = np.nan
    quantum = 100.0  # depth_quantization of the transport
    a = quantum * (quantum + 1.0)
    b = 1.0 - a / farthest
    stored = np.where(np.isnan(depth), 0, np.floor(a / np.nan_to_num(depth, nan=1.0) + b)).astype(np.uint16)
    data = struct.pack("<iff", 0, a, b) + (rvl(stored) if codec == "rvl" else png(stored))
    metres = decode_depth(f"32FC1; compressedDepth {codec}", data)
    assert np.array_equal(np.isnan(metres), np.isnan(depth))
    seen = ~np.isnan(depth)
    step = depth[seen] ** 2 / a  # one step of v = a / z is so much of z
    assert np.all(np.abs(metres[seen] - depth[seen]) <= 1.01 * step + 1e-3)
    want = np.where(seen, np.minimum(np.nan_to_num(metres) / DEPTH_WHITE_M * 255.0, 255.0), 0.0)
    drawn = decode_compressed(f"32FC1; compressedDepth {codec}", data)
    assert np.abs(drawn - want[..., None]).max() <= 1.0


def test_a_depth_png_of_the_plain_transport_is_drawn_as_depth_and_gray_as_gray() -> None:
    samples = np.array([[0, 1000, 2500, 5000, 65535]], dtype=np.uint16)
    assert decode_compressed("16UC1; png compressed ", png(samples))[0, :, 0].tolist() == [0, 51, 127, 255, 255]
    assert decode_compressed("mono16; png compressed ", png(samples))[0, :, 0].tolist() == [0, 3, 9, 19, 255]


GOOD = depth_picture(3, 16, 16, 0.3)


@pytest.mark.parametrize(
    ("format_text", "data", "told"),
    [
        ("16UC1; compressedDepth png", HEADER, "cut short"),
        ("16UC1; compressedDepth png", HEADER + b"x" * 50, "holds no PNG"),
        ("16UC1; compressedDepth png", HEADER + png(GOOD)[:-40], "cut short"),
        ("16UC1; compressedDepth rvl", HEADER + rvl(GOOD)[:5], "cut short"),
        ("16UC1; compressedDepth rvl", HEADER + struct.pack("<II", 0, 4), "claims 0x4 pixels"),
        ("16UC1; compressedDepth rvl", HEADER + struct.pack("<II", 2**31, 2**31), "claims"),
        ("16UC1; compressedDepth zstd", HEADER + b"x" * 50, "is not known; known are"),
        ("rgb8; compressedDepth png", HEADER + b"x" * 50, "is not known; known are"),
    ],
)
def test_what_can_be_seen_is_refused_before_decoding(format_text: str, data: bytes, told: str) -> None:
    for refuse in (check_compressed, decode_compressed):
        with pytest.raises(InputError, match=told) as error:
            refuse(format_text, data)
        assert repr(format_text) in str(error.value)


def test_a_colour_png_is_no_depth() -> None:
    colour = np.zeros((4, 4, 3), dtype=np.uint8)
    with pytest.raises(InputError, match="no PNG of 16 bit gray"):
        decode_compressed("16UC1; compressedDepth png", HEADER + bytes(cv2.imencode(".png", colour)[1]))


@settings(max_examples=100, deadline=None)
@given(cut=st.integers(4, 600), seed=st.integers(0, 50))
def test_a_cut_rvl_stream_is_refused(cut: int, seed: int) -> None:
    whole = rvl(depth_picture(seed, 12, 12, 0.2))
    with pytest.raises(InputError, match="cut short"):
        decode_compressed("16UC1; compressedDepth rvl", HEADER + whole[: max(len(whole) - cut, 0)])


@settings(max_examples=100, deadline=None)
@given(data=st.binary(min_size=8, max_size=200))
def test_any_stream_is_a_picture_or_an_input_error(data: bytes) -> None:
    sized = struct.pack("<II", 7, 5) + data[8:]
    try:
        assert decode_compressed("16UC1; compressedDepth rvl", HEADER + sized).shape == (5, 7, 3)
    except InputError as error:
        assert "compressedDepth" in str(error)
