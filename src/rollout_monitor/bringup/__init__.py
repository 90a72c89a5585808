"""What runs and with which parameters: read from ``config/``, started by ``rollout-monitor up`` or by a launch file."""

from __future__ import annotations
