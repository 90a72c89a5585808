"""`python -m rollout_monitor` is the command line `rollout-monitor`."""

from __future__ import annotations

from rollout_monitor.cli.main import main

if __name__ == "__main__":
    main()
