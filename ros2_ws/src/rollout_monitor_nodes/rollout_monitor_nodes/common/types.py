"""Message and service classes by their ROS names, so that topics can be declared without importing ROS."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from rollout_monitor.errors import InputError


@cache
def import_type(name: str) -> Any:
    """The class of an interface such as ``sensor_msgs/msg/Image``.

    Raises:
        InputError: not such a name, or its package is not installed here.
    """
    package, _, rest = name.partition("/")
    kind, _, interface = rest.partition("/")
    try:
        return getattr(importlib.import_module(f"{package}.{kind}"), interface)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InputError(f"message type {name!r} is not installed here ({error})") from error


def is_installed(name: str) -> bool:
    """Whether an interface can be used here."""
    try:
        import_type(name)
    except InputError:
        return False
    return True


def begins_with_header(name: str) -> bool:
    """Whether the first field of a message type is a std_msgs/Header, so that its stamp has a fixed place."""
    fields = list(import_type(name).get_fields_and_field_types().values())
    return bool(fields) and fields[0] == "std_msgs/Header"
