"""`python -m rollout_monitor.train`: trains the embedded model; see `rollout_monitor.train.pipeline`."""

from __future__ import annotations

import sys

from rollout_monitor.train.pipeline import main

sys.exit(main())
