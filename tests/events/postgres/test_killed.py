"""A store while its server is killed, stopped and started, or its answers get lost: on a cluster of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress

import psycopg
import pytest
from tests.appending import append_to
from tests.events.fitting import Fitting
from tests.events.postgres_cluster import Cluster, postgres_cluster
from tests.proxy import Proxy

from redraft.events.backends import open_lease, open_recorder, open_store
from redraft.events.errors import LeaseLost, StoreError
from redraft.events.messages.envelope import Recorded
from redraft.events.postgres import connection as postgres_connection
from redraft.events.store.event_store import EventStore, NewEvent

Notes = Callable[..., list[NewEvent]]

DEADLINE = 90.0
"""Seconds after which a test that waits in vain fails."""


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    with postgres_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(server: Cluster) -> Cluster:
    """A server that runs, with an empty database."""
    server.start()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return server


@asynccontextmanager
async def deadline() -> AsyncIterator[None]:
    async with asyncio.timeout(DEADLINE):
        yield


@pytest.mark.parametrize("end", [Cluster.kill, Cluster.stop], ids=["killed", "stopped"])
async def test_a_server_that_is_gone_is_told_and_the_store_goes_on_when_it_is_back(
    cluster: Cluster, notes: Notes, end: Callable[[Cluster], None]
) -> None:
    async with deadline(), open_store(cluster.url) as store:
        first = await append_to(store, "a", 0, notes("a", 2))
        await asyncio.to_thread(end, cluster)
        calls = [append_to(store, "a", 2, notes("a", after=2)), store.read("a"), store.head(), store.verify("a")]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert type(result) is StoreError
            assert str(result).startswith(f"store postgresql://postgres@127.0.0.1:{cluster.port}/postgres: ")
            assert "; check that the server runs" in str(result)
            assert "\n" not in str(result)
        await asyncio.to_thread(cluster.start)
        assert await store.read("a") == first
        second = await append_to(store, "a", 2, notes("a", after=2))
        assert [event.position for event in second] == [3]
        assert await store.verify("a") == 3


async def test_a_server_that_came_back_in_between_goes_unnoticed(cluster: Cluster, notes: Notes) -> None:
    async with deadline(), open_store(cluster.url) as store:
        await append_to(store, "a", 0, notes("a"))
        cluster.kill()
        cluster.start()
        await append_to(store, "a", 1, notes("a", after=1))
        cluster.stop()
        cluster.start()
        assert await store.verify("a") == 2


async def test_a_follower_is_told_and_goes_on_where_it_was(cluster: Cluster, notes: Notes) -> None:
    async with deadline(), open_store(cluster.url, poll=0.05) as store, open_store(cluster.url) as other:
        first = await append_to(other, "a", 0, notes("a"))
        async with aclosing(store.tail(0)) as batches:
            assert tuple(await anext(batches)) == first
            await asyncio.to_thread(cluster.kill)
            with pytest.raises(StoreError, match="check that the server runs"):
                await anext(batches)
        await asyncio.to_thread(cluster.start)
        async with aclosing(store.tail(1)) as batches:
            waiting = asyncio.ensure_future(anext(batches))
            second = await append_to(other, "a", 1, notes("a", after=1))
            assert tuple(await waiting) == second


async def test_a_follower_hears_of_an_append_long_before_it_would_look(cluster: Cluster, notes: Notes) -> None:
    """With a poll of an hour nothing but a notification can tell the follower."""
    async with deadline(), open_store(cluster.url, poll=3600) as store, open_store(cluster.url) as other:
        first = await append_to(other, "a", 0, notes("a"))
        async with aclosing(store.tail(0)) as batches:
            assert tuple(await anext(batches)) == first
            await until_somebody_listens(cluster)
            for version in range(1, 20):
                waiting = asyncio.ensure_future(anext(batches))
                appended = await append_to(other, "a", version, notes("a", after=version))
                assert tuple(await waiting) == appended


@pytest.mark.check
async def test_a_listener_connects_again_by_itself(cluster: Cluster, notes: Notes) -> None:
    heads: asyncio.Queue[int] = asyncio.Queue()
    opened = open_recorder(cluster.url)
    assert opened.listen
    async with deadline(), open_store(cluster.url) as other:
        listening = asyncio.create_task(opened.listen(heads.put_nowait))
        for version in range(3):
            await until_somebody_listens(cluster)
            await append_to(other, "a", version, notes("a", after=version))
            assert await heads.get() == version + 1
            await asyncio.to_thread(cluster.stop if version else cluster.kill)
            await asyncio.to_thread(cluster.start)
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
    opened.release()


async def until_somebody_listens(cluster: Cluster) -> None:
    asked = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND state = 'idle'"
    async with await psycopg.AsyncConnection.connect(cluster.url, autocommit=True) as connection:
        while await (await connection.execute(asked)).fetchone() is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def appended(store: EventStore, run: str, version: int, events: list[NewEvent]) -> tuple[Recorded, ...]:
    """Hands the same append in until it is recorded."""
    while True:
        with suppress(StoreError):
            return await append_to(store, run, version, events)
        await asyncio.sleep(0.01)


@pytest.mark.check
async def test_appends_through_kills_are_recorded_once_each(cluster: Cluster, notes: Notes) -> None:
    results: dict[str, list[Recorded]] = {f"r{n}": [] for n in range(8)}
    over = asyncio.Event()

    async def write(store: EventStore, run: str) -> None:
        while not over.is_set():
            version = len(results[run])
            results[run] += await appended(store, run, version, notes(run, 2, after=version))

    async with deadline(), open_store(cluster.url) as one, open_store(cluster.url) as two:
        async with asyncio.TaskGroup() as group:
            for number, run in enumerate(results):
                group.create_task(write((one, two)[number % 2], run))
            for kill in range(3):
                before = sum(map(len, results.values()))
                while sum(map(len, results.values())) < before + 100:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                await asyncio.to_thread(cluster.stop if kill == 1 else cluster.kill)
                await asyncio.to_thread(cluster.start)
            over.set()
        everything = [event async for batch in one.tail(0, follow=False) for event in batch]
        assert [event.position for event in everything] == list(range(1, len(everything) + 1))
        for run, events in results.items():
            assert [event for event in everything if event.run == run] == events
            assert await one.verify(run) == len(events)


async def test_an_answer_that_got_lost_on_the_wire_is_a_success(cluster: Cluster, notes: Notes) -> None:
    async with deadline(), Proxy(cluster.port).open() as proxy:
        url = cluster.url.replace(str(cluster.port), str(proxy.port))
        async with await asyncio.to_thread(open_store, url) as store:
            (first,) = await append_to(store, "a", 0, notes("a"))
            swallowed = proxy.swallow(keep=False)
            events = await store.append("a", 1, notes("a", 3, after=1), first.hash)
            assert swallowed.done()
            assert [event.position for event in events] == [2, 3, 4]
            await append_to(store, "a", 4, notes("a", after=4))
            begun = [(await append_to(store, f"r{n}", 0, notes(f"r{n}")))[0] for n in range(5)]
            swallowed = proxy.swallow(keep=False)
            results = await asyncio.gather(
                *(store.append(each.run, 1, notes(each.run, after=1), each.hash) for each in begun)
            )
            assert swallowed.done()
            assert [await store.read(f"r{n}", after=1) for n in range(5)] == list(results)
            assert await store.head() == 15


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing is given up after a second."""
    monkeypatch.setattr(postgres_connection, "SILENCE", 1.0)


