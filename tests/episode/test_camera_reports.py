"""Public reports about cameras that repeat or stop, replayed through the engine with two cameras."""

from __future__ import annotations

from engine_help import NS, T0, ScriptedModel, Streams, feed, reports

from rollout_monitor.episode.rollout import RolloutMonitor
from rollout_monitor.episode.settings import GateSettings
from rollout_monitor.records import CameraHealth, EpisodeReport, Event, EventKind

GATE = GateSettings(cameras=("front", "wrist"), rate_hz=5.0)
ALMOST_ALL = 115  # of 120: health is reported twice a second
Items = list[tuple[int, str, tuple[object, ...]]]


def run(items: Items) -> tuple[EpisodeReport, dict[str, CameraHealth]]:
    (report,) = reports(feed(RolloutMonitor(ScriptedModel(lambda t: min(1.0, t / 10)), GATE), items))
    return report, {health.camera: health for health in report.cameras}


def about(report: EpisodeReport, kind: EventKind) -> list[Event]:
    return [event for event in report.events if event.kind is kind]


def changed(camera: str, pictures: dict[int, int | None]) -> Items:
    """An attempt of 12 s at 10 Hz; frame k of the camera shows picture pictures[k], None where it never comes."""
    items: Items = []
    for stamp, topic, payload in Streams().build():
        if topic == "image" and payload[0] == camera:
            shown = pictures.get(int(payload[1]), int(payload[1]))  # type: ignore[call-overload]
            if shown is None:
                continue
            payload = (camera, shown)  # noqa: PLW2901
        items.append((stamp, topic, payload))
    return items


def test_one_of_several_cameras_repeats_its_frames() -> None:
    """librealsense#14932: with several cameras one of them delivers its frames twice, stamps going on."""
    report, cameras = run(changed("wrist", {index: index - index % 2 for index in range(120)}))
    assert about(report, EventKind.CAMERA_FROZEN) == [], "every other frame is new"
    assert all(camera.received >= ALMOST_ALL for camera in cameras.values())
    assert abs(cameras["wrist"].repeated - cameras["wrist"].received / 2) <= 1
    assert cameras["front"].repeated == 0


def test_one_of_several_cameras_freezes_and_comes_back() -> None:
    """librealsense#9191: one camera shows its last picture again and again while the others go on."""
    report, cameras = run(changed("wrist", dict.fromkeys(range(40, 80), 40)))
    (frozen,) = about(report, EventKind.CAMERA_FROZEN)
    assert frozen.subject == "wrist"
    first_ns = T0 + 4 * NS + 7_000_000
    assert frozen.onset_ns == first_ns, "the first of the pictures that were the same"
    assert frozen.cleared_ns is not None and T0 + 8 * NS <= frozen.cleared_ns <= T0 + 9 * NS
    assert (cameras["wrist"].repeated, cameras["front"].repeated) == (39, 0)
    assert about(report, EventKind.CAMERA_LOST) == []


def test_a_camera_publishes_two_frames_and_stops() -> None:
    """realsense-ros#3012: the node is alive and its topic is there, but after one or two frames nothing comes."""
    report, cameras = run(changed("wrist", dict.fromkeys(range(2, 120), None)))
    (lost,) = about(report, EventKind.CAMERA_LOST)
    assert lost.subject == "wrist" and lost.cleared_ns is None
    assert lost.onset_ns == T0 + NS // 10 + 7_000_000, "its last frame"
    assert cameras["wrist"].received == 2 and cameras["front"].received >= ALMOST_ALL
    assert report.estimates >= 58, "the attempt is judged by the camera that is left"


def test_the_primary_camera_publishes_two_frames_and_stops() -> None:
    """realsense-ros#3012, of the camera that progress is judged by: no estimate is made up from then on."""
    report, cameras = run(changed("front", dict.fromkeys(range(2, 120), None)))
    assert [event.subject for event in about(report, EventKind.CAMERA_LOST)] == ["front"]
    assert cameras["front"].received == 2
    assert report.estimates <= 2
    assert about(report, EventKind.MODEL_LOST)
