"""The proxy: an answer to a commit is swallowed, what was committed is there; connections break as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from random import Random
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.appending import append_to
from tests.proxy import Proxy

from redraft.events.backends import open_store
from redraft.events.messages.domain_events import StepFailed
from redraft.events.messages.envelope import Origin
from redraft.events.store.event_store import NewEvent


@pytest.fixture
async def proxy(postgres_server: str) -> AsyncIterator[Proxy]:
    """A proxy before the server of the tests."""
    port = int(conninfo_to_dict(postgres_server).get("port") or 5432)
    async with Proxy(port, speaks_postgres=True).open() as made:
        yield made


def through(proxy: Proxy, url: str) -> str:
    """The same place, by way of the proxy."""
    return make_conninfo(url, host="127.0.0.1", port=proxy.port, sslmode="disable", gssencmode="disable")


def failed(run: str) -> NewEvent:
    """An event like any other."""
    return NewEvent(Origin(f"{run}.0", "test"), datetime.now(UTC), StepFailed("judge", 1, "error", "a note"))


@pytest.mark.parametrize("keep", [False, True])
async def test_the_answer_to_a_commit_is_swallowed_and_it_is_committed(
    postgres_url: str, proxy: Proxy, keep: bool
) -> None:
    async with (
        await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as beside,
        await psycopg.AsyncConnection.connect(through(proxy, postgres_url)) as connection,
    ):
        swallowed = proxy.swallow(keep=keep)
        await connection.execute("CREATE TABLE numbers (number integer)")
        await connection.execute("INSERT INTO numbers VALUES (7)")
        assert not swallowed.done()
        committing = asyncio.create_task(connection.commit())
        await swallowed
        assert await (await beside.execute("SELECT number FROM numbers")).fetchall() == [(7,)]
        if keep:
            assert not committing.done()
            proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            await committing


async def test_the_answer_to_an_append_is_swallowed_and_it_is_recorded_once(postgres_url: str, proxy: Proxy) -> None:
    given = conninfo_to_dict(through(proxy, postgres_url))
    url = "postgresql://?" + "&".join(f"{name}={quote(str(value), safe='')}" for name, value in given.items())
    async with await asyncio.to_thread(open_store, url) as store:
        await append_to(store, "a", 0, [failed("a")])
        swallowed = proxy.swallow(keep=False)
        events = await append_to(store, "b", 0, [failed("b")])
        await swallowed
        assert [event.position for event in events] == [2]
        assert await store.head() == 2


@pytest.mark.parametrize("half", [False, True])
async def test_connections_are_cut_and_half_closed(postgres_url: str, proxy: Proxy, half: bool) -> None:
    async with await psycopg.AsyncConnection.connect(through(proxy, postgres_url), autocommit=True) as connection:
        await connection.execute("SELECT 1")
        assert (proxy.half_close(Random(1)) if half else proxy.cut()) == 1
        with pytest.raises(psycopg.OperationalError):
            await connection.execute("SELECT 1")
