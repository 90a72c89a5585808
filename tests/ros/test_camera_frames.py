"""From an image message to a picture, in the nodes: who decodes, what is refused when it comes, and what is said."""

from __future__ import annotations

import sys
from itertools import count
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from graph import Graph
from hypothesis import given, settings
from hypothesis import strategies as st
from rclpy.serialization import serialize_message
from rollout_monitor_nodes.common import images
from rollout_monitor_nodes.common.conversions import time_to_msg
from rollout_monitor_nodes.common.images import FrameReader
from rollout_monitor_nodes.common.subscribe import Source
from rollout_monitor_nodes.interfaces import COMPRESSED, IMAGE
from sensor_msgs.msg import CompressedImage, Image

from rollout_monitor.errors import InputError

NS = 1_000_000_000
ROW, COLUMNS = 9, 8  # the height is no multiple of the width: a sheared picture cannot come out right


GOOD = Image(height=2, width=2, encoding="rgb8", step=6, data=bytes(range(12)))
BAD = [
    Image(height=2, width=2, encoding="foo8", step=6, data=bytes(12)),
    Image(height=2, width=2, encoding="mono8", step=2, data=bytes(3)),
    Image(height=2, width=2, encoding="bgr8", step=5, data=bytes(12)),
]
JPEG = cv2.imencode(".jpg", np.full((32, 32, 3), 90, np.uint8))[1].tobytes()
GOOD_JPEG = CompressedImage(format="bgr8; jpeg compressed bgr8", data=JPEG)
BAD_JPEG = [
    CompressedImage(format="jpeg", data=JPEG[:-100]),
    CompressedImage(format="h264", data=JPEG),
]


class FaultyBridge:
    """A stand-in for cv_bridge with the faults that were reported of it.

    Rows are taken to be tight (vision_opencv issue 115), samples to be in this machine's byte order (114; the attempt
    to swap them fails with NumPy 2, PR 556), and mono16 to be of 8 bits (255). It knows one encoding that the core does
    not: "yuv444", three bytes per pixel.
    """

    TYPES: ClassVar[dict[str, tuple[str, int]]] = {
        **dict.fromkeys(["rgb8", "bgr8", "8UC3", "yuv444"], ("uint8", 3)),
        **dict.fromkeys(["mono8", "mono16"], ("uint8", 1)),
        "16UC1": ("uint16", 1),
        "16SC1": ("int16", 1),
        "8SC3": ("int8", 3),
    }

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encoding_to_dtype_with_channels(self, encoding: str) -> tuple[str, int]:
        if encoding not in self.TYPES:
            raise TypeError(f"Unrecognized image encoding [{encoding}]")
        return self.TYPES[encoding]

    def imgmsg_to_cv2(self, message: Image, desired_encoding: str) -> npt.NDArray[Any]:
        assert desired_encoding == "rgb8"
        self.asked.append(message.encoding)
        dtype, channels = self.encoding_to_dtype_with_channels(message.encoding)
        shape = (message.height, message.width, channels)
        picture = np.ndarray(shape=shape, dtype=dtype, buffer=bytes(message.data))
        if message.encoding == "yuv444":
            return cv2.cvtColor(picture, cv2.COLOR_YUV2RGB)
        if message.encoding in ("bgr8", "8UC3"):
            return picture[..., ::-1]
        if channels == 1 and dtype == "uint8":
            return np.repeat(picture, 3, axis=2)
        if message.encoding == "rgb8":
            return picture
        raise TypeError(f"Unsupported conversion from [{message.encoding}] to [rgb8]")


class Reader:
    """A FrameReader on a node that only logs."""

    def __init__(self) -> None:
        self.said: list[str] = []
        logger = SimpleNamespace(error=self.said.append)
        node: Any = SimpleNamespace(get_logger=lambda: logger, resolve_topic_name=lambda topic: f"/{topic}")
        self.reader = FrameReader(node)

    def frame(self, message: Image | CompressedImage) -> images.CameraFrame | None:
        kind = IMAGE if isinstance(message, Image) else COMPRESSED
        return self.reader.read(Source("cam", kind), serialize_message(message))

    def picture(self, message: Image | CompressedImage) -> npt.NDArray[np.uint8]:
        frame = self.frame(message)
        assert frame is not None, self.said
        return frame.decode()


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> FaultyBridge:
    """The faulty cv_bridge, installed."""
    made = FaultyBridge()
    module = ModuleType("cv_bridge")
    module.CvBridge = lambda: made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cv_bridge", module)
    return made


