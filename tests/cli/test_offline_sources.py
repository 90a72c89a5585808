"""Which topics of a recording are looked at where the user names none, and what is said of the others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rollout_monitor.cli.offline import Sources, choose_sources

IMAGE, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"


def sources(**types: str) -> Sources:
    topics = [SimpleNamespace(name=name, type=kind) for name, kind in types.items()]
    bag: Any = SimpleNamespace(path=Path("bag"), topics=topics)
    return choose_sources(bag, {}, None)


def test_of_two_topics_with_one_camera_name_both_are_named() -> None:
    found = sources(**{"/one/front/image_raw": IMAGE, "/two/front/image_raw": IMAGE, "/wrist/image_raw": IMAGE})
    assert found.cameras == {"front": "/one/front/image_raw", "wrist": "/wrist/image_raw"}
    assert found.notes == [
        "cameras found: front=/one/front/image_raw, wrist=/wrist/image_raw",
        "not looked at without --camera: /two/front/image_raw (/one/front/image_raw has its name)",
    ]


def test_depth_is_left_to_the_user() -> None:
    found = sources(**{"/front/color/image_raw": IMAGE, "/front/depth/compressed": COMPRESSED})
    assert found.cameras == {"front": "/front/color/image_raw"}
    assert found.notes[1:] == ["not looked at without --camera: /front/depth/compressed"]
    assert sources(**{"/front/depth/image_raw": IMAGE}).cameras == {"depth": "/front/depth/image_raw"}


def test_views_from_outside_come_first() -> None:
    found = sources(**{"/a_wrist/image_raw": IMAGE, "/front/image_raw": IMAGE})
    assert list(found.cameras) == ["front", "a_wrist"]
