"""Where models lie and whether they are what they claim to be: ``model.json`` beside the files it describes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from rollout_monitor.errors import ModelError

MODELS_VARIABLE = "ROLLOUT_MONITOR_MODELS"
DESCRIPTION = "model.json"
_REMEDY = "restore it from the repository (git checkout -- models) or set ROLLOUT_MONITOR_MODELS"


def models_folder() -> Path:
    """The folder of the models: the environment variable ROLLOUT_MONITOR_MODELS, else the repository's ``models``.

    Raises:
        ModelError: neither is there.
    """
    given = os.environ.get(MODELS_VARIABLE)
    folder = Path(given) if given else Path(__file__).resolve().parents[3] / "models"
    if not folder.is_dir():
        why = f"{MODELS_VARIABLE} points to it" if given else "this is not an editable install of the repository"
        raise ModelError(f"models folder {folder} does not exist ({why}); set {MODELS_VARIABLE} to the models folder")
    return folder


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def hash_of_hashes(files: dict[str, str]) -> str:
    """One hash over a model's files: of the lines ``hash  name``, sorted by name."""
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def read_description(folder: Path) -> dict[str, Any]:
    """Read ``model.json`` and check every file it names.

    Raises:
        ModelError: a file is missing or its hash differs; the message names it.
    """
    path = folder / DESCRIPTION
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        files = dict(description["files"])
    except FileNotFoundError as error:
        raise ModelError(f"model file {path} is missing; {_REMEDY}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"model file {path} cannot be read ({error}); {_REMEDY}") from error
    for name, digest in files.items():
        _check(folder / name, str(digest))
    return dict(description)


def _check(path: Path, digest: str) -> None:
    if not path.is_file():
        raise ModelError(f"model file {path} is missing; {_REMEDY}")
    actual = sha256_of(path)
    if actual != digest:
        raise ModelError(f"model file {path} is damaged or not the one described (SHA-256 {actual}); {_REMEDY}")
