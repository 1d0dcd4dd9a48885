"""How many messages a server may send ahead, by the size of those that came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from redraft.events.rabbit.channel_consumer import LATEST, Prefetch

MOST_BYTES = 1_000_000


def test_more_is_sent_ahead_once_as_many_as_may_be_were_small():
    ahead = Prefetch(1024, MOST_BYTES)
    first = ahead.now
    assert [ahead.see(100) for _ in range(first - 1)] == [0] * (first - 1)
    assert ahead.see(100) == 1024


def test_as_many_are_sent_ahead_as_are_asked_for_though_they_are_hardly_more():
    ahead = Prefetch(20, MOST_BYTES)
    assert [ahead.see(10) for _ in range(16)] == [0] * 15 + [20]


def test_less_is_sent_ahead_as_soon_as_one_is_large_and_more_when_it_is_long_past():
    ahead = Prefetch(1024, MOST_BYTES)
    for _ in range(LATEST):
        ahead.see(100)
    assert ahead.see(250_000) == ahead.now == 4
    seen = 0
    while ahead.now == 4:
        ahead.see(100)
        seen += 1
        assert seen <= 2 * LATEST + 4
    assert seen >= LATEST


def test_at_least_one_is_sent_and_at_most_as_many_as_are_asked_for():
    ahead = Prefetch(8, MOST_BYTES)
    assert ahead.now == 8
    assert ahead.see(50 * MOST_BYTES) == 1
    assert Prefetch(4).now == 4


@given(st.integers(1, 5000), st.lists(st.integers(0, 3 * MOST_BYTES), max_size=200))
def test_if_all_were_as_large_as_the_largest_they_would_fit_twice_over_at_most(most: int, sizes: list[int]):
    ahead = Prefetch(most, MOST_BYTES)
    for size in sizes:
        ahead.see(size)
    assert 1 <= ahead.now <= most
    if sizes and ahead.now > 1:
        assert ahead.now * max(sizes) <= 2 * MOST_BYTES
