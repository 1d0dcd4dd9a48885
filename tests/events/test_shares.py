"""How coordinators divide the partitions of the inbox by leases, on every database that keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from redraft.events.backends import open_shares
from redraft.events.errors import InputError, StoreError
from redraft.events.postgres.connection import Database
from redraft.events.postgres.tables import PostgresTables
from redraft.events.shares import CREATE, LASTS, Shares
from redraft.events.small_tables import Tables
from redraft.events.sqlite.file import Identity
from redraft.events.sqlite.tables import SqliteTables
from redraft.events.subscriptions.subscriptions import Execute

At: TypeAlias = Callable[[float], Shares]
"""Gives the shares as they are at a time of the database's clock, on a connection of their own."""


@pytest.fixture(params=["sqlite", "postgres"])
async def at(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[At]:
    def tables() -> Tables:
        if request.param == "postgres":
            return PostgresTables(Database(request.getfixturevalue("postgres_url")), CREATE)
        return SqliteTables(tmp_path / "shares.db", "shares", Identity(0x52645368, 1), CREATE)

    opened: list[Shares] = []

    def at_time(seconds: float) -> Shares:
        opened.append(Shares(tables(), repr(seconds)))
        return opened[-1]

    async with AsyncExitStack() as stack, asyncio.timeout(60):
        stack.push_async_callback(lambda: asyncio.gather(*(each.__aexit__() for each in opened)))
        yield at_time


async def test_one_coordinator_holds_all_and_a_second_gets_half_once_it_is_given_up(at: At) -> None:
    shares = at(0.0)
    alone = await shares.take_turn("a", (), 8)
    assert (alone.held, alone.surplus) == (tuple(range(8)), ())
    assert (await shares.take_turn("b", (), 8)).held == ()
    told = await shares.take_turn("a", alone.held, 8)
    assert (told.held, told.surplus) == (alone.held, (4, 5, 6, 7))
    assert (await shares.take_turn("b", (), 8)).held == ()  # they are read until what is in flight is settled
    await shares.take_turn("a", (0, 1, 2, 3), 8)
    assert (await shares.take_turn("b", (), 8)).held == (4, 5, 6, 7)
    assert [each.holder for each in await shares.all()] == ["a"] * 4 + ["b"] * 4


async def test_each_partition_is_told_with_the_first_of_those_that_its_holder_keeps(at: At) -> None:
    shares = at(0.0)
    assert (await shares.take_turn("a", (), 6)).joint == (0, 0, 0, 0, 0, 0)
    assert (await shares.take_turn("b", (), 6)).joint == (0, 0, 0, 3, 4, 5)  # those that are to be given up are apart
    assert (await shares.take_turn("a", (0, 1, 2), 6)).joint == (0, 0, 0, 3, 4, 5)
    assert (await shares.take_turn("b", (), 6)).joint == (0, 0, 0, 3, 3, 3)
    assert (await at(LASTS + 0.1).take_turn("c", (), 8)).joint == (0,) * 8


async def test_the_share_of_a_dead_one_is_taken_once_its_leases_have_expired(at: At) -> None:
    await at(0.0).take_turn("dead", (), 4)
    assert (await at(LASTS - 0.1).take_turn("b", (), 4)).held == ()
    assert (await at(LASTS).take_turn("b", (), 4)).held == (0, 1, 2, 3)
    assert (await at(LASTS).take_turn("dead", (0, 1, 2, 3), 4)).held == ()  # it went on, and learns that it lost them


async def test_who_leaves_hands_over_at_once(at: At) -> None:
    shares = at(0.0)
    await shares.take_turn("a", (), 4)
    await shares.take_turn("b", (), 4)
    await shares.leave("a")
    assert (await shares.take_turn("b", (), 4)).held == (0, 1, 2, 3)


async def test_what_was_taken_and_is_not_read_is_not_kept(at: At) -> None:
    """As when the answer to a turn was lost."""
    shares = at(0.0)
    await shares.take_turn("a", (), 4)
    await shares.take_turn("b", (), 4)
    told = await shares.take_turn("a", (), 4)
    assert len(told.held) == 2
    assert len((await shares.take_turn("b", (), 4)).held) == 2


async def test_more_coordinators_than_partitions_leave_some_without(at: At) -> None:
    shares, held = at(0.0), {}
    for _ in range(3):
        for name in "abc":
            turn = await shares.take_turn(name, held.get(name, ()), 2)
            held[name] = tuple(set(turn.held).difference(turn.surplus))
    assert sorted(map(len, held.values())) == [0, 1, 1]


async def test_a_smaller_setting_leaves_the_recorded_partitions_to_be_read(at: At) -> None:
    shares = at(0.0)
    held = (await shares.take_turn("a", (), 8)).held
    for fewer in (2, 0):
        assert (await shares.take_turn("a", held, fewer)).held == tuple(range(8))
    assert (await shares.take_turn("a", held, 12)).held == tuple(range(12))


async def test_a_clock_that_was_set_back_leaves_no_lease_for_ever(at: At) -> None:
    await at(1_000_000.0).take_turn("dead", (), 4)
    assert (await at(10.0).take_turn("b", (), 4)).held == (0, 1, 2, 3)


async def test_no_partition_has_two_holders_however_many_take_turns_at_once(at: At) -> None:
    names = "abcdefgh"
    each = {name: at(0.0) for name in names}
    held: dict[str, set[int]] = {name: set() for name in names}

    async def take(name: str, times: int = 20) -> None:
        for _ in range(times):
            turn = await each[name].take_turn(name, tuple(held[name]), 16)
            held[name] = set(turn.held).difference(turn.surplus)

    await asyncio.gather(*map(take, names))
    for name in 3 * names:
        await take(name, 1)
    assert sorted(number for numbers in held.values() for number in numbers) == list(range(16))
    assert {len(numbers) for numbers in held.values()} == {2}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_store_has_a_clock_of_its_own(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path / 'log.db'}"
    async with open_shares(url) as shares, open_shares(url) as others:
        assert list(await shares.all()) == []
        assert (await shares.take_turn("a", (), 4)).held == (0, 1, 2, 3)
        assert [each.holder for each in await others.all()] == ["a"] * 4
        assert (await others.take_turn("b", (), 4)).held == ()


def test_a_store_in_memory_has_no_shares() -> None:
    with pytest.raises(InputError, match="one process's own"):
        open_shares("memory:")


class Broken:
    """Tables that are away."""

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        raise StoreError("the connection was lost")
        yield

    def close(self) -> None: ...


async def test_a_store_that_is_away_says_so() -> None:
    async with Shares(Broken(), "0") as shares:
        with pytest.raises(StoreError):
            await shares.take_turn("a", (), 4)
