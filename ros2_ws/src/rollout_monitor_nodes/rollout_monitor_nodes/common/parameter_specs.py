"""Node parameters as flat lists made from pydantic settings: one description for declaring, checking and documenting.

A nested setting ``gate.rate_hz`` becomes the parameter of that name. An optional text is empty where it is absent.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rollout_monitor.errors import InputError

Kind = Literal["bool", "integer", "double", "string", "string array"]
Value: TypeAlias = "bool | int | float | str | list[str]"
M = TypeVar("M", bound=BaseModel)

_KINDS: dict[type, Kind] = {bool: "bool", int: "integer", float: "double", str: "string"}


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter: what it may be and what it is for."""

    name: str
    kind: Kind
    default: Value
    description: str
    low: float | None = None
    high: float | None = None
    low_excluded: bool = False
    high_excluded: bool = False
    choices: tuple[str, ...] = ()
    optional: bool = False

    @property
    def allowed(self) -> str:
        """The range or the choices in words; empty where everything of the type goes."""
        if self.choices:
            return ", ".join(self.choices)
        parts = []
        if self.low is not None:
            parts.append(f"{'>' if self.low_excluded else '>='} {self.low:g}")
        if self.high is not None:
            parts.append(f"{'<' if self.high_excluded else '<='} {self.high:g}")
        return " and ".join(parts)

    def check(self, value: object) -> Value:
        """The value as the parameter's type; a whole number does for a double.

        Raises:
            InputError: wrong type, out of range, or none of the choices: one line that names the parameter.
        """
        if self.kind == "double" and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not self._is_kind(value):
            raise InputError(f"parameter '{self.name}' is {_shown(value)}, but must be {self._expected()}")
        if isinstance(value, int | float) and not isinstance(value, bool) and not self._in_range(value):
            raise InputError(f"parameter '{self.name}' is {value:g}, but must be {self._expected()}")
        if self.choices and value not in self.choices:
            raise InputError(f"parameter '{self.name}' is {_shown(value)}, but must be {self._expected()}")
        return list(value) if isinstance(value, list | tuple) else value  # type: ignore[return-value]

    def _is_kind(self, value: object) -> bool:
        if self.kind == "string array":
            return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        wanted = {"bool": bool, "integer": int, "double": float, "string": str}[self.kind]
        return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))

    def _in_range(self, value: float) -> bool:
        if math.isnan(value) or math.isinf(value):
            return False
        low_fits = self.low is None or (value > self.low if self.low_excluded else value >= self.low)
        high_fits = self.high is None or (value < self.high if self.high_excluded else value <= self.high)
        return low_fits and high_fits

    def _expected(self) -> str:
        article = "an" if self.kind == "integer" else "a"
        allowed = f" {'of' if self.choices else 'with value'} {self.allowed}" if self.allowed else ""
        return f"{article} {self.kind}{allowed} ({self.description}; default {_shown(self.default)})"


def specs(model: type[BaseModel] | BaseModel, prefix: str = "") -> list[ParameterSpec]:
    """All parameters of a settings class, or of an instance whose values become the defaults.

    Names in the class's ``UNEXPOSED`` are left out: they follow from others.

    Raises:
        TypeError: a field of a type that no ROS parameter can hold.
    """
    defaults = model if isinstance(model, BaseModel) else model()
    hidden: frozenset[str] = getattr(model, "UNEXPOSED", frozenset())
    return [spec for spec in _walk(defaults, prefix) if spec.name not in hidden]


def _walk(settings: BaseModel, prefix: str) -> Iterator[ParameterSpec]:
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from _walk(value, f"{prefix}{name}.")
        else:
            yield _leaf(prefix + name, field, value)


def _leaf(name: str, field: FieldInfo, default: Any) -> ParameterSpec:
    annotation, optional = _without_none(field.annotation)
    choices: tuple[str, ...] = ()
    if get_origin(annotation) is Literal:
        choices = tuple(str(choice) for choice in get_args(annotation))
        kind: Kind = "string"
    elif get_origin(annotation) in (tuple, list):
        kind = "string array"
    elif annotation in _KINDS:
        kind = _KINDS[annotation]
    else:
        raise TypeError(f"setting {name} of type {field.annotation} cannot be a ROS parameter")
    if optional and kind != "string":
        raise TypeError(f"setting {name}: only a text can be absent in a ROS parameter")
    value = "" if default is None else list(default) if isinstance(default, tuple) else default
    low, low_excluded = _bound(field, "ge", "gt")
    high, high_excluded = _bound(field, "le", "lt")
    return ParameterSpec(
        name=name,
        kind=kind,
        default=value,
        description=field.description or "",
        low=low,
        high=high,
        low_excluded=low_excluded,
        high_excluded=high_excluded,
        choices=choices,
        optional=optional,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) is Annotated:
        return _without_none(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        if len(rest) == 1:
            return _without_none(rest[0])[0], True
    return annotation, False


def _bound(field: FieldInfo, closed: str, opened: str) -> tuple[float | None, bool]:
    """The bound that pydantic keeps under one of two names (annotated_types), and whether it is excluded itself."""
    for item in field.metadata:
        for name in (closed, opened):
            if hasattr(item, name):
                return float(getattr(item, name)), name == opened
    return None, False


def build(model: type[M], values: Mapping[str, object]) -> M:
    """Settings from flat, checked values.

    Raises:
        InputError: values that do not go together; one line that names the parameters.
    """
    tree: dict[str, Any] = {}
    known = {spec.name: spec for spec in specs(model)}
    for name, value in values.items():
        spec = known[name]
        *groups, leaf = name.split(".")
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
        place[leaf] = None if spec.optional and value == "" else value
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise InputError(_one_line(error)) from error


def _one_line(error: ValidationError) -> str:
    """All findings of a validation in one line; a place in a list is written as ``cameras[1]``."""
    lines = []
    for finding in error.errors():
        place = ""
        for part in finding["loc"]:
            place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
        message = finding["msg"].removeprefix("Value error, ")
        group = "parameter" if place else "parameters"
        lines.append(f"{group} '{place}': {message}" if place else f"{group}: {message}")
    return "; ".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    return f"'{value}'" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else f"{value}"