@pytest.mark.usefixtures("impatient")
async def test_an_answer_that_never_comes_on_a_connection_that_stays_is_a_success(
    cluster: Cluster, notes: Notes
) -> None:
    async with deadline(), Proxy(cluster.port).open() as proxy:
        url = cluster.url.replace(str(cluster.port), str(proxy.port))
        async with await asyncio.to_thread(open_store, url) as store:
            (first,) = await append_to(store, "a", 0, notes("a"))
            swallowed = proxy.swallow(keep=True)
            events = await store.append("a", 1, notes("a", 3, after=1), first.hash)
            assert swallowed.done()
            assert [event.position for event in events] == [2, 3, 4]
            await append_to(store, "a", 4, notes("a", after=4))


@pytest.mark.usefixtures("impatient")
async def test_a_read_that_is_never_answered_is_told_and_the_next_one_is(cluster: Cluster, notes: Notes) -> None:
    async with deadline(), Proxy(cluster.port).open() as proxy:
        url = cluster.url.replace(str(cluster.port), str(proxy.port))
        async with await asyncio.to_thread(open_store, url) as store:
            await append_to(store, "a", 0, notes("a"))
            assert await store.head() == 1
            proxy.swallow(keep=True)
            with pytest.raises(StoreError, match="no answer for 1 s; check that the server runs"):
                await store.head()
            assert await store.head() == 1


@pytest.mark.usefixtures("impatient")
async def test_a_lease_whose_server_falls_silent_is_lost(cluster: Cluster) -> None:
    async with deadline(), Proxy(cluster.port).open() as proxy:
        url = cluster.url.replace(str(cluster.port), str(proxy.port))
        async with open_lease(url) as lease:
            assert await lease.acquire() == 0
            proxy.swallow(keep=True)
            with pytest.raises(LeaseLost, match="no answer for 1 s"):
                await lease.save(1)
            assert await lease.acquire() in (0, 1)


@pytest.mark.check
async def test_an_append_that_did_not_come_through_leaves_nothing(cluster: Cluster, notes: Notes) -> None:
    """The server is ended while it works: it never says that it has recorded, and it has not."""
    async with deadline(), open_store(cluster.url) as store:
        await append_to(store, "a", 0, notes("a"))
        async with await psycopg.AsyncConnection.connect(cluster.url) as beside:
            (row,) = Fitting().rows([("b", 1, "t", b"x")])
            await beside.execute("SELECT redraft_append('{b}', '{1}', '{t}', ARRAY[%b])", (row.state,))
            waiting = asyncio.create_task(append_to(store, "a", 1, notes("a", after=1)))
            asked = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while await (await beside.execute(asked)).fetchone() is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await beside.rollback()
        with pytest.raises(StoreError, match="terminating connection"):
            await waiting
        assert await store.verify("a") == 1
        assert len(await append_to(store, "a", 1, notes("a", after=1))) == 1
