"""Public reports about ROS images, each as a test that would have caught it. The nodes' side: tests/ros."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from rollout_monitor.images import decode_compressed, decode_image

HEIGHT, WIDTH = 37, 50  # prime to every usual alignment: a sheared or halved picture cannot come out right


def noise(*shape: int, seed: int = 4) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("alignment", [4, 32, 64])
@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "bgra8", "mono8", "yuv422_yuy2"])
def test_rows_padded_by_a_camera_driver_do_not_shear(encoding: str, alignment: int) -> None:
    """vision_opencv#115, and V4L2's aligned rows as in vision_opencv#394: the step was ignored."""
    channels = {"mono8": 1, "bgra8": 4, "yuv422_yuy2": 2}.get(encoding, 3)
    step = -(-WIDTH * channels // alignment) * alignment + alignment
    padded = np.full((HEIGHT, step), 0xAB, dtype=np.uint8)
    tight = noise(HEIGHT, WIDTH * channels)
    padded[:, : WIDTH * channels] = tight
    code = {
        "bgr8": cv2.COLOR_BGR2RGB,
        "bgra8": cv2.COLOR_BGRA2RGB,
        "mono8": cv2.COLOR_GRAY2RGB,
        "yuv422_yuy2": cv2.COLOR_YUV2RGB_YUY2,
    }
    picture = tight.reshape((HEIGHT, WIDTH) if channels == 1 else (HEIGHT, WIDTH, channels))
    want = picture if encoding == "rgb8" else cv2.cvtColor(picture, code[encoding])
    assert np.array_equal(decode_image(encoding, HEIGHT, WIDTH, step, False, padded.tobytes()), want)


@pytest.mark.parametrize("encoding", ["mono16", "16UC1", "32FC1", "rgb16"])
def test_the_byte_order_changes_nothing_that_is_seen(encoding: str) -> None:
    """vision_opencv#114: is_bigendian was ignored. (vision_opencv#556: and newbyteorder is gone from NumPy 2.)"""
    kind = "f4" if encoding == "32FC1" else "u2"
    channels = 3 if encoding == "rgb16" else 1
    rng = np.random.default_rng(5)
    values = rng.uniform(0.0, 5.0 if kind == "f4" else 65535.0, (HEIGHT, WIDTH * channels))
    pictures = []
    for big in (False, True):
        samples = values.astype((">" if big else "<") + kind)
        pictures.append(decode_image(encoding, HEIGHT, WIDTH, samples.strides[0], big, samples.tobytes()))
    assert np.array_equal(*pictures)
    wrong = decode_image(encoding, HEIGHT, WIDTH, samples.strides[0], False, samples.tobytes())
    assert not np.array_equal(wrong, pictures[0]), "the flag is what makes them equal"


def test_gray_of_16_bits_is_not_read_as_8_bits() -> None:
    """vision_opencv#255: mono16 came out as if it had 8 bits, with half of the picture in it."""
    gray = np.random.default_rng(6).integers(0, 65536, (HEIGHT, WIDTH), dtype=np.uint16)
    want = cv2.cvtColor(cv2.convertScaleAbs(gray // 256), cv2.COLOR_GRAY2RGB)
    assert np.array_equal(decode_image("mono16", HEIGHT, WIDTH, WIDTH * 2, False, gray.tobytes()), want)


@pytest.mark.parametrize(
    ("format_text", "codec"),
    [
        ("bgr8; jpeg compressed bgr8", ".jpg"),
        ("rgb8; jpeg compressed bgr8", ".jpg"),
        ("mono8; jpeg compressed ", ".jpg"),
        ("bgr8; png compressed bgr8", ".png"),
        ("rgb8; png compressed ", ".png"),
        ("bayer_rggb8; png compressed bgr8", ".png"),
        ("jpeg", ".jpg"),
        ("png", ".png"),
        ("JPEG", ".jpg"),
    ],
)
def test_the_long_and_the_short_format_mean_the_same(format_text: str, codec: str) -> None:
    """image_transport_plugins#56 (the long text was not expected) and vision_opencv#382 (only "png", nothing else)."""
    bgr = cv2.GaussianBlur(noise(48, 64, 3), (9, 9), 3)
    done, encoded = cv2.imencode(codec, bgr)
    assert done
    want = cv2.cvtColor(cv2.imdecode(encoded, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    assert np.array_equal(decode_compressed(format_text, encoded.tobytes()), want)
