"""JSON Schemas of every record that leaves a process, kept in docs/schema.

``python -m rollout_monitor.store.schema --check`` fails where a file there is not what the records say;
``--write`` brings them up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rollout_monitor import records
from rollout_monitor.store.labels import LabelFact

EXPORTED: tuple[type[records.Record], ...] = (
    records.CameraHealth,
    records.EpisodeMarker,
    records.EpisodeReport,
    records.Event,
    records.KinematicSummary,
    records.MonitorStatus,
    records.ProgressEstimate,
    LabelFact,
)
DEFAULT_FOLDER = Path("docs/schema")


def schemas() -> dict[str, str]:
    """Text of each schema by file name, for the JSON as it is written (aliases, defaults included)."""
    texts = {}
    for record in EXPORTED:
        schema = record.model_json_schema(by_alias=True, mode="serialization")
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
        texts[f"{record.__name__}.schema.json"] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return texts


def differences(folder: Path) -> list[str]:
    """One line per schema file that is missing, differs, or belongs to no record."""
    wanted = schemas()
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.schema.json")}
    lines = [f"{folder / name} is missing" for name in wanted if name not in found]
    lines += [
        f"{folder / name} differs from the records" for name in wanted if found.get(name, wanted[name]) != wanted[name]
    ]
    return lines + [f"{folder / name} belongs to no record" for name in found if name not in wanted]


def write(folder: Path) -> None:
    """Write every schema; files of records that are gone are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = schemas()
    for path in folder.glob("*.schema.json"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="exit 1 where a file is out of step")
    action.add_argument("--write", action="store_true", help="bring the files up to date")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="default: %(default)s")
    options = parser.parse_args(arguments)
    if options.write:
        write(options.folder)
        return 0
    lines = differences(options.folder)
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        print("run: python -m rollout_monitor.store.schema --write", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
