"""Waits until subscribers are there before anything is played: what is published to nobody is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from rollout_monitor.errors import InputError

_POLL_S = 0.05


def parse_wanted(entries: Iterable[str], names: Mapping[str, str]) -> dict[str, int]:
    """Subscribers wanted per topic, from entries TOPIC or TOPIC=N; one on every topic without entries.

    Args:
        entries: topics as in the bag, or as they are published.
        names: published name by name in the bag.

    Raises:
        InputError: an entry that cannot be read, or a topic that is not played.
    """
    wanted: dict[str, int] = {}
    for entry in entries:
        name, equals, number = entry.partition("=")
        topic = next((topic for topic, published in names.items() if name.strip() in (topic, published)), None)
        if topic is None:
            raise InputError(f"parameter 'wait_for': {name} is not played; played are {', '.join(names.values())}")
        if equals and not number.strip().isdigit():
            raise InputError(f"parameter 'wait_for': {entry!r} should be TOPIC or TOPIC=N")
        wanted[topic] = int(number) if equals else 1
    return wanted or dict.fromkeys(names, 1)


class SubscriberWait:
    """Waits for subscribers on several topics, and until their number has stayed the same for a while."""

    def __init__(
        self,
        wanted: Mapping[str, int],
        count: Callable[[str], int],
        *,
        settle_s: float,
        timeout_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a wait; nothing happens before `run`.

        Args:
            wanted: number of subscribers by topic.
            count: how many a topic has now.
            settle_s: how long the numbers must have stayed the same.
            timeout_s: longest wait; 0 does not wait at all.
            clock_s: passing time.
        """
        self._wanted = dict(wanted)
        self._count = count
        self._settle_s = settle_s
        self._timeout_s = timeout_s
        self._clock_s = clock_s

    def run(self, stop: threading.Event) -> dict[str, tuple[int, int]]:
        """Wait; return what is missing after the time-out as (has, needs) by topic."""
        began_s = since_s = self._clock_s()
        counts: dict[str, int] = {}
        while True:
            now_s, before, counts = self._clock_s(), counts, {topic: self._count(topic) for topic in self._wanted}
            if counts != before:
                since_s = now_s
            missing = {topic: (has, self._wanted[topic]) for topic, has in counts.items() if has < self._wanted[topic]}
            if not missing and now_s - since_s >= self._settle_s:
                return {}
            if now_s - began_s >= self._timeout_s or stop.wait(_POLL_S):
                return missing
