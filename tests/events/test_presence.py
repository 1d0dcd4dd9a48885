"""Who works by HTTP for the actors of a store, as every process sees it, on every database that keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from redraft.events.backends import open_http_workers, read_http_workers
from redraft.events.errors import InputError
from redraft.events.postgres.connection import Database
from redraft.events.postgres.tables import PostgresTables
from redraft.events.presence import CREATE, PRESENT, HttpWorkers, Presence
from redraft.events.small_tables import Tables
from redraft.events.sqlite.file import Identity
from redraft.events.sqlite.tables import SqliteTables

At: TypeAlias = Callable[[float], HttpWorkers]
"""Gives those who work as they are at a time of the database's clock, on a connection of their own."""

JUDGE = ("critic", "judge")


@pytest.fixture(params=["sqlite", "postgres"])
async def at(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[At]:
    def tables() -> Tables:
        if request.param == "postgres":
            return PostgresTables(Database(request.getfixturevalue("postgres_url")), CREATE)
        return SqliteTables(tmp_path / "workers.db", "workers", Identity(0x52645072, 1), CREATE)

    opened: list[HttpWorkers] = []

    def at_time(seconds: float) -> HttpWorkers:
        opened.append(HttpWorkers(tables(), repr(seconds)))
        return opened[-1]

    async with AsyncExitStack() as stack, asyncio.timeout(60):
        stack.push_async_callback(lambda: asyncio.gather(*(each.__aexit__() for each in opened)))
        yield at_time


def seen(who: str, since: float) -> Presence:
    return Presence(who, datetime.fromtimestamp(since, UTC))


async def test_who_asked_at_one_server_is_seen_at_the_others_since_when_it_began(at: At) -> None:
    await at(1_000.0).note(JUDGE, "token b", "bot (token b)")
    await at(1_010.0).note(JUDGE, "token a", "ann (token a)")
    await at(1_020.0).note(JUDGE, "token b", "bot (token b)")
    await at(1_020.0).note(("refiner", "judge"), "token b", "bot (token b)")
    found = await at(1_030.0).present()
    assert found == {
        JUDGE: [seen("bot (token b)", 1_000), seen("ann (token a)", 1_010)],
        ("refiner", "judge"): [seen("bot (token b)", 1_020)],
    }


async def test_who_asks_for_nothing_any_more_is_gone_and_begins_anew_when_it_comes_back(at: At) -> None:
    await at(1_000.0).note(JUDGE, "token a", "ann (token a)")
    assert await at(1_000.0 + PRESENT).present() == {JUDGE: [seen("ann (token a)", 1_000)]}
    assert await at(1_000.5 + PRESENT).present() == {}
    await at(2_000.0).note(JUDGE, "token a", "ann (token a)")
    assert await at(2_000.0).present() == {JUDGE: [seen("ann (token a)", 2_000)]}


async def test_a_clock_that_was_set_back_keeps_nobody_for_ever(at: At) -> None:
    await at(9_000.0).note(JUDGE, "token a", "ann (token a)")
    assert await at(1_000.0).present() == {}
    await at(1_000.0).note(JUDGE, "token b", "bot (token b)")
    assert await at(1_000.0).present() == {JUDGE: [seen("bot (token b)", 1_000)]}


async def test_looking_makes_no_file_and_a_store_in_memory_has_nobody(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    assert await read_http_workers(url) == {}
    assert list(tmp_path.iterdir()) == []
    assert await read_http_workers("memory:") == {}
    with pytest.raises(InputError, match="one process's own"):
        open_http_workers("memory:")
    async with open_http_workers(url) as workers:
        await workers.note(JUDGE, "token a", "ann (token a)")
    (present,) = (await read_http_workers(url))[JUDGE]
    assert present.who == "ann (token a)"
    assert (tmp_path / "store.workers.db").stat().st_mode & 0o777 == 0o600
