"""Every encoding against a decoder written here, pixel by pixel, from the encodings' own definitions."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.errors import InputError
from rollout_monitor.images import (
    DEPTH_WHITE_M,
    check_image,
    decode_compressed,
    decode_image,
    encode_jpeg,
    fingerprint,
    luminance_and_contrast,
    supported_encodings,
)

BYTES = {
    "mono8": 1,
    "8UC1": 1,
    "rgb8": 3,
    "bgr8": 3,
    "8UC3": 3,
    "rgba8": 4,
    "bgra8": 4,
    "8UC4": 4,
    "mono16": 2,
    "16UC1": 2,
    "32FC1": 4,
    **dict.fromkeys(["rgb16", "bgr16", "16UC3"], 6),
    **dict.fromkeys(["rgba16", "bgra16", "16UC4"], 8),
}
YUV = {"yuv422": "uyvy", "uyvy": "uyvy", "yuv422_yuy2": "yuyv", "yuyv": "yuyv"}
BAYER = [f"bayer_{order}{bits}" for order in ("rggb", "bggr", "gbrg", "grbg") for bits in (8, 16)]


def pixel(encoding: str, data: bytes, at: int, big: bool) -> tuple[int, int, int]:
    """One pixel of an encoding with whole pixels, by the encoding's definition."""
    order = ">" if big else "<"
    if encoding in ("rgb8", "rgba8"):
        return data[at], data[at + 1], data[at + 2]
    if encoding in ("bgr8", "bgra8", "8UC3", "8UC4"):
        return data[at + 2], data[at + 1], data[at]
    if encoding in ("mono8", "8UC1"):
        return (data[at],) * 3
    if encoding == "mono16":
        return (struct.unpack_from(order + "H", data, at)[0] // 256,) * 3
    if "16" in encoding and encoding != "16UC1":
        first, green, last = (value // 256 for value in struct.unpack_from(order + "3H", data, at))
        return (first, green, last) if encoding.startswith("rgb") else (last, green, first)
    if encoding == "16UC1":
        metres = struct.unpack_from(order + "H", data, at)[0] / 1000
    else:
        metres = struct.unpack_from(order + "f", data, at)[0]
        metres = metres if 0 < metres < float("inf") else 0.0
    return (int(min(metres / DEPTH_WHITE_M * 255, 255)),) * 3


@settings(max_examples=150, deadline=None)
@given(
    encoding=st.sampled_from(sorted(BYTES)),
    height=st.integers(1, 7),
    width=st.integers(1, 9),
    padding=st.integers(0, 13),
    big=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_whole_pixel_encodings(encoding: str, height: int, width: int, padding: int, big: bool, seed: int) -> None:
    step = width * BYTES[encoding] + padding
    data = np.random.default_rng(seed).bytes(step * height)
    if encoding == "32FC1":  # random bytes are mostly absurd depths: mix in ordinary ones
        depths = np.random.default_rng(seed).uniform(-1, 8, (height, step // 4 + 1)).astype(">f4" if big else "<f4")
        data = b"".join(row.tobytes()[:step] for row in depths)
    picture = decode_image(encoding, height, width, step, big, data)
    assert picture.shape == (height, width, 3)
    assert picture.dtype == np.uint8
    assert picture.flags.c_contiguous
    for y in range(height):
        for x in range(width):
            want = pixel(encoding, data, y * step + x * BYTES[encoding], big)
            tolerance = 1 if encoding in ("16UC1", "32FC1") else 0  # float32 against float64 at a whole number
            assert np.abs(picture[y, x].astype(int) - want).max() <= tolerance, (y, x)


def test_depth_without_a_value_is_black() -> None:
    data = struct.pack("<5f", float("nan"), float("inf"), float("-inf"), -1.0, 2.5)
    assert decode_image("32FC1", 1, 5, 20, False, data)[0, :, 0].tolist() == [0, 0, 0, 0, 127]


@settings(max_examples=60, deadline=None)
@given(
    encoding=st.sampled_from(sorted(YUV)),
    height=st.integers(1, 5),
    pairs=st.integers(1, 5),
    padding=st.integers(0, 9),
    seed=st.integers(0, 2**32 - 1),
)
def test_yuv422(encoding: str, height: int, pairs: int, padding: int, seed: int) -> None:
    step = pairs * 4 + padding
    data = np.random.default_rng(seed).bytes(step * height)
    picture = decode_image(encoding, height, pairs * 2, step, False, data)
    for y in range(height):
        for x in range(pairs * 2):
            four = data[y * step + x // 2 * 4 : y * step + x // 2 * 4 + 4]
            u, luma, v = (
                (four[0], four[1 + x % 2 * 2], four[2])
                if YUV[encoding] == "uyvy"
                else (four[1], four[x % 2 * 2], four[3])
            )
            c, d, e = 1.164 * max(luma - 16, 0), u - 128, v - 128  # BT.601, limited range
            want = np.clip([c + 1.596 * e, c - 0.813 * e - 0.391 * d, c + 2.018 * d], 0, 255)
            assert np.abs(picture[y, x] - want).max() <= 2, (y, x)


@settings(max_examples=60, deadline=None)
@given(encoding=st.sampled_from(BAYER), big=st.booleans(), seed=st.integers(0, 2**32 - 1), padding=st.integers(0, 5))
def test_bayer(encoding: str, big: bool, seed: int, padding: int) -> None:
    """Inside the border each missing colour is the mean of the nearest pixels that have it."""
    height, width, deep = 6, 8, encoding.endswith("16")
    step = width * (1 + deep) + padding
    data = np.random.default_rng(seed).integers(0, 256, (height, step), dtype=np.uint8)
    high = slice(0 if big else 1, 2 * width, 2) if deep else slice(0, width)
    mosaic = data[:, high]
    picture = decode_image(encoding, height, width, step, big, data.tobytes())
    colours = encoding.removeprefix("bayer_").rstrip("816")
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            for channel, colour in enumerate("rgb"):
                near = [
                    (abs(dy) + abs(dx), int(mosaic[y + dy, x + dx]))
                    for dy in (-1, 0, 1)
                    for dx in (-1, 0, 1)
                    if colours[(y + dy) % 2 * 2 + (x + dx) % 2] == colour
                ]
                closest = min(distance for distance, _ in near)
                values = [value for distance, value in near if distance == closest]
                assert abs(picture[y, x, channel] - sum(values) / len(values)) <= 1


def test_all_supported_encodings_are_tested() -> None:
    assert supported_encodings() == sorted([*BYTES, *YUV, *BAYER])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"encoding": "yuv420"}, "'yuv420' is not known"),
        ({"data": b"x" * 35}, "needs 36 bytes, the message has 35"),
        ({"step": 11}, "a row of 4 pixels needs 12 bytes"),
        ({"height": 0}, "width and height must be within"),
        ({"width": 10**6}, "width and height must be within"),
        ({"encoding": "yuv422", "width": 3, "step": 12}, "even width"),
    ],
)
def test_impossible_images_are_refused_by_name(change: dict[str, object], told: str) -> None:
    fields = {"encoding": "rgb8", "height": 3, "width": 4, "step": 12, "is_bigendian": False, "data": b"x" * 36}
    with pytest.raises(InputError, match=told) as error:
        decode_image(**{**fields, **change})  # type: ignore[arg-type]
    assert repr({**fields, **change}["encoding"]) in str(error.value)
    seen = {name: value for name, value in {**fields, **change}.items() if name != "is_bigendian"}
    with pytest.raises(InputError, match=told):
        check_image(**seen)  # type: ignore[arg-type]


def test_last_row_may_lack_its_padding() -> None:
    assert decode_image("mono8", 2, 3, 8, 0, bytes(range(11)))[1, :, 0].tolist() == [8, 9, 10]


def test_the_picture_is_a_copy() -> None:
    data = bytearray(12)
    picture = decode_image("rgb8", 2, 2, 6, 0, data)
    data[0] = 255
    assert picture[0, 0, 0] == 0


def scene() -> npt.NDArray[np.uint8]:
    """Smooth colours with a red corner, so that swapped channels and lost quality show."""
    y, x = np.mgrid[0:48, 0:64]
    picture = np.stack([x * 2, y * 3, 255 - x * 2], axis=-1).astype(np.uint8)
    picture[:16, :16] = (220, 20, 10)
    return picture


@pytest.mark.parametrize(
    "format_text", ["jpeg", "jpg", "bgr8; jpeg compressed bgr8", "rgb8; jpeg compressed bgr8", "rgb8; jpeg compressed "]
)
def test_jpeg_formats(format_text: str) -> None:
    decoded = decode_compressed(format_text, encode_jpeg(scene(), 95))
    assert np.abs(decoded.astype(int) - scene()).mean() < 3


@pytest.mark.parametrize(
    "format_text", ["png", "rgb8; png compressed ", "bgr8; png compressed bgr8", "mono8; png compressed "]
)
def test_png_formats_are_exact(format_text: str) -> None:
    done, png = cv2.imencode(".png", scene()[..., ::-1])
    assert done
    assert np.array_equal(decode_compressed(format_text, png.tobytes()), scene())


def test_channels_stored_as_rgb_are_not_swapped_again() -> None:
    """compressed_image_transport reads 'compressed rgb8' as channels in RGB order where a file has BGR."""
    done, png = cv2.imencode(".png", scene())
    assert done
    assert np.array_equal(decode_compressed("rgb8; png compressed rgb8", png.tobytes()), scene())


def test_jpeg_is_deterministic_and_ignores_orientation() -> None:
    jpeg = encode_jpeg(scene())
    assert encode_jpeg(scene()) == jpeg
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"  # orientation 6: turned
    turned = jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]
    assert np.array_equal(decode_compressed("jpeg", turned), decode_compressed("jpeg", jpeg))


def test_zero_padding_behind_a_jpeg_is_allowed() -> None:
    jpeg = encode_jpeg(scene())
    assert np.array_equal(decode_compressed("jpeg", jpeg + b"\0" * 500), decode_compressed("jpeg", jpeg))


@pytest.mark.parametrize(
    ("format_text", "data", "told"),
    [
        ("jpeg", b"", "is empty"),
        ("jpeg", encode_jpeg(scene())[:-200], "cut short"),
        ("png", cv2.imencode(".png", scene())[1].tobytes()[:-200], "cut short"),
        ("jpeg", b"GIF89a" + b"x" * 50, "neither JPEG nor PNG"),
        ("jpeg", b"\xff\xd8" + b"x" * 50 + b"\xff\xd9", "is damaged"),
        ("h264", b"x" * 50, "is video"),
    ],
)
def test_bad_files_are_refused_with_the_reason(format_text: str, data: bytes, told: str) -> None:
    with pytest.raises(InputError, match=told):
        decode_compressed(format_text, data)


@settings(max_examples=100, deadline=None)
@given(cut=st.integers(1, 700), seed=st.integers(0, 100))
def test_any_cut_of_a_jpeg_is_refused(cut: int, seed: int) -> None:
    noise = np.random.default_rng(seed).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    jpeg = encode_jpeg(noise)
    with pytest.raises(InputError):
        decode_compressed("jpeg", jpeg[: max(len(jpeg) - cut, 0)])


def test_encode_refuses_what_is_no_picture() -> None:
    for wrong in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(InputError, match="picture must be"):
            encode_jpeg(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="quality"):
        encode_jpeg(scene(), 0)


def test_luminance_and_contrast() -> None:
    assert luminance_and_contrast(np.full((480, 640, 3), 77, np.uint8)) == pytest.approx((77.0, 0.0), abs=1e-4)
    stripes = np.zeros((480, 640, 3), np.uint8)
    stripes[:240] = 200
    assert luminance_and_contrast(stripes) == pytest.approx((100.0, 100.0), abs=1e-3)
    assert luminance_and_contrast(np.full((1, 1, 3), (255, 0, 0), np.uint8))[0] == pytest.approx(76.245, abs=1e-3)


def test_fingerprint_tells_frames_apart() -> None:
    data = bytes(range(48))
    same = fingerprint(data, "rgb8", 4, 4)
    assert fingerprint(bytearray(data), "rgb8", 4, 4) == same
    assert fingerprint(np.frombuffer(data, np.uint8), "rgb8", 4, 4) == same
    assert (
        len(
            {
                same,
                fingerprint(data, "rgb8", 2, 8),
                fingerprint(data, "bgr8", 4, 4),
                fingerprint(data[::-1], "rgb8", 4, 4),
            }
        )
        == 4
    )
