"""Reads standard ROS 2 parameter files and decides, in one place, which values a node gets.

ROS itself lets the order of the sections decide, over all files, so that a later file or a command-line value can lose
to an earlier one without a word. Here later files win over earlier ones, and later sections over earlier sections.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from rollout_monitor.episode.settings import GateSettings, MonitorSettings
from rollout_monitor.errors import InputError
from rollout_monitor.motion.settings import MotionSettings

ParameterValue: TypeAlias = "bool | int | float | str | list[bool] | list[int] | list[float] | list[str]"
M = TypeVar("M", bound=BaseModel)

_PARAMETERS = "ros__parameters"
_SCALARS = (bool, int, float, str)
_NOT_FROM_A_FILE = {"cameras", "rate_hz", "joints"}  # of the gate: they follow from the cameras in use and the model


@dataclass(frozen=True)
class Section:
    """The parameters below one node name (or pattern) of one file."""

    file: Path
    pattern: str
    values: Mapping[str, ParameterValue]

    @property
    def node(self) -> str:
        """The last part of the pattern: a node's name or a wildcard."""
        return self.pattern.rsplit("/", 1)[-1]

    def matches(self, node: str) -> bool:
        """Whether the section is for the node of this fully qualified name, by the rules of ROS 2."""
        parts = (
            {"**": r"(/\w+)*", "*": r"/\w+"}.get(part, re.escape(f"/{part}")) for part in self.pattern.split("/")[1:]
        )
        return re.fullmatch("".join(parts), node) is not None


def read_parameters(file: Path) -> list[Section]:
    """The sections of one parameter file, in its order.

    Raises:
        InputError: not readable, not YAML, a key twice, or not laid out as a ROS 2 parameter file.
    """
    tree = read_yaml(file)
    if not isinstance(tree, dict):
        raise InputError(f"{file}: is no ROS 2 parameter file; expected NODE: {_PARAMETERS}: NAME: VALUE")
    return list(_sections(file, "", tree))


