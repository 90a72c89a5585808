"""The picture that an operator looks at: what it shows is where it should be, and readable without colour."""

from __future__ import annotations

import itertools

import cv2
import numpy as np
import pytest
from overlay_examples import alarm, live

from rollout_monitor.errors import InputError
from rollout_monitor.frames import RgbImage
from rollout_monitor.records import Direction, EpisodeState, EventKind, Outcome, Severity
from rollout_monitor.report.overlay import symbols
from rollout_monitor.report.overlay.layout import Layout
from rollout_monitor.report.overlay.letters import fitted, text_width, write
from rollout_monitor.report.overlay.picture import MILESTONES, PANEL_SHADE, draw_overlay
from rollout_monitor.report.overlay.view import Age, ViewState

GREY_PICTURE = np.full((360, 640, 3), 110, np.uint8)
WHITE_PICTURE = np.full((360, 640, 3), 255, np.uint8)
HOSTILE = [
    "<script>alert(1)</script>",
    "a\nb\r\n\tc",
    "\U0001f600\U0001f9ff",
    "x" * 10_000,
    "\x1b[2J\x00\u202e",
    "你好 été",
    "",
]


def gray(picture: RgbImage) -> RgbImage:
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY))


def running(**fields: object) -> ViewState:
    known = {"state": EpisodeState.RUNNING, "progress": 0.4, "mp": 0.4, "drawdown": 0.0, **fields}
    return ViewState(**known)  # type: ignore[arg-type]


