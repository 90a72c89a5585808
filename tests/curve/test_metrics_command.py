"""`rollout-monitor metrics`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rollout_monitor.cli import metrics
from rollout_monitor.curve import OpdSettings, compute, prefixes, smooth_final
from rollout_monitor.errors import InputError

CURVE = [0.0, 0.2, 0.5, 0.4, 0.4, 0.7, 0.3, 0.6, 1.0]


def run(*arguments: str) -> str:
    app = typer.Typer()
    metrics.register(app)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def curve(tmp_path: Path) -> str:
    path = tmp_path / "curve.json"
    path.write_text(json.dumps(CURVE))
    return str(path)


@pytest.mark.parametrize("convention", ["paper", "toolkit", "toolkit-1.0"])
def test_json_is_the_record(curve: str, convention: str) -> None:
    settings = OpdSettings.for_convention(convention)
    assert json.loads(run(curve, "--convention", convention, "--json")) == compute(CURVE, settings).model_dump(
        mode="json"
    )
    every = json.loads(run(curve, "--convention", convention, "--json", "--prefixes"))
    assert every == [one.model_dump(mode="json") for one in prefixes(CURVE, settings)]


def test_label_and_eps(curve: str) -> None:
    assert json.loads(run(curve, "--label", "failure", "--json"))["fns"] == pytest.approx(1.0)
    assert json.loads(run(curve, "--eps", "0.15", "--json"))["str"] == pytest.approx(2 / 8)


def test_a_label_on_the_command_line_overrules_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"progress": CURVE, "label": "failure"}))
    assert json.loads(run(str(path), "--json"))["success"] is False
    assert json.loads(run(str(path), "--json", "--label", "success"))["success"] is True


def test_smoothing_is_off_unless_asked_for_and_needs_time(curve: str) -> None:
    smoothed = json.loads(run(curve, "--smooth", "--convention", "toolkit", "--json"))
    settings = OpdSettings.for_convention("toolkit")
    assert smoothed == compute(smooth_final(CURVE, None, settings), settings).model_dump(mode="json")
    with pytest.raises(InputError, match="--rate"):
        run(curve, "--smooth")
    assert json.loads(run(curve, "--smooth", "--rate", "5", "--json"))["tv"] < 2.0


def test_tables_say_absent_and_toolkit_1_0_prints_percent(curve: str) -> None:
    paper = run(curve)
    assert "0.7017" in paper
    assert "absent" in paper
    old = run(curve, "--convention", "toolkit-1.0")
    assert "times 100" in old.replace("\n", " ")
    assert "50.00" in old
    assert run(curve, "--prefixes").count("absent") > 0


def test_bad_input_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("p\n0.5\n1.2\n")
    with pytest.raises(InputError, match="sample 1"):
        run(str(path))
    assert json.loads(run(str(path), "--clip", "--json"))["mp"] == 1.0
