"""Two streams in one order, whichever arrives first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rollout_monitor.episode.merge import StampMerger


@st.composite
def two_streams(draw: st.DrawFn) -> tuple[list[int], list[int], list[bool]]:
    first = sorted(draw(st.sets(st.integers(0, 500), max_size=30)))
    second = sorted(draw(st.sets(st.integers(0, 500), max_size=30)))
    order = draw(st.permutations([True] * len(first) + [False] * len(second)))
    return first, second, order


@given(two_streams())
def test_any_arrival_order_gives_the_one_order_of_stamps(streams: tuple[list[int], list[int], list[bool]]) -> None:
    first, second, order = streams
    merger: StampMerger[tuple[int, int]] = StampMerger(wait_ns=10_000)
    a, b, out = iter(first), iter(second), []
    for is_first in order:
        if is_first:
            stamp = next(a)
            out += merger.add_first(stamp, (stamp, 0))
        else:
            stamp = next(b)
            out += merger.add_second(stamp, (stamp, 1))
    out += merger.flush()
    assert out == sorted([(s, 0) for s in first] + [(s, 1) for s in second])


def test_waits_for_the_other_stream_only_so_long() -> None:
    merger: StampMerger[str] = StampMerger(wait_ns=10)
    assert merger.add_first(0, "a0") == []
    assert merger.add_first(5, "a5") == []
    assert merger.add_first(10, "a10") == ["a0", "a5", "a10"]
    assert merger.add_first(11, "a11") == ["a11"], "a stream that was given up is not waited for"
    assert merger.add_second(12, "b12") == []
    assert merger.add_first(13, "a13") == ["b12"], "and is waited for again once it is back"


def test_equal_stamps_put_the_first_stream_first() -> None:
    merger: StampMerger[str] = StampMerger(wait_ns=10)
    assert merger.add_second(3, "b") == []
    assert merger.add_first(3, "a") == ["a", "b"]
