"""Declares a node's parameters from its settings and reads them back, checked; a wrong one is one clear line."""

from __future__ import annotations

import difflib
import math
import sys
from typing import TypeVar

from pydantic import BaseModel
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node

from rollout_monitor.errors import InputError
from rollout_monitor_nodes.common.parameter_specs import ParameterSpec, build, specs

M = TypeVar("M", bound=BaseModel)

_OWN_OF_ROS = ("use_sim_time", "start_type_description_service", "qos_overrides.")
_INTEGER_LIMIT = 2**63 - 1


def declare(node: Node, model: type[M]) -> M:
    """Declare every parameter of the settings and return the settings with the values that were given.

    All are read-only: what an episode is judged by does not change under it.

    Raises:
        InputError: a wrong type, range or combination, or a parameter that this node does not have.
    """
    known = specs(model)
    _refuse_unknown(node, {spec.name for spec in known})
    values = {spec.name: spec.check(_given(node, spec)) for spec in known}
    settings = build(model, values)
    for spec in known:
        node.declare_parameter(spec.name, values[spec.name], descriptor(spec), ignore_override=True)
    return settings


def descriptor(spec: ParameterSpec) -> ParameterDescriptor:
    """What ``ros2 param describe`` says about a parameter."""
    described = ParameterDescriptor(
        name=spec.name,
        description=spec.description,
        additional_constraints=f"one of {spec.allowed}" if spec.choices else spec.allowed,
        read_only=True,
    )
    if spec.low is None and spec.high is None:
        return described
    if spec.kind == "integer":
        low = -_INTEGER_LIMIT if spec.low is None else round(spec.low) + spec.low_excluded
        high = _INTEGER_LIMIT if spec.high is None else round(spec.high) - spec.high_excluded
        described.integer_range = [IntegerRange(from_value=low, to_value=high)]
    else:
        described.floating_point_range = [FloatingPointRange(from_value=_low(spec), to_value=_high(spec))]
    return described


def _low(spec: ParameterSpec) -> float:
    if spec.low is None:
        return -sys.float_info.max
    return math.nextafter(spec.low, math.inf) if spec.low_excluded else spec.low


def _high(spec: ParameterSpec) -> float:
    if spec.high is None:
        return sys.float_info.max
    return math.nextafter(spec.high, -math.inf) if spec.high_excluded else spec.high


def _given(node: Node, spec: ParameterSpec) -> object:
    """The value from the command line or a file, of whatever type it came in, else the default."""
    value = node.declare_parameter(spec.name, spec.default, ParameterDescriptor(dynamic_typing=True)).value
    node.undeclare_parameter(spec.name)
    return [] if value is None and spec.kind == "string array" else value  # ROS has no empty array without a type


def _refuse_unknown(node: Node, known: set[str]) -> None:
    # rclpy ignores a misspelt parameter silently, and a threshold would keep its default. It has no public list of
    # what was given; should this attribute go, only the check goes with it.
    given = getattr(node, "_parameter_overrides", {})
    for name in sorted(given):
        if name in known or name.startswith(_OWN_OF_ROS):
            continue
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise InputError(f"parameter '{name}' is not one of {node.get_name()}'s{hint}")