def read_yaml(file: Path) -> Any:
    """The content of a YAML file.

    Raises:
        InputError: not readable, not YAML, or a key twice.
    """
    try:
        with file.open("rb") as stream:
            return yaml.load(stream, _StrictLoader)  # noqa: S506 - a SafeLoader that also refuses keys given twice
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{file}: {' '.join(str(error).split())}") from error


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.YAMLError(f"line {key_node.start_mark.line + 1}: '{key}' is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def _sections(file: Path, prefix: str, tree: Mapping[Any, Any]) -> Iterator[Section]:
    for key, content in tree.items():
        if key == _PARAMETERS:
            if not prefix:
                raise InputError(f"{file}: '{_PARAMETERS}' stands under no node name")
            values = dict(_flat(file, prefix, "", content or {}))
            yield Section(file, prefix, values)
            continue
        if not isinstance(key, str) or not isinstance(content, dict):
            raise InputError(f"{file}: '{key}' is no section; expected NODE: {_PARAMETERS}: NAME: VALUE")
        yield from _sections(file, f"{prefix}/{key.strip('/')}", content)


def _flat(file: Path, section: str, prefix: str, tree: Any) -> Iterator[tuple[str, ParameterValue]]:
    if not isinstance(tree, dict):
        raise InputError(f"{file}: {section.removeprefix('/')}: '{_PARAMETERS}' must hold NAME: VALUE")
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(file, section, f"{name}.", value)
        elif _is_parameter(value):
            yield name, value
        else:
            raise InputError(
                f"{file}: parameter '{name}' is {value!r}; a parameter is a bool, an integer, a number, a text "
                "or a list of one of them"
            )


def _is_parameter(value: object) -> bool:
    if isinstance(value, list):
        return all(type(item) is type(value[0]) and isinstance(item, _SCALARS) for item in value)
    return isinstance(value, _SCALARS)


def resolve(sections: Iterable[Section], node: str) -> dict[str, ParameterValue]:
    """The parameters that the node of this fully qualified name gets; the last one given wins."""
    values: dict[str, ParameterValue] = {}
    for section in sections:
        if section.matches(node):
            values.update(section.values)
    return values


def refuse_unmatched(sections: Iterable[Section], nodes: Sequence[str]) -> None:
    """Complain about a section that names one of these nodes but misses its namespace: it would be ignored silently.

    Raises:
        InputError: names the file and the section, and how to write it.
    """
    for section in sections:
        same = [node for node in nodes if node.rsplit("/", 1)[-1] == section.node]
        if same and not any(section.matches(node) for node in same):
            raise InputError(
                f"{section.file}: section '{section.pattern}' does not match the node {same[0]}: "
                f"write '/**/{section.node}' for any namespace"
            )


class EngineSettings(BaseModel):
    """The part of the parameters that the core understands."""

    model_config = ConfigDict(frozen=True)

    gate: GateSettings = GateSettings()
    monitor: MonitorSettings = MonitorSettings()


def load_settings(file: Path | None = None, namespace: str = "") -> EngineSettings:
    """The engine's settings out of a parameter file, as the live nodes would get them.

    Args:
        file: ROS 2 parameter file with sections for prm_node and monitor_node; None takes the documented defaults.
        namespace: of the nodes, empty or with a leading slash.

    Raises:
        InputError: a value that does not fit; one line that names the file and the parameter.
    """
    return EngineSettings() if file is None else engine_settings([file], namespace)


def engine_settings(files: Sequence[Path], namespace: str = "") -> EngineSettings:
    """The engine's settings out of several parameter files, the last one given winning.

    Raises:
        InputError: see `load_settings`.
    """
    sections = [section for file in files for section in read_parameters(file)]
    prm_node, monitor_node = f"{namespace}/prm_node", f"{namespace}/monitor_node"
    refuse_unmatched(sections, [prm_node, monitor_node])
    return check_engine(resolve(sections, prm_node), resolve(sections, monitor_node), ", ".join(map(str, files)))


def check_engine(
    prm: Mapping[str, ParameterValue], monitor: Mapping[str, ParameterValue], where: str
) -> EngineSettings:
    """The engine's settings from the resolved parameters of both nodes.

    Args:
        prm: parameters of prm_node, by dotted name.
        monitor: parameters of monitor_node, by dotted name.
        where: the files they are from, for messages.

    Raises:
        InputError: a value that does not fit, or motion settings that differ between the two nodes.
    """
    gate, motion = _group(prm, "gate."), _group(prm, "motion.")
    for name in sorted(_NOT_FROM_A_FILE & gate.keys()):
        raise InputError(
            f"{where}: 'gate.{name}' is no parameter of prm_node: it follows from the cameras or the model"
        )
    settings = _build(MotionSettings, motion, f"{where}: prm_node", "motion.")
    fallback = _build(MotionSettings, _group(monitor, "motion."), f"{where}: monitor_node", "motion.")
    for name in MotionSettings.model_fields:
        ours, theirs = getattr(settings, name), getattr(fallback, name)
        if ours != theirs:
            raise InputError(
                f"{where}: 'motion.{name}' is {_shown(ours)} for prm_node and {_shown(theirs)} for monitor_node: "
                "both judge the same joints and must agree"
            )
    own = {name: value for name, value in monitor.items() if name.split(".")[0] in MonitorSettings.model_fields}
    return EngineSettings(
        gate=_build(GateSettings, gate, f"{where}: prm_node", "gate."),
        monitor=_build(MonitorSettings, own, f"{where}: monitor_node", ""),
    )


def _shown(value: object) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else f"{value}"


def _group(values: Mapping[str, ParameterValue], prefix: str) -> dict[str, ParameterValue]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _build(model: type[M], values: Mapping[str, ParameterValue], where: str, prefix: str) -> M:
    """Settings from dotted names, without the conversions that a live node would refuse (a text for a number)."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *groups, leaf = name.split(".")
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
            if not isinstance(place, dict):
                raise InputError(f"{where} parameter '{prefix}{name}': '{group}' is given a value of its own as well")
        place[leaf] = tuple(value) if isinstance(value, list) else _absent_if_empty(model, name, value)
    try:
        return model.model_validate(tree, strict=True)
    except ValidationError as error:
        finding = error.errors()[0]
        name = prefix + ".".join(str(part) for part in finding["loc"])
        message = finding["msg"].removeprefix("Value error, ")
        given = "" if isinstance(finding["input"], dict) else f" (it is {finding['input']!r})"
        raise InputError(f"{where} parameter '{name}': {message}{given}") from error


def _absent_if_empty(model: type[BaseModel], name: str, value: ParameterValue) -> ParameterValue | None:
    """ROS has no absent text: an empty one stands for None where the setting is optional."""
    field = model.model_fields.get(name)
    optional = field is not None and type(None) in getattr(field.annotation, "__args__", ())
    return None if optional and value == "" else value
