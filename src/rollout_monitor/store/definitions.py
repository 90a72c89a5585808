"""Message definitions from the .msg files that a ROS installation or a built workspace ships."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rollout_monitor.errors import InputError
from rollout_monitor.store.messages import Definition, store_for

SEPARATOR = "=" * 80
_TYPE_NAME = re.compile(r"([A-Za-z][A-Za-z0-9_]*)/(msg|srv|action)/([A-Za-z][A-Za-z0-9_]*)")
_FIELD_TYPE = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_/]*)")
_CHAR_FIELD = re.compile(r"^\s*char(?=[\s\[])", re.MULTILINE)
_PRIMITIVES = frozenset(
    ["bool", "byte", "char", "float32", "float64", "string", "wstring"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def schema_text_from_share(type_name: str, search_paths: Sequence[Path | str]) -> str:
    """The ``ros2msg`` schema of a type: its .msg text followed by those of every type it uses, as rosbag2 writes it.

    Args:
        type_name: for instance ``sensor_msgs/msg/JointState``.
        search_paths: roots with ``share/<package>/msg/<Name>.msg`` below, the first that has a file wins
            (the entries of AMENT_PREFIX_PATH).

    Raises:
        InputError: not a message type, or a .msg file that none of the roots has.
    """
    texts = {type_name: _msg_text(type_name, search_paths)}
    waiting = [type_name]
    while waiting:
        current = waiting.pop(0)
        for used in _types_used(current, texts[current]):
            if used not in texts:
                texts[used] = _msg_text(used, search_paths)
                waiting.append(used)
    parts = [texts.pop(type_name)]
    for name, text in texts.items():
        package, _, short = _split(name)
        parts.append(f"{SEPARATOR}\nMSG: {package}/{short}\n{text}")
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def rihs01(type_name: str, schema_text: str) -> str:
    """REP-2016 hash of a type, ``RIHS01_`` and 64 hex digits, from its ``ros2msg`` schema.

    Raises:
        InputError: a definition that cannot be read.
    """
    # rosidl takes char for uint8, rosbags gives it a type of its own
    plain = _CHAR_FIELD.sub("uint8", schema_text)
    return store_for(type_name, Definition(plain)).hash_rihs01(type_name)


def _types_used(type_name: str, text: str) -> list[str]:
    """Types of the message's fields that are messages themselves, in order."""
    package = _split(type_name)[0]
    used = []
    for line in text.splitlines():
        found = _FIELD_TYPE.match(line.partition("#")[0])
        if found is None or found[1] in _PRIMITIVES:
            continue
        parts = found[1].split("/")
        owner = package if len(parts) == 1 else parts[0]
        used.append(f"{owner}/msg/{parts[-1]}")
    return used


def _msg_text(type_name: str, search_paths: Sequence[Path | str]) -> str:
    package, kind, short = _split(type_name)
    for root in search_paths:
        file = Path(root) / "share" / package / kind / f"{short}.msg"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    looked = ", ".join(str(root) for root in search_paths) or "no root at all"
    raise InputError(f"no {package}/{kind}/{short}.msg below share/ of {looked}: source the workspace that builds it")


def _split(type_name: str) -> tuple[str, str, str]:
    found = _TYPE_NAME.fullmatch(type_name)
    if found is None:
        raise InputError(f"{type_name!r} is no message type; expected package/msg/Name")
    return found[1], found[2], found[3]
