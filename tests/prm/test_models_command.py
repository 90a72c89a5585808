"""`rollout-monitor models`: cards, files and hashes; a damaged model is an error, not a crash."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from rollout_monitor.cli import models
from rollout_monitor.prm.files import MODELS_VARIABLE, sha256_of


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    models.register(app)
    return app


def test_it_lists_cards_and_hashes(app: typer.Typer, root: Path) -> None:
    result = CliRunner().invoke(app, ["models", "--json"])
    assert result.exit_code == 0
    rows = {row["model"]: row for row in json.loads(result.output)}
    assert {"embedded", "recorded"} <= set(rows)
    folder = root / "models" / "embedded"
    assert rows["embedded"]["files"] == {p.name: sha256_of(p) for p in sorted(folder.glob("*.onnx"))}
    assert rows["embedded"]["card"]["rate_hz"] == 5.0
    printed = CliRunner().invoke(app, ["models"]).output
    assert "embedded-1" in printed and "recorded" in printed


def test_a_missing_file_is_told(app: typer.Typer, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(root / "models", tmp_path / "models")
    (tmp_path / "models" / "embedded" / "head.onnx").unlink()
    monkeypatch.setenv(MODELS_VARIABLE, str(tmp_path / "models"))
    result = CliRunner().invoke(app, ["models", "--json"])
    assert result.exit_code == 1
    assert "head.onnx is missing" in json.loads(result.output)[0]["error"]