def shows(picture: RgbImage, text: str, size: int, bold: bool = False) -> bool:
    """Whether the text can be read somewhere on the picture, in greyscale."""
    canvas = np.zeros((size + 8, text_width(text, size, bold) + 4, 3), np.uint8)
    write(canvas, text, 2, size, size, (255, 255, 255), bold)
    rows, columns = np.nonzero(gray(canvas))
    ink = gray(canvas)[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    return float(cv2.matchTemplate(gray(picture), ink, cv2.TM_CCOEFF_NORMED).max()) > 0.9


# --- the bar -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 640, 1280])
@pytest.mark.parametrize("progress", [0.0, 0.004, 0.1, 0.333, 0.5, 0.75, 0.999, 1.0])
def test_the_bar_is_as_long_as_progress_to_a_pixel(progress: float, width: int) -> None:
    bar = Layout.of(width, 360, 640).bar
    picture = draw_overlay(running(progress=progress, mp=progress), GREY_PICTURE, width)
    row = picture[(bar.y0 + bar.y1) // 2, bar.x0 : bar.x1]
    filled = np.all(row == symbols.SKY, axis=1)
    assert abs(int(filled.sum()) - progress * bar.width) <= 1
    assert not np.any(np.diff(filled.astype(int)) > 0), "one piece, from the left"


def test_what_was_lost_is_hatched_up_to_the_best() -> None:
    bar = Layout.of(640, 360, 640).bar
    picture = gray(draw_overlay(running(progress=0.3, mp=0.7), GREY_PICTURE))
    row = picture[bar.y0 + 4, bar.x0 : bar.x1].astype(int)
    lost = row[bar.at(0.3) - bar.x0 : bar.at(0.7) - bar.x0]
    assert np.count_nonzero(np.abs(np.diff(lost)) > 60) > 20, "stripes, seen in greyscale"
    assert np.all(row[bar.at(0.7) - bar.x0 + 2 :] < 60)


def test_milestones_change_where_they_are_reached() -> None:
    bar = Layout.of(640, 360, 640).bar
    none, two = (draw_overlay(running(progress=0.1, mp=mp), GREY_PICTURE) for mp in (0.1, 0.5))
    ticks = [(slice(bar.y0 - 5, bar.y0 - 3), bar.at(milestone)) for milestone in MILESTONES]
    changed = [bool(np.any(none[tick] != two[tick])) for tick in ticks]
    assert changed == [True, True, False]


def test_the_curve_is_where_its_values_are() -> None:
    plot = Layout.of(640, 360, 640).plot
    view = running(curve=((0.0, 0.0), (10.0, 1.0)), elapsed_s=20.0)
    blue = np.all(np.abs(draw_overlay(view, GREY_PICTURE).astype(int) - symbols.SKY) < 30, axis=2)
    rows, columns = np.nonzero(blue[plot.y0 : plot.y1, plot.x0 : plot.x1])
    assert abs(columns.max() - plot.width / 2) < 8 and columns.min() <= 2
    at_quarter = rows[np.abs(columns - plot.width / 4) <= 1].mean()
    assert abs(at_quarter - plot.height / 2) < 3


# --- words and symbols -------------------------------------------------------------------------------------------


def test_the_words_are_there() -> None:
    event = alarm(EventKind.CAMERA_LOST, Severity.ERROR, "no frame for 1.0 s", "wrist")
    view = live(task="put the red cube on the green cube", alarms=[event]).view([Age("estimate", 0.3)])
    picture = draw_overlay(view, GREY_PICTURE)
    for text, size, bold in (
        ("RUNNING", 20, True),
        ("47 %", 30, True),
        ("put the red cube on the green cube", 14, False),
        ("best (MP) 66 %", 15, False),
        ("drawdown 19 %", 15, False),
        ("data 0.3 s old", 14, False),
        ("smoothness", 13, False),
        ("-3.1", 15, False),
        ("NO CAMERA PICTURE (wrist): no frame for 1.0 s", 15, False),
    ):
        assert shows(picture, text, size, bold), text
    assert not shows(picture, "ENDED", 20, bold=True), "the measure can say no"


def test_what_is_not_known_is_not_drawn() -> None:
    picture = draw_overlay(ViewState(), None)
    assert picture.shape == (360, 640, 3)
    assert shows(picture, "NO MONITOR", 20, bold=True) and shows(picture, "no camera picture", 16)
    assert not np.any(np.all(picture == symbols.SKY, axis=2))


def test_old_data_are_said_to_be_old() -> None:
    fresh = draw_overlay(running(ages=(Age("estimate", 0.2),)), GREY_PICTURE)
    old = draw_overlay(running(ages=(Age("estimate", 5.3), Age("camera picture", 0.1))), GREY_PICTURE)
    assert shows(fresh, "data 0.2 s old", 14)
    assert shows(old, "DATA 5.3 S OLD", 14, bold=True) and shows(old, "NO NEW ESTIMATE for 5.3 s", 15)


def test_states_are_told_apart_without_colour() -> None:
    views = [
        *(ViewState(state=state) for state in (None, *EpisodeState)),
        *(
            ViewState(state=EpisodeState.ENDED, outcome=outcome)
            for outcome in Outcome
            if outcome is not Outcome.UNDECIDED
        ),
    ]
    badges = [gray(draw_overlay(view, GREY_PICTURE))[4:25, 9:30] > 90 for view in views]
    for (i, one), (j, other) in itertools.combinations(enumerate(badges), 2):
        assert np.count_nonzero(one != other) > 0.12 * one.size, (views[i], views[j])


@pytest.mark.parametrize("names", [("circle", "triangle", "octagon"), ("up", "down", "flat")])
def test_alarms_and_directions_are_told_apart_without_colour(names: tuple[symbols.Symbol, ...]) -> None:
    drawn = []
    for name in names:
        canvas = np.zeros((17, 17, 3), np.uint8)
        symbols.draw_symbol(canvas, name, 0, 0, 17, symbols.WHITE)
        drawn.append(gray(canvas) > 90)
    for one, other in itertools.combinations(drawn, 2):
        assert np.count_nonzero(one != other) > 0.12 * one.size


def test_the_direction_stands_beside_the_figure() -> None:
    pictures = [draw_overlay(running(direction=direction), GREY_PICTURE) for direction in Direction]
    assert len({picture.tobytes() for picture in pictures}) == len(Direction)


def test_an_error_frames_the_picture_with_stripes() -> None:
    calm, alarmed = (gray(draw_overlay(running(error=error), GREY_PICTURE)).astype(int) for error in (False, True))
    for edge in (alarmed[1, :], alarmed[-2, :], alarmed[:, 1], alarmed[:, -2]):
        assert np.count_nonzero(np.abs(np.diff(edge)) > 60) >= 20
    assert np.array_equal(calm[120:200, 100:500], alarmed[120:200, 100:500])


def luminance(colour: tuple[float, float, float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (value / 255 for value in colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def test_contrast_is_that_of_wcag_aa_over_the_brightest_picture() -> None:
    shade = 255 * PANEL_SHADE
    panel = (shade, shade, shade)
    measured = draw_overlay(running(), WHITE_PICTURE)[8, 300]
    assert np.all(measured == round(shade))
    for text in (symbols.WHITE, symbols.GREY, symbols.YELLOW):
        assert contrast(text, panel) >= 4.5
    for graphic in (symbols.SKY, symbols.GREEN, symbols.ORANGE, symbols.RED):
        assert contrast(graphic, panel) >= 3.0


def test_more_alarms_than_fit_are_counted_and_the_worst_comes_first() -> None:
    events = [alarm(EventKind.STALL, Severity.WARN, f"number {index}", number=index) for index in range(5)]
    events.append(alarm(EventKind.MODEL_LOST, Severity.ERROR, "gone", number=9))
    picture = draw_overlay(live(alarms=events).view(), GREY_PICTURE)
    head = Layout.of(640, 360, 640).alarms.y0
    assert shows(picture[head : head + 26], "NO ESTIMATES: gone", 15)
    assert shows(picture, "(+3 more)", 15)


# --- what comes from outside -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_harms_nothing(text: str) -> None:
    event = alarm(EventKind.STALL, Severity.WARN, text, text)
    plain = draw_overlay(live(alarms=[alarm(EventKind.STALL, Severity.WARN, "", "")]).view(), GREY_PICTURE)
    picture = draw_overlay(live(task=text, alarms=[event]).view(), GREY_PICTURE)
    layout = Layout.of(640, 360, 640)
    assert np.array_equal(picture[layout.foot.y0 :], plain[layout.foot.y0 :]), "it stays in its lines"
    assert np.array_equal(
        picture[layout.alarms.y0 + 25 : layout.foot.y0], plain[layout.alarms.y0 + 25 : layout.foot.y0]
    )


def test_a_long_text_is_cut_to_its_room() -> None:
    assert text_width(fitted("x" * 300, 14, 100), 14) <= 100
    assert fitted("short", 14, 100) == "short"
    assert fitted("wide", 14, 3) == "..."


@pytest.mark.parametrize("shape", [(480, 640), (1080, 1920), (90, 2000), (2000, 90), (1, 1), (375, 501)])
def test_any_camera_gives_a_picture_of_the_asked_width(shape: tuple[int, int]) -> None:
    source = np.full((*shape, 3), 110, np.uint8)
    before = source.copy()
    picture = draw_overlay(running(), source, 640)
    assert picture.shape[1:] == (640, 3) and 256 <= picture.shape[0] <= 640
    assert picture.dtype == np.uint8 and picture.flags.c_contiguous
    assert np.array_equal(source, before), "what came in is not drawn on"
    assert np.array_equal(picture, draw_overlay(running(), source, 640)), "the same view gives the same picture"


@pytest.mark.parametrize("wrong", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)])
def test_what_is_no_picture_is_refused(wrong: np.ndarray) -> None:
    with pytest.raises(InputError, match="expected \\(rows, columns, 3\\)"):
        draw_overlay(running(), wrong)