def message(encoding: str, data: npt.NDArray[np.uint8], step: int, *, big: bool = False) -> Image:
    return Image(
        height=ROW, width=COLUMNS, encoding=encoding, step=step, is_bigendian=int(big), data=data.reshape(-1).tobytes()
    )


def noise(bytes_per_row: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(5).integers(0, 256, (ROW, bytes_per_row), dtype=np.uint8)


# --- who decodes -------------------------------------------------------------------------------------------------


def wrong_or_failed(bridge: FaultyBridge, sent: Image, right: npt.NDArray[np.uint8]) -> bool:
    try:
        return not np.array_equal(bridge.imgmsg_to_cv2(sent, "rgb8"), right)
    except TypeError:
        return True


def test_padded_rows_are_right_although_cv_bridge_is_there(bridge: FaultyBridge) -> None:
    """vision_opencv#115: the step is ignored, each row begins where the one before should have been padded."""
    data = noise(COLUMNS * 3 + 8)
    sent = message("bgr8", data, COLUMNS * 3 + 8)
    right = data[:, : COLUMNS * 3].reshape(ROW, COLUMNS, 3)[..., ::-1]
    assert np.array_equal(Reader().picture(sent), right)
    assert wrong_or_failed(bridge, sent, right), "the stand-in has the fault"


def test_big_endian_depth_is_right_although_cv_bridge_is_there(bridge: FaultyBridge) -> None:
    """vision_opencv#114: is_bigendian is ignored (and with NumPy 2 the swap of later versions fails)."""
    millimetres = np.arange(ROW * COLUMNS, dtype=np.uint16).reshape(ROW, COLUMNS) * 60
    sent = message("16UC1", millimetres.astype(">u2").view(np.uint8), COLUMNS * 2, big=True)
    right = np.minimum(millimetres / 5000 * 255, 255)[..., None]
    assert np.abs(Reader().picture(sent) - right).max() <= 1
    assert wrong_or_failed(bridge, sent, np.repeat(right, 3, axis=2).astype(np.uint8))


@pytest.mark.parametrize("big", [False, True])
def test_mono16_is_right_although_cv_bridge_is_there(bridge: FaultyBridge, big: bool) -> None:
    """vision_opencv#255: 16 bits read as 8, so half of the rows are shown, with low bytes between the columns."""
    gray = np.random.default_rng(6).integers(0, 65536, (ROW, COLUMNS), dtype=np.uint16)
    sent = message("mono16", gray.astype(">u2" if big else "<u2").view(np.uint8), COLUMNS * 2, big=big)
    right = np.repeat((gray // 256).astype(np.uint8)[..., None], 3, axis=2)
    assert np.array_equal(Reader().picture(sent), right)
    assert wrong_or_failed(bridge, sent, right)


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "mono8", "mono16", "16UC1"])
def test_cv_bridge_is_not_asked_for_what_the_core_knows(bridge: FaultyBridge, encoding: str) -> None:
    """So a picture is the same live, where cv_bridge may be installed, and from a recording, where it is not used."""
    step = COLUMNS * {"rgb8": 3, "bgr8": 3, "mono8": 1}.get(encoding, 2)
    with_bridge = Reader().picture(message(encoding, noise(step), step))
    assert bridge.asked == []
    sys.modules["cv_bridge"] = None  # type: ignore[assignment] - what an import that fails leaves
    assert np.array_equal(Reader().picture(message(encoding, noise(step), step)), with_bridge)


def test_cv_bridge_is_asked_for_what_only_it_knows(bridge: FaultyBridge) -> None:
    data = noise(COLUMNS * 3)
    reader = Reader()
    right = cv2.cvtColor(data.reshape(ROW, COLUMNS, 3), cv2.COLOR_YUV2RGB)
    assert np.array_equal(reader.picture(message("yuv444", data, COLUMNS * 3)), right)
    assert (bridge.asked, reader.said) == (["yuv444"], [])


def test_cv_bridge_is_not_asked_where_its_faults_would_show(bridge: FaultyBridge) -> None:
    reader = Reader()
    padded = message("yuv444", noise(COLUMNS * 3 + 1), COLUMNS * 3 + 1)
    cut = message("yuv444", noise(COLUMNS * 3)[:-1], COLUMNS * 3)
    swapped = message("16SC1", noise(COLUMNS * 2), COLUMNS * 2, big=True)
    for sent in (padded, cut, swapped):
        assert reader.frame(sent) is None
        assert reader.reader.trouble.startswith(f"image encoding '{sent.encoding}' is not known")
    assert bridge.asked == []
    assert [text.partition(";")[0] for text in reader.said] == ["/cam: image encoding 'yuv444' is not known"]


def test_what_cv_bridge_cannot_convert_is_an_input_error(bridge: FaultyBridge) -> None:
    reader = Reader()
    frame = reader.frame(message("8SC3", noise(COLUMNS * 3), COLUMNS * 3))
    assert frame is not None
    with pytest.raises(InputError, match="'8SC3': cv_bridge cannot convert it to rgb8: 'Unsupported conversion"):
        frame.decode()
    assert reader.said[0].startswith("/cam: image encoding '8SC3'")


def test_a_cv_bridge_that_cannot_be_imported_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """vision_opencv#535: built against NumPy 1, the import fails with an AttributeError under NumPy 2."""
    monkeypatch.setitem(sys.modules, "cv_bridge", ModuleType("cv_bridge"))
    assert images.find_cv_bridge() is None


# --- what is said ------------------------------------------------------------------------------------------------


def test_trouble_is_said_once_per_topic_and_sort_with_a_count() -> None:
    said: list[str] = []
    now = [0.0]
    complaints = images.Complaints(said.append, lambda: now[0])
    for _ in range(10):
        complaints.about("/front", "encoding 'foo8' is unknown")
    complaints.about("/wrist", "encoding 'foo8' is unknown")
    now[0] = 6.0
    complaints.about("/front", "encoding 'foo8' is unknown")
    assert said == [
        "/front: encoding 'foo8' is unknown",
        "/wrist: encoding 'foo8' is unknown",
        "/front: encoding 'foo8' is unknown (9 more since the last such line)",
    ]


def test_an_encoding_of_its_own_for_every_frame_is_one_kind_of_trouble() -> None:
    reader = Reader()
    for seed in range(200):
        encoding = "".join(chr(code) for code in np.random.default_rng(seed).integers(32, 127, 8))
        reader.frame(Image(height=2, width=2, encoding=encoding, step=6, data=bytes(12)))
        reader.frame(CompressedImage(format=encoding, data=bytes([seed, 255, 255, seed])))
    assert [("is not known" in line, "neither JPEG nor PNG" in line) for line in reader.said] == [
        (True, False),
        (False, True),
    ]


def test_another_kind_of_trouble_with_the_same_encoding_is_told_at_once() -> None:
    reader = Reader()
    for _ in range(3):
        reader.frame(Image(height=2, width=2, encoding="mono8", step=2, data=bytes(3)))
        reader.frame(Image(height=0, width=0, encoding="mono8", step=0, data=b""))
    assert len(reader.said) == 2
    assert "the message has 3" in reader.said[0] and "must be within" in reader.said[1]


def test_what_is_kept_of_troubles_is_bounded() -> None:
    """Whatever the sentences are: those beyond the first few kinds share one line in five seconds."""
    said: list[str] = []
    now = [0.0]
    complaints = images.Complaints(said.append, lambda: now[0])
    for number in range(1000):
        complaints.about("/front", "trouble " + "ab"[number % 2] * (number // 2))
    assert len(said) == images.MOST_KINDS + 1
    now[0] = 6.0
    complaints.about("/front", "trouble of yet another kind")
    assert said[-1].endswith(f"({1000 - images.MOST_KINDS - 2} more since the last such line)")


def test_a_jpeg_with_a_hole_is_complained_of_when_it_is_decoded(capfd: pytest.CaptureFixture[str]) -> None:
    """It has its start and its end; libjpeg would paint the rest gray and write to the terminal itself."""
    whole = cv2.imencode(".jpg", np.random.default_rng(4).integers(0, 256, (120, 160, 3), dtype=np.uint8))[1].tobytes()
    reader = Reader()
    for _ in range(5):
        frame = reader.frame(CompressedImage(format="jpeg", data=whole[:1500] + whole[-1500:]))
        assert frame is not None
        with pytest.raises(InputError, match="is damaged"):
            frame.decode()
    assert len(reader.said) == 1 and reader.said[0].startswith(
        "/cam: compressed image of format 'jpeg', 3000 bytes, is"
    )
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("encoding", ["x" * 100_000, "new\nline", "\x1b[31mred"])
def test_an_encoding_is_said_short_and_escaped(encoding: str) -> None:
    reader = Reader()
    reader.frame(Image(height=2, width=2, encoding=encoding, step=6, data=bytes(12)))
    reader.frame(CompressedImage(format=encoding, data=b"GIF89a"))
    assert len(reader.said) == 2
    for line in (*reader.said, reader.reader.trouble):
        assert line.isprintable() and len(line) < 600, line[:700]


@pytest.mark.parametrize("topic", ["front/image_raw", "front/image_raw/compressed"])
def test_a_camera_is_looked_for_where_its_transport_puts_it(topic: str) -> None:
    found = {t: [s.topic for s in images.camera_sources(topic, t)] for t in ("raw", "compressed", "auto")}
    raw, compressed = "front/image_raw", "front/image_raw/compressed"
    assert found == {"raw": [raw], "compressed": [compressed], "auto": [compressed, raw]}


def test_a_depth_camera_is_looked_for_under_its_own_ending() -> None:
    found = [source.topic for source in images.camera_sources("depth/image_rect_raw/compressedDepth", "auto")]
    assert found == ["depth/image_rect_raw/compressedDepth", "depth/image_rect_raw"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_message_is_a_frame_or_a_complaint(data: st.DataObject) -> None:
    """Cut, overwritten and absurd messages: never an exception, and decoding is a picture or an InputError."""
    sound = data.draw(st.sampled_from([GOOD, GOOD_JPEG]))
    raw = bytearray(serialize_message(sound))
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=6)):
        raw[at] = value
    reader = Reader()
    kind = data.draw(st.sampled_from([IMAGE, COMPRESSED]))
    frame = reader.reader.read(Source("cam", kind), bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    if frame is None:
        assert len(reader.said) == 1 and reader.said[0] == f"/cam: {reader.reader.trouble}"
        return
    try:
        assert frame.decode().dtype == np.uint8
    except InputError:
        assert len(reader.said) == 1


# --- through DDS -------------------------------------------------------------------------------------------------

ROUNDS = 20
AT_ONCE = 7
"""Frames on the way at most: a node that is not served for a while keeps the newest ten of a camera."""


def test_every_unreadable_frame_is_counted_and_named_once(graph: Graph) -> None:
    """Unknown encodings and cut buffers among good frames: exact counts in the camera health, one line per sort."""
    curve = graph.folder / "curve.csv"
    curve.write_text("progress\n0.1\n")
    front = graph.publisher("/cam", IMAGE, "REPLAY")
    wrist = graph.publisher("/wrist/compressed", COMPRESSED, "REPLAY")
    health = graph.listen("rollout/cameras", "rollout_monitor_msgs/msg/CameraHealth", "RECORDS")
    prm = graph.start(
        "prm_node",
        model="recorded",
        model_path=curve,
        cameras=["front", "wrist"],
        camera_topics=["/cam", "/wrist/compressed"],
    )
    graph.until("prm_node", lambda: front.get_subscription_count() == wrist.get_subscription_count() == 1)
    graph.until("its publisher", lambda: health.subscription.get_publisher_count() == 1)
    stamps_ns = count(NS, NS // 10)

    def send(publisher: Any, *messages: Image | CompressedImage) -> None:
        for one in messages:
            one.header.stamp = time_to_msg(next(stamps_ns))
            publisher.publish(one)
            graph.pump()

    def newest(camera: str) -> Any:
        return next((msg for msg in reversed(health.messages) if msg.camera == camera), None)

    def counted() -> bool:
        send(front, GOOD)  # its stamp makes the health of both cameras due
        wrist_now, front_now = newest("wrist"), newest("front")
        return bool(wrist_now and wrist_now.received == 3 * ROUNDS and front_now and front_now.bad == 3 * ROUNDS)

    for done in range(ROUNDS):
        send(front, *BAD, GOOD)
        send(wrist, *BAD_JPEG, GOOD_JPEG)
        graph.until("all before", lambda done=done: done == 0 or (newest("front") and newest("front").bad >= 3 * done))
    graph.until("all frames", counted)
    assert newest("wrist").bad == 2 * ROUNDS
    assert newest("front").received - newest("front").bad >= ROUNDS
    for topic, name in (("/cam", "'foo8'"), ("/cam", "'mono8'"), ("/cam", "'bgr8'"), ("compressed", "'h264'")):
        lines = [line for line in prm.text.splitlines() if topic in line and name in line]
        assert 1 <= len(lines) < ROUNDS / 2, prm.text
        assert "[ERROR]" in lines[0]
    assert prm.popen.poll() is None


def test_repeated_frames_are_counted_for_the_camera_that_repeats(graph: Graph) -> None:
    """librealsense#14932 and #9191 through DDS: of two cameras one shows the same picture again and again."""
    curve = graph.folder / "curve.csv"
    curve.write_text("progress\n0.1\n")
    publishers = {camera: graph.publisher(f"/{camera}", IMAGE, "REPLAY") for camera in ("front", "wrist")}
    health = graph.listen("rollout/cameras", "rollout_monitor_msgs/msg/CameraHealth", "RECORDS")
    graph.start(
        "prm_node",
        model="recorded",
        model_path=curve,
        cameras=["front", "wrist"],
        camera_topics=["/front", "/wrist"],
    )
    graph.until("prm_node", lambda: all(one.get_subscription_count() == 1 for one in publishers.values()))
    graph.until("its publisher", lambda: health.subscription.get_publisher_count() == 1)
    sent = 0

    def wrist_frozen() -> Any:
        nonlocal sent
        newest = {msg.camera: msg for msg in health.messages}
        if sent - min((newest[camera].received if camera in newest else 0) for camera in publishers) > AT_ONCE:
            return None
        sent += 1
        for camera, publisher in publishers.items():
            picture = bytes([sent % 256 if camera == "front" or sent <= ROUNDS else 7] * 12)
            frame = Image(height=2, width=2, encoding="rgb8", step=6, data=picture)
            frame.header.stamp = time_to_msg(NS + sent * NS // 10)
            publisher.publish(frame)
        return newest if len(newest) == 2 and newest["wrist"].repeated >= ROUNDS else None

    newest = graph.until("a frozen camera", wrist_frozen)
    assert newest["wrist"].frozen and not newest["front"].frozen
    assert newest["front"].repeated == 0
    first = newest["wrist"].frozen_since
    assert first.sec * NS + first.nanosec == NS + (ROUNDS + 1) * NS // 10


def test_a_compressed_depth_topic_is_a_camera_too(graph: Graph) -> None:
    """16UC1 as compressed_depth_image_transport sends it: 2.5 m is half of the way to white."""
    curve = graph.folder / "curve.csv"
    curve.write_text("progress\n0.1\n")
    topic = "/depth/image_rect_raw/compressedDepth"
    camera = graph.publisher(topic, COMPRESSED, "SENSOR")
    health = graph.listen("rollout/cameras", "rollout_monitor_msgs/msg/CameraHealth", "RECORDS")
    graph.start("prm_node", model="recorded", model_path=curve, cameras=["depth"], camera_topics=[topic])
    graph.until("prm_node", lambda: camera.get_subscription_count() == 1)
    graph.until("its publisher", lambda: health.subscription.get_publisher_count() == 1)
    png = cv2.imencode(".png", np.full((24, 32), 2500, np.uint16))[1].tobytes()
    stamps_ns = count(NS, NS // 10)

    def seen() -> bool:
        frame = CompressedImage(format="16UC1; compressedDepth png", data=bytes(12) + png)
        frame.header.stamp = time_to_msg(next(stamps_ns))
        camera.publish(frame)
        return bool(health.messages and health.messages[-1].luminance > 0)

    graph.until("a picture", seen)
    assert health.messages[-1].luminance == 127.0
    assert health.messages[-1].bad == 0
