"""Videos: frames on the grid, whatever the frame rate does; refusals with a reason."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollout_monitor.errors import InputError
from rollout_monitor.store.videos import read_video

NS = 1_000_000_000


def make_video(path: Path, times_ms: list[int], *, fast_start: bool = False, codec: str = "mpeg4") -> Path:
    """A video whose frame k is gray of value 8 k + 16, shown at times_ms[k]."""
    options = {"movflags": "faststart"} if fast_start else {}
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height = 64, 48
        stream.options = {"cpu-used": "8"} if codec == "libaom-av1" else {}
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        base = Fraction(1, 25) if codec == "mjpeg" else Fraction(1, 1000)
        stream.time_base = stream.codec_context.time_base = base
        for index, time in enumerate(times_ms):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 16 + 8 * index % 240, np.uint8), format="rgb24")
            frame.pts, frame.time_base = int(Fraction(time, 1000) / base), base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_every_frame_with_its_time(tmp_path: Path) -> None:
    times = [0, 40, 80, 400, 410, 1500]
    frames = list(read_video(make_video(tmp_path / "v.mp4", times)))
    assert [stamp for stamp, _ in frames] == [time * 1_000_000 for time in times]
    for index, (_, picture) in enumerate(frames):
        assert picture.shape == (48, 64, 3)
        assert picture.dtype == np.uint8
        assert abs(float(picture.mean()) - (16 + 8 * index)) < 3


@pytest.mark.parametrize(
    ("codec", "container"),
    [("libaom-av1", "mp4"), ("libaom-av1", "mkv"), ("libx264", "mp4"), ("libvpx-vp9", "webm"), ("mjpeg", "avi")],
)
def test_codecs_and_variable_frame_rate(tmp_path: Path, codec: str, container: str) -> None:
    """AV1 as LeRobot stores it, H.264 with frames out of order, VP9: the stamps are those that were written."""
    if codec not in av.codecs_available:
        pytest.skip(f"this FFmpeg cannot encode {codec}")
    times = [0, 40, 80, 120, 400, 440, 480, 1000, 1040, 2000]
    if container == "avi":  # knows no variable rate
        times = [40 * index for index in range(10)]
    path = make_video(tmp_path / f"v.{container}", times, codec=codec)
    frames = list(read_video(path))
    assert [stamp for stamp, _ in frames] == [time * 1_000_000 for time in times]
    for index, (_, picture) in enumerate(frames):
        assert abs(float(picture.mean()) - (16 + 8 * index)) < 4, "and each stamp has its own picture"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.integers(5, 900), min_size=1, max_size=25),
    first=st.integers(0, 3000),
    rate=st.sampled_from([0.5, 1.0, 3.0, 5.0, 7.5, 10.0, 29.97, 30.0]),
)
def test_grid_on_variable_frame_rate(tmp_path: Path, steps: list[int], first: int, rate: float) -> None:
    times = list(np.cumsum([first, *steps]))
    path = make_video(tmp_path / "v.mkv", [int(time) for time in times])
    everything = [stamp for stamp, _ in read_video(path)]
    picked = [stamp for stamp, _ in read_video(path, rate)]
    exact = Fraction(rate).limit_denominator(1001)
    want, tick = [], 0
    for stamp in everything:
        if Fraction(stamp, NS) * exact >= tick:
            want.append(stamp)
            tick = int(Fraction(stamp, NS) * exact) + 1
    assert picked == want
    assert picked[0] == 0


@pytest.mark.parametrize("rate", [24, 25, 30, 60])
def test_a_grid_as_fast_as_the_video_takes_every_frame(tmp_path: Path, rate: int) -> None:
    """Stamps of 1/24 s are no whole nanoseconds: rounding must not push a frame off its tick, here or downstream."""
    with av.open(str(tmp_path / "v.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for index in range(50):
            container.mux(
                stream.encode(av.VideoFrame.from_ndarray(np.full((32, 32, 3), index, np.uint8), format="rgb24"))
            )
        container.mux(stream.encode(None))
    stamps = [stamp for stamp, _ in read_video(tmp_path / "v.mp4", float(rate))]
    assert len(stamps) == 50
    assert [int(stamp // (NS / rate)) for stamp in stamps] == list(range(50)), "the engine's gate sees the same ticks"


def test_refusals_say_why(tmp_path: Path) -> None:
    text, empty, sound = tmp_path / "text.mp4", tmp_path / "empty.mp4", tmp_path / "sound.wav"
    letters, listed, still = tmp_path / "letters.txt", tmp_path / "list.m3u8", tmp_path / "still.png"
    text.write_text("not a video")
    letters.write_text("FFmpeg would make a video of this.\n" * 200)
    listed.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{tmp_path}/other.mp4\n#EXT-X-ENDLIST\n")
    still.write_bytes(cv2.imencode(".png", np.zeros((8, 8, 3), np.uint8))[1].tobytes())
    empty.write_bytes(b"")
    with av.open(str(sound), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux([*stream.encode(frame), *stream.encode(None)])
    refused = {
        text: "after 0 frames",
        empty: "after 0 frames",
        sound: "it has no video stream",
        letters: "expected a video file",
        listed: "expected a video file",
        still: "expected a video file",
    }
    for path, told in refused.items():
        with pytest.raises(InputError, match=told) as error:
            list(read_video(path))
        assert str(path) in str(error.value)
    with pytest.raises(InputError, match="No such file"):
        list(read_video(tmp_path / "missing.mp4"))
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="must be positive"):
            read_video(text, rate)


def test_a_video_that_is_cut_gives_its_frames_and_then_the_reason(tmp_path: Path) -> None:
    path = make_video(tmp_path / "v.mp4", list(range(0, 4000, 40)), fast_start=True)
    content = path.read_bytes()
    for size in (len(content) * 9 // 10, len(content) // 2):
        path.write_bytes(content[:size])
        frames = []
        with pytest.raises(InputError, match=r"v\.mp4: (cut short: the last [\d.]+ s are not there|after \d+ frames)"):
            for frame in read_video(path):
                frames.append(frame)
        assert 0 < len(frames) < 100
    path.write_bytes(content[:30])
    with pytest.raises(InputError, match="after 0 frames"):
        list(read_video(path))


def test_a_trimmed_video_is_not_taken_for_a_cut_one(tmp_path: Path) -> None:
    """Trimming by an edit list keeps frames in the file that are not shown."""
    whole, trimmed = make_video(tmp_path / "whole.mp4", list(range(0, 2000, 40))), tmp_path / "trimmed.mp4"
    with av.open(str(whole)) as source, av.open(str(trimmed), "w") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        for packet in source.demux(stream):
            if packet.size:
                assert packet.time_base is not None
                shift = int(Fraction(400, 1000) / packet.time_base)
                packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, copy
                target.mux(packet)
    with av.open(str(trimmed)) as container:
        assert container.streams.video[0].frames == 50
    stamps = [stamp for stamp, _ in read_video(trimmed)]
    assert stamps == [n * 40_000_000 for n in range(40)]


def test_a_video_without_frames(tmp_path: Path) -> None:
    """A container that announces a video stream and has none of it."""
    path = make_video(tmp_path / "v.mkv", [0])
    content = path.read_bytes()
    path.write_bytes(content[: content.index(b"\x1f\x43\xb6\x75")])  # Matroska: everything before the first cluster
    with pytest.raises(InputError, match=r"no frames that can be decoded|after 0 frames"):
        list(read_video(path))


def test_public_av1_video(public_data: Path) -> None:
    (path,) = (public_data / "recordings" / "lerobot_v21_av1").rglob("*.mp4")
    assert sum(1 for _ in read_video(path)) == 393
    stamps = [stamp for stamp, _ in read_video(path, 5.0)]
    assert len(stamps) == 66
    assert stamps[:3] == [0, NS // 5, 2 * NS // 5]
