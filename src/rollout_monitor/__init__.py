"""rollout-monitor: knows, live, how a robot's attempt is going."""

from __future__ import annotations

__version__ = "0.1.0"
