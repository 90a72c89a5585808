"""Progress models by name: everything else asks `create` and knows no model class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rollout_monitor.errors import InputError, ModelError
from rollout_monitor.prm.files import DESCRIPTION
from rollout_monitor.prm.protocol import ProgressModel

Factory = Callable[..., ProgressModel]


def _embedded(path: Path | str | None = None, **options: Any) -> ProgressModel:
    """The embedded model, from the folder ``path`` where one is given."""
    from rollout_monitor.prm.embedded import EmbeddedModel  # noqa: PLC0415 - loads onnxruntime

    if path is None:
        return EmbeddedModel(**options)
    if not (Path(path) / DESCRIPTION).is_file():
        raise InputError(f"{path}: not the folder of an embedded model: no {DESCRIPTION} there")
    return EmbeddedModel(folder=path, **options)


def _recorded(**options: Any) -> ProgressModel:
    from rollout_monitor.prm.recorded import RecordedModel  # noqa: PLC0415

    return RecordedModel(**options)


_FACTORIES: dict[str, Factory] = {"embedded": _embedded, "recorded": _recorded}

DESCRIPTIONS: dict[str, str] = {
    "embedded": "small network trained on the simulated cell; CPU, no torch; option path=FOLDER",
    "recorded": "plays back a recorded curve; option path=FILE",
}
"""One line on each built-in model."""


def names() -> tuple[str, ...]:
    """Known model names, in order of registration."""
    return tuple(_FACTORIES)


def register(name: str, factory: Factory) -> None:
    """Add a model of your own under a new name.

    Raises:
        ModelError: the name is taken.
    """
    if name in _FACTORIES:
        raise ModelError(f"a progress model named {name!r} is registered already")
    _FACTORIES[name] = factory


def create(name: str, **options: Any) -> ProgressModel:
    """Make a progress model.

    Args:
        name: a registered name.
        options: the model's own options, for example ``threads`` or ``path``.

    Raises:
        ModelError: unknown name or option, or the model cannot be loaded.
        InputError: an option's value (a file, say) cannot be used.
    """
    if name not in _FACTORIES:
        raise ModelError(f"unknown progress model {name!r}; known models: {', '.join(_FACTORIES)}")
    try:
        return _FACTORIES[name](**options)
    except TypeError as error:
        raise ModelError(f"progress model {name!r} cannot be made with options {sorted(options)}: {error}") from error
