"""The site over many episodes: leaderboard, portraits, failure positions, simulation against real, explorer.

`tags` says who acted where, `attempts` reads, `figures` and `transfer` compute, `pages` and `radar` draw, `chunks`
writes the explorer's data, `building` puts it together.
"""

from rollout_monitor.report.site.building import Built, build

__all__ = ["Built", "build"]
