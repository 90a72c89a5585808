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
