"""The relay's checkpoint is one row: one that is gone is made anew, and a second one is told."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.events.store.test_lease import lease

from redraft.events.backends import read_lease
from redraft.events.errors import LeaseLost, StoreError
from redraft.events.postgres.connection import Database
from redraft.events.postgres.schema import prepare


async def test_a_checkpoint_that_is_gone_is_made_anew_and_kept_by_one_at_a_time(postgres_url: str) -> None:
    async with lease(postgres_url) as first, lease(postgres_url) as second:
        await first.acquire()
        await first.save(5)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("DELETE FROM redraft_relay")
        with pytest.raises(LeaseLost):
            await first.save(6)
        assert await first.acquire() == 0, "all is relayed once more"
        await first.save(7)
        stands_by = asyncio.Event()
        waiting = asyncio.create_task(second.acquire(lambda _: stands_by.set()))
        await stands_by.wait()
        await first.save(8)
        await first.release()
        assert await waiting == 8
    assert (await read_lease(postgres_url))[1] == 8


async def test_a_checkpoint_of_two_rows_is_told_and_the_remedy_mends_it(postgres_url: str) -> None:
    prepare(Database(postgres_url))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("INSERT INTO redraft_relay VALUES (3, 3)")
        async with lease(postgres_url) as opened:
            with pytest.raises(StoreError, match="redraft_relay has 2 rows, and must have one") as told:
                await opened.acquire()
            assert not opened.is_held
            with pytest.raises(StoreError, match="redraft_relay has 2 rows"):
                await read_lease(postgres_url)
            connection.execute(str(told.value).partition("as the owner, ")[2].partition(" in psql")[0].encode())
            assert (await read_lease(postgres_url))[1] == 0
            assert await opened.acquire() == 0
