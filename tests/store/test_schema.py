"""The schemas in docs/schema are those of the records, and the records' JSON fits them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from report_examples import failure_report, interrupted_report, success_report

from rollout_monitor.records import EpisodeReport
from rollout_monitor.store import schema


def test_docs_are_in_step(root: Path) -> None:
    assert schema.differences(root / "docs" / "schema") == []


@pytest.mark.parametrize("make", [success_report, failure_report, interrupted_report])
def test_reports_fit_the_schema(root: Path, make: object) -> None:
    report = make()  # type: ignore[operator]
    text = report.model_dump_json()
    wanted = json.loads((root / "docs" / "schema" / "EpisodeReport.schema.json").read_text())
    jsonschema.Draft202012Validator(wanted).validate(json.loads(text))
    assert EpisodeReport.model_validate_json(text) == report


def test_schema_refuses_what_the_record_refuses(root: Path) -> None:
    wanted = json.loads((root / "docs" / "schema" / "EpisodeReport.schema.json").read_text())
    broken = json.loads(success_report().model_dump_json())
    broken["curve"][0]["raw"] = 1.5
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(wanted).validate(broken)


def test_check_tells_every_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "schema")
    assert schema.main(["--check", "--folder", folder]) == 1
    assert "EpisodeReport.schema.json is missing" in capsys.readouterr().err
    assert schema.main(["--write", "--folder", folder]) == 0
    assert schema.main(["--check", "--folder", folder]) == 0
    (tmp_path / "schema" / "Event.schema.json").write_text("{}")
    (tmp_path / "schema" / "Old.schema.json").write_text("{}")
    assert schema.main(["--check", "--folder", folder]) == 1
    told = capsys.readouterr().err
    assert "Event.schema.json differs" in told
    assert "Old.schema.json belongs to no record" in told
    assert schema.main(["--write", "--folder", folder]) == 0
    assert not (tmp_path / "schema" / "Old.schema.json").exists()
