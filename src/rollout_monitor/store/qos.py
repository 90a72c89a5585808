"""Offered QoS profiles as rosbag2 writes them, every metadata version brought to version 9's words."""

from __future__ import annotations

from typing import Any

import yaml

from rollout_monitor.errors import InputError

INFINITE = {"sec": 9223372036, "nsec": 854775807}
"""RMW_DURATION_INFINITE, the "no limit" of deadline, lifespan and lease."""

# rmw/types.h: the numbers that metadata before version 9 holds
_WORDS = {
    "history": ("system_default", "keep_last", "keep_all", "unknown"),
    "reliability": ("system_default", "reliable", "best_effort", "unknown", "best_available"),
    "durability": ("system_default", "transient_local", "volatile", "unknown", "best_available"),
    "liveliness": ("system_default", "automatic", "manual_by_node", "manual_by_topic", "unknown", "best_available"),
}
_DURATIONS = ("deadline", "lifespan", "liveliness_lease_duration")


def qos_yaml(*, reliability: str = "reliable", durability: str = "volatile", depth: int = 10) -> str:
    """One keep-last profile as the YAML that :meth:`EpisodeRecording.add_topic` takes."""
    profile = {"history": "keep_last", "depth": depth, "reliability": reliability, "durability": durability}
    return dump_qos(parse_qos(yaml.safe_dump([profile])))


def parse_qos(text: str) -> list[dict[str, Any]]:
    """Profiles with every field present and policies in words; an empty text is no profile.

    Raises:
        InputError: text that is no list of profiles, or a policy nobody knows.
    """
    try:
        profiles = yaml.safe_load(text) or []
    except yaml.YAMLError as error:
        raise InputError(f"QoS profiles are not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(profiles, list) or not all(isinstance(profile, dict) for profile in profiles):
        raise InputError(f"QoS profiles must be a list of mappings, got {text[:80]!r}")
    return [_complete(profile) for profile in profiles]


def dump_qos(profiles: list[dict[str, Any]]) -> str:
    """YAML of profiles in rosbag2's order of fields."""
    return yaml.safe_dump(profiles, sort_keys=False, default_flow_style=False) if profiles else "[]"


def _complete(profile: dict[str, Any]) -> dict[str, Any]:
    complete = {
        "history": _word("history", profile.get("history", "keep_last")),
        "depth": int(profile.get("depth", 0)),
        "reliability": _word("reliability", profile.get("reliability", "unknown")),
        "durability": _word("durability", profile.get("durability", "unknown")),
        "deadline": _duration(profile.get("deadline")),
        "lifespan": _duration(profile.get("lifespan")),
        "liveliness": _word("liveliness", profile.get("liveliness", "automatic")),
        "liveliness_lease_duration": _duration(profile.get("liveliness_lease_duration")),
        "avoid_ros_namespace_conventions": bool(profile.get("avoid_ros_namespace_conventions", False)),
    }
    if unknown := sorted(set(profile) - set(complete)):
        raise InputError(f"QoS profile has an unknown field {unknown[0]!r}")
    return complete


def _word(policy: str, value: Any) -> str:
    words = _WORDS[policy]
    if isinstance(value, int) and 0 <= value < len(words):
        return words[value]
    if isinstance(value, str) and value.lower() in words:
        return value.lower()
    raise InputError(f"QoS {policy} {value!r} is not known; known are {', '.join(words)}")


def _duration(value: Any) -> dict[str, int]:
    if value is None:
        return dict(INFINITE)
    try:
        return {"sec": int(value["sec"]), "nsec": int(value["nsec"])}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"QoS duration {value!r} must have sec and nsec") from error
