"""The Markdown twin: what the page says, and nothing from outside can be markup, a mention or a broken table."""

from __future__ import annotations

import re

import pytest
from report_examples import START_NS, failure_report, interrupted_report, success_report

from rollout_monitor.records import Label
from rollout_monitor.report.markdown import LONGEST, code, summary
from rollout_monitor.store.labels import LabelFact

HOSTILE = "@everyone <script>alert(1)</script> | ``` `x` \n# head\n[a](http://x) 🤖"


def test_says_what_the_page_says() -> None:
    text = summary(failure_report(), [LabelFact(episode_id="x", label=Label.SUCCESS, who="anna", stamp_ns=START_NS)])
    assert text.startswith("### ✕ Failure: `lift the blue cylinder and hold it above the tray`\n")
    for told in (
        "**Where it failed:** `it came no further than 64%",
        "| **MP** Maximum progress |",
        "- −0.28 from 64 % at +10.4 s; never made good completely: 10 % of it at best",
        "- +16.0 s: 15.0 s moving without effect, 6.0 s still, 1.0 s without joint states to tell",
        "- ERROR STALL +16.0 s until the end, noticed after 5.0 s `MOVING`: `No progress for 5 s",
        "- `wrist`: bad `2`",
        "- `operator` **failure** at its end",
        "- `anna` **success** (2026-",
        "numpy 2.2.6",
    ):
        assert told in text, told
    assert "▁" in text


def test_usual_ranges_have_their_column() -> None:
    row = next(line for line in summary(success_report()).splitlines() if line.startswith("| **PPL**"))
    assert "0.81 to 0.93 (n 12) **below**" in row
    assert "| usual |" not in summary(failure_report())


def test_absent_things_are_named() -> None:
    text = summary(interrupted_report())
    assert "there is no curve" in text
    assert "no camera and no joint states" in text


@pytest.mark.parametrize("text", [HOSTILE, "`", "a``b", "x" * 10_000, "\u202eabc", "\n"])
def test_texts_from_outside_stay_in_one_code_span(text: str) -> None:
    span = code(text)
    assert "\n" not in span
    assert len(span) < LONGEST + 60
    if span != "—":
        fence = re.match("`+", span)
        assert fence is not None
        inside = span[len(fence[0]) : -len(fence[0])]
        assert fence[0] not in re.findall("`+", inside), "nothing inside ends the span"
    assert re.sub(r"\\\|", "", span).count("|") == 0, "no column begins"


def test_hostile_report_keeps_its_shape() -> None:
    made = failure_report().model_copy(update={"task": HOSTILE, "notes": [HOSTILE], "joint_names": [HOSTILE] * 6})
    clean, hostile = summary(failure_report()).splitlines(), summary(made).splitlines()
    assert len(hostile) == len(clean) - 1, "one note instead of two, and no line more"
    assert not [line for line in hostile if line.startswith(("# ", "@"))]
