"""Films: second and picture agree, the size limit holds, what cannot be shown is left out."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.store import film as films
from rollout_monitor.store.film import Film, Shot, make_film, read_film

NS = 1_000_000_000
START = 1_700_000_000 * NS


def flat(value: int, size: tuple[int, int] = (48, 64)) -> RgbImage:
    return np.full((*size, 3), value, np.uint8)


def unreadable() -> RgbImage:
    raise InputError("is cut short")


def frames_of(film: Film) -> list[tuple[float, RgbImage]]:
    with av.open(io.BytesIO(film.mp4)) as container:
        assert container.streams.video[0].codec_context.name == "h264"
        return [(float(frame.time or 0), frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]


def film_of(shots: list[Shot], seconds: float, cameras: tuple[str, ...] = ("front",), **options: int) -> Film | None:
    return make_film(lambda: shots, cameras, START, START + round(seconds * NS), **options)


def test_every_tick_shows_the_newest_picture_of_each_camera() -> None:
    shots = [Shot("front", START + round(s * NS), partial(flat, round(40 + 40 * s))) for s in (0, 1, 2, 3)]
    shots += [Shot("wrist", START + round((s + 0.5) * NS), partial(flat, 200)) for s in (0, 1)]
    shots += [Shot("other", START, partial(flat, 0)), Shot("front", START + NS // 4, unreadable)]
    made = film_of(sorted(shots, key=lambda shot: shot.stamp_ns), 3.0, ("front", "wrist"))
    assert made is not None
    assert (made.width, made.height, made.step_ms, made.cameras) == (960, 360, 100, ("front", "wrist"))
    frames = frames_of(made)
    assert len(frames) == 31
    for index, (second, picture) in enumerate(frames):
        assert second == pytest.approx(index / 10)
        left, right = picture[180, 240, 0], picture[180, 720, 0]
        assert abs(int(left) - (40 + 40 * (index // 10))) <= 3, second
        assert abs(int(right) - (200 if index >= 5 else 24)) <= 3, second


def test_read_back_and_known_by_its_own_words(tmp_path: Path) -> None:
    made = film_of([Shot("front", START, partial(flat, 9))], 1.0)
    assert made is not None
    (tmp_path / "film.mp4").write_bytes(made.mp4)
    assert read_film(tmp_path / "film.mp4") == made
    assert read_film(tmp_path / "none.mp4") is None
    (tmp_path / "film.mp4").write_bytes(made.mp4[:100])
    assert read_film(tmp_path / "film.mp4") is None


def test_noise_keeps_to_the_limit() -> None:
    def noise(seed: int) -> RgbImage:
        return np.random.default_rng(seed).integers(0, 256, (360, 480, 3), dtype=np.uint8)

    def shots() -> Iterator[Shot]:
        for index in range(40):
            yield Shot("front", START + index * NS // 4, partial(noise, index))

    made = make_film(shots, ("front",), START, START + 10 * NS, limit_bytes=300_000)
    assert made is not None
    assert len(made.mp4) <= 300_000
    assert make_film(shots, ("front",), START, START + 10 * NS, limit_bytes=2_000) is None


def test_long_attempts_have_fewer_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(films, "MOST_PICTURES", 100)
    made = film_of([Shot("front", START + k * 60 * NS, partial(flat, k)) for k in range(60)], 3600.0)
    assert made is not None
    assert made.step_ms == 36_000
    assert len(frames_of(made)) == 101


def test_nothing_to_show_is_no_film(monkeypatch: pytest.MonkeyPatch) -> None:
    assert film_of([], 1.0) is None
    assert film_of([Shot("front", START, unreadable)], 1.0) is None
    assert film_of([Shot("front", START, partial(flat, 9))], 0.0) is None
    monkeypatch.setattr(films, "_ENCODERS", ("no-such-encoder",))
    assert film_of([Shot("front", START, partial(flat, 9))], 1.0) is None


def test_pictures_of_any_shape_are_shown_whole() -> None:
    made = film_of([Shot("front", START, partial(flat, 200, (90, 160)))], 0.5)
    assert made is not None
    picture = frames_of(made)[0][1]
    assert abs(int(picture[180, 240, 0]) - 200) <= 3
    assert abs(int(picture[10, 240, 0]) - 24) <= 6, "bars above a wide picture"
