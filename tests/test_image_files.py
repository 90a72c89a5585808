"""Damaged JPEG and PNG files: refused where that can be seen, silent on stderr, whole ones never refused."""

from __future__ import annotations

import struct
from itertools import product

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollout_monitor.errors import InputError
from rollout_monitor.images import check_compressed, decode_compressed, encode_jpeg

EOI = b"\xff\xd9"
SAMPLINGS = [getattr(cv2, f"IMWRITE_JPEG_SAMPLING_FACTOR_{name}") for name in ("411", "420", "422", "440", "444")]


def scene(seed: int, height: int = 120, width: int = 160) -> npt.NDArray[np.uint8]:
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return np.asarray(cv2.GaussianBlur(noise, (9, 9), 3), dtype=np.uint8)


def jpeg(picture: npt.NDArray[np.uint8], *options: int) -> bytes:
    return bytes(cv2.imencode(".jpg", picture, options)[1])


def png(seed: int) -> bytes:
    return bytes(cv2.imencode(".png", scene(seed))[1])


def picture_by_opencv(file: bytes) -> npt.NDArray[np.uint8]:
    return np.asarray(cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)[..., ::-1], dtype=np.uint8)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a hole in the middle", "is damaged"),
        ("cut, with an end mark behind", "is damaged"),
        ("cut and padded with zeros", "is cut short"),
        ("cut, and the next picture follows", "another picture begins"),
        ("zeros in the middle", "is damaged"),
    ],
)
@pytest.mark.parametrize("progressive", [0, 1])
def test_a_damaged_jpeg_is_refused_and_the_terminal_stays_clean(
    name: str, told: str, progressive: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """libjpeg gives a half gray picture of each, and writes 'Corrupt JPEG data' to stderr for every one."""
    whole = jpeg(scene(0), cv2.IMWRITE_JPEG_PROGRESSIVE, progressive)
    half = len(whole) // 2
    damaged = {
        "a hole in the middle": whole[:1500] + whole[-1500:],
        "cut, with an end mark behind": whole[:half] + EOI,
        "cut and padded with zeros": whole[:half] + bytes(500),
        "cut, and the next picture follows": whole[:half] + whole,
        "zeros in the middle": whole[:half] + bytes(500) + whole[half + 500 :],
    }[name]
    with pytest.raises(InputError, match=told) as error:
        decode_compressed("jpeg", damaged)
    assert f"format 'jpeg', {len(damaged)} bytes" in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_damage_that_cannot_be_seen_does_not_reach_the_terminal_either(capfd: pytest.CaptureFixture[str]) -> None:
    """Bytes too many before the end mark: libjpeg skips them and has something to say about it."""
    surplus = jpeg(scene(0))[:-2] + b"\x55" * 40 + EOI
    assert decode_compressed("jpeg", surplus).shape == (120, 160, 3)
    assert capfd.readouterr() == ("", "")
    picture_by_opencv(surplus)
    assert "extraneous bytes" in capfd.readouterr().err, "this file is one that libjpeg writes about"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 50), left=st.floats(0.2, 0.95))
def test_any_cut_before_the_last_block_is_seen_behind_an_end_mark_too(seed: int, left: float) -> None:
    whole = jpeg(scene(seed))
    with pytest.raises(InputError, match="is damaged"):
        decode_compressed("jpeg", whole[: int(left * len(whole))] + EOI)


def test_nearly_every_hole_of_some_hundred_bytes_is_seen() -> None:
    """Not every one: behind a hole the codes are read out of step, and now and then they last to the end."""
    rng, seen = np.random.default_rng(3), 0
    for seed in range(200):
        whole, missing = jpeg(scene(seed)), int(rng.integers(300, 1500))
        begin = int(rng.integers(700, len(whole) - missing - 2))
        try:
            decode_compressed("jpeg", whole[:begin] + whole[begin + missing :])
        except InputError as error:
            seen += "is damaged" in str(error)
    assert seen >= 190


@pytest.mark.parametrize("behind", [b"\x01" * 100, b"camera metadata \xff\xd8 and more", bytes(500)])
@pytest.mark.parametrize("encode", [jpeg, lambda picture: bytes(cv2.imencode(".png", picture)[1])])
def test_what_stands_behind_the_end_is_ignored(behind: bytes, encode: object) -> None:
    """Drivers put metadata there."""
    file = encode(scene(1))  # type: ignore[operator]
    check_compressed("", file + behind)
    assert np.array_equal(decode_compressed("", file + behind), picture_by_opencv(file))


def test_the_end_of_a_thumbnail_is_not_the_end_of_the_picture() -> None:
    """Nor does a damaged thumbnail harm the picture."""
    thumbnail = jpeg(scene(2, 16, 16))[:-200] + EOI
    whole = jpeg(scene(2))
    with_it = whole[:2] + b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 2) + thumbnail + whole[2:]
    assert np.array_equal(decode_compressed("jpeg", with_it), picture_by_opencv(whole))
    with pytest.raises(InputError, match="cut short"):
        check_compressed("jpeg", with_it[: len(with_it) // 2])


@pytest.mark.parametrize(("sampling", "progressive"), product(SAMPLINGS, [0, 1]))
def test_whole_jpegs_of_every_kind_are_read_as_opencv_reads_them(sampling: int, progressive: int) -> None:
    sizes = [(1, 1), (1, 7), (8, 8), (9, 17), (33, 47), (241, 319)]
    for (height, width), restart, quality, gray in product(sizes, [0, 1, 7], [5, 90], [False, True]):
        picture = scene(height, height, width)
        file = jpeg(
            picture[..., 0] if gray else picture,
            *(cv2.IMWRITE_JPEG_PROGRESSIVE, progressive),
            *(cv2.IMWRITE_JPEG_RST_INTERVAL, restart),
            *(cv2.IMWRITE_JPEG_SAMPLING_FACTOR, sampling),
            *(cv2.IMWRITE_JPEG_QUALITY, quality),
        )
        assert np.array_equal(decode_compressed("jpeg", file), picture_by_opencv(file))


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 9), changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255))))
def test_any_changed_jpeg_is_a_picture_or_refused(seed: int, changes: list[tuple[float, int]]) -> None:
    file = bytearray(encode_jpeg(scene(seed, 24, 32)))
    for place, value in changes:
        file[int(place * len(file))] = value
    try:
        assert decode_compressed("jpeg", bytes(file)).dtype == np.uint8
    except InputError as error:
        assert "compressed image of format 'jpeg'" in str(error)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 9), place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_changed_bit_of_a_png_is_seen_before_decoding(seed: int, place: float, bit: int) -> None:
    file = bytearray(png(seed))
    file[int(place * len(file))] ^= 1 << bit
    with pytest.raises(InputError):
        check_compressed("png", bytes(file))


def test_a_damaged_png_does_not_reach_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    file = bytearray(png(0))
    file[len(file) // 2] ^= 0xFF
    for form, data in (("png", bytes(file)), ("16UC1; compressedDepth png", bytes(12) + bytes(file))):
        with pytest.raises(InputError, match="is damaged: the checksum of a chunk"):
            decode_compressed(form, data)
    assert capfd.readouterr() == ("", "")
