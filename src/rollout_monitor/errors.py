"""The errors a user can cause. Each message names what is wrong, where, and what to do about it."""

from __future__ import annotations


class RolloutMonitorError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(RolloutMonitorError, ValueError):
    """A value, file or message that cannot be used: the message names it, its place and the remedy."""


class ModelError(RolloutMonitorError):
    """A progress model that cannot be loaded or run: missing file, wrong hash, unknown name."""


class StoreError(RolloutMonitorError):
    """Something could not be kept or read back: names the path and what is still safe."""


def quoted(text: str, most: int = 60) -> str:
    """Text from outside as it may stand in a message: in quotes, escaped, and no longer than ``most`` characters."""
    return repr(text if len(text) <= most else f"{text[:most]}...")
