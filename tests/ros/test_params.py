"""Parameters: declared from settings, checked, described, and refused in one clear line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
import rclpy
from domains import domain_of_our_own
from pydantic import Field, model_validator
from rclpy.node import Node
from rclpy.parameter import Parameter
from rollout_monitor_nodes import interfaces
from rollout_monitor_nodes.common.parameter_specs import specs
from rollout_monitor_nodes.common.params import declare

from rollout_monitor.errors import InputError
from rollout_monitor.events.settings import Settings


class Inner(Settings):
    rate_hz: float = Field(default=5.0, gt=0.0, le=240.0, description="frames per second")
    names: tuple[str, ...] = Field(default=("a",), min_length=1, description="names")


class Outer(Settings):
    inner: Inner = Inner()
    count: int = Field(default=3, ge=1, le=9, description="how many")
    way: Literal["up", "down"] = Field(default="up", description="which way")
    file: str | None = Field(default=None, description="a file, if any")
    on: bool = Field(default=True, description="whether")

    @model_validator(mode="after")
    def _together(self) -> Outer:
        if self.way == "down" and self.count > 5:
            raise ValueError("count must not exceed 5 on the way down")
        return self


@pytest.fixture(scope="module")
def context() -> Iterator[rclpy.Context]:
    context = rclpy.Context()
    with domain_of_our_own() as domain:
        rclpy.init(context=context, domain_id=domain)
        yield context
        rclpy.shutdown(context=context)


def declared(context: rclpy.Context, **given: Any) -> tuple[Outer, Node]:
    overrides = [Parameter(name.replace("__", "."), value=value) for name, value in given.items()]
    node = Node("tester", context=context, parameter_overrides=overrides)
    try:
        return declare(node, Outer), node
    finally:
        node.destroy_node()


def test_defaults_and_given_values_become_settings(context: rclpy.Context) -> None:
    assert declared(context)[0] == Outer()
    given, _ = declared(context, inner__rate_hz=10, inner__names=["x", "y"], way="down", file="f", on=False)
    assert given == Outer(inner=Inner(rate_hz=10.0, names=("x", "y")), way="down", file="f", on=False)
    assert type(given.inner.rate_hz) is float  # rclcpp issue 979: an integer is a fine double
    assert declared(context, file="")[0].file is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"inner__rate_hz": "fast"},
            "parameter 'inner.rate_hz' is 'fast', but must be a double with value > 0 and <= 240",
        ),
        ({"inner__rate_hz": 0.0}, "parameter 'inner.rate_hz' is 0, but must be"),
        ({"inner__rate_hz": float("nan")}, "parameter 'inner.rate_hz' is nan, but must be"),
        ({"inner__rate_hz": True}, "parameter 'inner.rate_hz' is true, but must be"),
        (
            {"count": 10},
            "parameter 'count' is 10, but must be an integer with value >= 1 and <= 9 (how many; default 3)",
        ),
        ({"count": 2.5}, "parameter 'count' is 2.5"),
        ({"on": 1}, "parameter 'on' is 1, but must be a bool"),
        ({"way": "left"}, "parameter 'way' is 'left', but must be a string of up, down"),
        ({"inner__names": [1, 2]}, "parameter 'inner.names' is [1, 2], but must be a string array"),
        ({"inner__names": []}, "'inner.names'"),
        ({"way": "down", "count": 6}, "count must not exceed 5 on the way down"),
        ({"inner__rate": 3.0}, "parameter 'inner.rate' is not one of tester's; did you mean 'inner.rate_hz'?"),
    ],
)
def test_a_wrong_one_is_one_line_that_names_it(context: rclpy.Context, given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        declared(context, **given)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_parameters_describe_themselves_and_cannot_be_changed(context: rclpy.Context) -> None:
    node = Node("tester", context=context)
    declare(node, Outer)
    described = node.describe_parameter("inner.rate_hz")
    assert described.description == "frames per second" and described.read_only
    assert 0.0 < described.floating_point_range[0].from_value < 1e-300
    assert described.floating_point_range[0].to_value == 240.0
    assert node.describe_parameter("way").additional_constraints == "one of up, down"
    assert not node.set_parameters([Parameter("count", value=4)])[0].successful
    node.destroy_node()


@pytest.mark.parametrize("interface", interfaces.NODES, ids=lambda one: one.name)
def test_every_parameter_of_every_node_says_what_it_is_for(
    context: rclpy.Context, interface: interfaces.NodeInterface
) -> None:
    found = specs(interface.settings)
    assert [spec.name for spec in found if len(spec.description) < 8] == []
    node = Node("tester", context=context)
    declare(node, interface.settings)
    assert {spec.name for spec in found} <= set(node._parameters)
    node.destroy_node()
