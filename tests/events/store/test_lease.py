"""One relay at a time, whatever the store: who holds the lease, who stands by, what one that lost it can do."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from tests.events.postgres_cluster import postgres_cluster

from redraft.events.backends import open_lease, open_store, open_subscriptions, read_lease
from redraft.events.errors import IncompatibleStore, InputError, LeaseLost, StoreError
from redraft.events.postgres.connection import Database
from redraft.events.postgres.schema import prepare
from redraft.events.store.lease import Lease, LeaseHolder

HOLDER = Path(__file__).parents[1] / "lease_holder.py"
"""A program that holds the lease: URL POSITION."""

DEADLINE = 30.0
"""Seconds after which a test that waits in vain fails."""

RETRY = 0.02
"""How often one that stands by tries, in seconds."""

LOCKED = "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND datname = current_database()"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of every kind that has a lease."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/log.db"


@asynccontextmanager
async def lease(url: str) -> AsyncIterator[Lease]:
    async with asyncio.timeout(DEADLINE), open_lease(url, retry=RETRY) as opened:
        yield opened


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Awaitable[object]]:
    """Waits until one that stands by was refused once more: it pauses then, and only then, for `RETRY`."""
    refusals = asyncio.Semaphore(0)
    sleep = asyncio.sleep

    async def noting(seconds: float) -> None:
        if seconds == RETRY:
            refusals.release()
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noting)
    return refusals.acquire


def file_of(url: str) -> Path:
    """The file of the lease of a store in SQLite."""
    return Path(url.removeprefix("sqlite:///")).with_name("log.relay.db")


def take_away(url: str) -> None:
    """Takes the lease from whoever has it, without asking."""
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True) as connection:
            ended = connection.execute(f"SELECT pg_terminate_backend(pid, 5000) {LOCKED}").fetchall()
        assert ended
    else:
        with closing(sqlite3.connect(file_of(url))) as connection:
            connection.execute("UPDATE lease SET expires = 0")
            connection.commit()


async def test_the_checkpoint_is_what_was_saved_last(url: str) -> None:
    async with lease(url) as first:
        assert await first.acquire() == 0
        await first.save(7)
        await first.save(40)
        assert await first.load() == 40
    async with lease(url) as second:
        assert await second.acquire() == await second.load() == 40


async def test_the_checkpoint_never_moves_back(url: str) -> None:
    async with lease(url) as holder:
        await holder.acquire()
        await holder.save(9)
        await holder.save(3)
        assert await holder.load() == 9


async def test_one_at_a_time_has_it_and_the_next_takes_over(url: str, refused: Callable[[], Awaitable[object]]) -> None:
    async with lease(url) as first, lease(url) as second, lease(url) as third:
        await first.acquire()
        waiting = [asyncio.create_task(each.acquire()) for each in (second, third)]
        for position in range(1, 30):
            await first.save(position)
            await refused()
            assert not any(each.done() for each in waiting)
        await first.release()
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert [await each for each in done] == [29]
        assert len(pending) == 1
        await (second if waiting[0] in done else third).release()
        assert await pending.pop() == 29


async def test_one_that_stands_by_can_be_cancelled(url: str) -> None:
    async with lease(url) as first:
        await first.acquire()
        async with lease(url) as second:
            waiting = asyncio.create_task(second.acquire())
            await first.save(1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await first.save(2)
        assert await first.load() == 2


async def test_without_the_lease_nothing_is_saved(url: str) -> None:
    async with lease(url) as first, lease(url) as second:
        with pytest.raises(LeaseLost, match="stands by"):
            await second.save(99)
        await first.acquire()
        with pytest.raises(LeaseLost, match="stands by"):
            await second.load()
        assert await first.load() == 0


async def test_a_holder_that_lost_it_cannot_move_the_checkpoint(url: str) -> None:
    async with lease(url) as first, lease(url) as second:
        await first.acquire()
        take_away(url)
        await second.acquire()
        await second.save(10)
        with pytest.raises(LeaseLost, match="stands by") as caught:
            await first.save(99)
        assert "\n" not in str(caught.value)
        with pytest.raises(LeaseLost):
            await first.save(99)
        assert await second.load() == 10


async def test_a_holder_that_lost_it_may_have_it_again(url: str) -> None:
    async with lease(url) as first, lease(url) as second:
        await first.acquire()
        take_away(url)
        await second.acquire()
        with pytest.raises(LeaseLost):
            await first.save(5)
        await second.release()
        position = await first.acquire()
        await first.save(position + 6)
        assert await first.load() == 6


async def test_a_holder_learns_that_it_lost_it_before_it_goes_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redraft.events.store.lease.FRESH", 0.0)
    monkeypatch.setattr("redraft.events.store.lease.RENEW", 0.01)
    async with lease(url) as first, lease(url) as second:
        await first.acquire()
        await first.check()
        take_away(url)
        await second.acquire()
        with pytest.raises(LeaseLost, match="stands by"):
            await first.check()
        take_away(url)
        await first.acquire()
        with pytest.raises(LeaseLost, match="stands by"):
            await second.keep()
        assert await first.load() == 0


async def test_one_that_stands_by_is_told_for_whom_once(url: str, refused: Callable[[], Awaitable[object]]) -> None:
    told: list[LeaseHolder] = []
    assert await read_lease(url) == (None, 0)
    async with lease(url) as first, lease(url) as second:
        await first.acquire()
        await first.save(3)
        waiting = asyncio.create_task(second.acquire(told.append))
        for _ in range(3):
            await refused()
        assert [each.holder for each in told] == [f"process {os.getpid()} on {socket.gethostname()}"]
        assert told[0].since is not None
        assert abs(datetime.now(UTC) - told[0].since) < timedelta(minutes=1)
        assert await read_lease(url) == (told[0], 3)
        await first.release()
        assert await waiting == 3


@pytest.mark.check
async def test_a_holder_that_is_stopped_is_overtaken_and_learns_of_it(url: str) -> None:
    holder = await held(url, 12)
    assert holder.stdout
    async with lease(url) as standby:
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            waiting = asyncio.create_task(standby.acquire())
            assert await waiting == 12
            await standby.save(13)
            found, position = await read_lease(url)
            assert found is not None
            assert (found.ended, position) == (False, 13)
        finally:
            os.kill(holder.pid, signal.SIGCONT)
        assert b"this one stands by" in await holder.stdout.readline()
        await standby.save(14)
        assert await standby.load() == 14
    assert await holder.wait() == 0


async def test_when_nobody_took_over_a_stopped_holder_goes_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with lease(url) as holder:
        await holder.acquire()
        await holder.save(5)
        take_away(url) if url.startswith("sqlite") else expire(url)
        found, _ = await read_lease(url)
        assert found is not None
        assert found.ended
        await holder.save(6)
        found, position = await read_lease(url)
        assert found is not None
        assert (found.ended, position) == (False, 6)


def expire(url: str) -> None:
    """Lets the time of a lease in PostgreSQL be over."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE redraft_leases SET expires = '-infinity'")


@pytest.mark.check
async def test_the_next_may_be_overtaken_too_while_the_first_is_stopped(url: str) -> None:
    """The lock of who is stopped says nothing of who has the lease now."""
    holder = await held(url, 1)
    os.kill(holder.pid, signal.SIGSTOP)
    try:
        async with lease(url) as second, lease(url) as third:
            await second.acquire()
            waiting = asyncio.create_task(third.acquire())
            holder.kill()
            await holder.wait()
            await second.save(2)
            await second.save(3)
            assert not waiting.done()
            await second.release()
            assert await waiting == 3
    finally:
        with suppress(ProcessLookupError):
            holder.kill()


async def held(url: str, position: int) -> Process:
    """Another process that has the lease and has saved this position."""
    command = (sys.executable, str(HOLDER), url, str(position))
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert process.stdout
    assert (await process.stdout.readline()).startswith(b"held")
    return process


async def test_when_the_holder_is_killed_the_standby_takes_over_by_itself(
    url: str, refused: Callable[[], Awaitable[object]]
) -> None:
    for position in (12, 34):
        holder = await held(url, position)
        async with lease(url) as standby:
            waiting = asyncio.create_task(standby.acquire())
            for _ in range(3):
                await refused()
                assert not waiting.done()
            holder.kill()
            assert await waiting == position
            await standby.save(position + 1)
        assert await holder.wait() == -9


async def test_the_lease_leaves_the_store_alone(url: str) -> None:
    async with lease(url) as holder:
        await holder.acquire()
        async with open_store(url) as store:
            assert await store.head() == 0
        await holder.save(3)
    async with open_store(url) as store:
        assert await store.head() == 0


@pytest.mark.parametrize("url", ["memory:", "sqlite:", "sqlite:///", "redis://me:secret@host", ""])
def test_any_other_url_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="give") as caught:
        open_lease(url)
    assert "secret" not in str(caught.value)


# A release before this one, which had a lock for as long as it lived


@contextmanager
def older(url: str) -> Iterator[Callable[[int], None]]:
    """Has the lease as a release before this one had it; what it gives moves the checkpoint."""
    if url.startswith("postgresql"):
        prepare(Database(url))
        with psycopg.connect(url, autocommit=True) as connection:
            lock = "SELECT pg_try_advisory_lock(%s, 'redraft_relay'::regclass::oid::integer)"
            if connection.execute(lock, (0x52446674,)).fetchone() != (True,):
                raise BlockingIOError
            row = connection.execute("UPDATE redraft_relay SET epoch = epoch + 1 RETURNING epoch").fetchone()
            assert row

            def move(position: int) -> None:
                moved = "UPDATE redraft_relay SET position = greatest(position, %s) WHERE epoch = %s"
                if connection.execute(moved, (position, row[0])).rowcount != 1:
                    raise BlockingIOError

            yield move
    else:
        with closing(sqlite3.connect(file_of(url), timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                connection.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                raise BlockingIOError from None
            if connection.execute("PRAGMA application_id").fetchone() != (0x52645279,):
                connection.execute(f"PRAGMA application_id = {0x52645279}")
                connection.execute("CREATE TABLE checkpoint (position INTEGER NOT NULL)")
                connection.execute("INSERT INTO checkpoint VALUES (0)")
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")

            def move(position: int) -> None:
                connection.execute("UPDATE checkpoint SET position = max(position, ?)", (position,))

            yield move


async def test_who_has_it_by_an_older_release_is_waited_for(url: str, refused: Callable[[], Awaitable[object]]) -> None:
    told: list[LeaseHolder] = []
    async with lease(url) as standby:
        with older(url) as move:
            waiting = asyncio.create_task(standby.acquire(told.append))
            for position in range(3):
                await refused()
                move(position)
                assert not waiting.done()
            found, _ = await read_lease(url)
            assert told == [found]
        assert await waiting == 2


async def test_an_older_release_stands_by_while_somebody_has_it(url: str) -> None:
    async with lease(url) as holder, lease(url) as standby:
        await holder.acquire()
        waiting = asyncio.create_task(standby.acquire())
        for position in range(1, 4):
            with pytest.raises(BlockingIOError), older(url):
                pass
            await holder.save(position)
        assert not waiting.done()
        await holder.release()
        assert await waiting == 3
    with older(url) as move:
        move(4)
    async with lease(url) as again:
        assert await again.acquire() == 4


# SQLite's own


async def test_a_file_that_was_taken_away_is_noticed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    async with lease(url) as holder:
        await holder.acquire()
        await holder.save(5)
        file_of(url).unlink()
        with pytest.raises(LeaseLost):
            await holder.save(6)
        assert await holder.acquire() == 0


async def test_a_file_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.relay.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (a)")
    before = path.read_bytes()
    async with lease(f"sqlite:///{tmp_path}/log.db") as holder:
        with pytest.raises(
            IncompatibleStore, match=r"log\.relay\.db: the file belongs to another program; move it away"
        ):
            await holder.acquire()
    assert path.read_bytes() == before


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with lease(f"sqlite:///{tmp_path}/no/log.db") as holder:
        with pytest.raises(StoreError, match=r"log\.relay\.db: it cannot be opened; check"):
            await holder.acquire()


async def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "log.relay.db").write_text("Dear diary,\n" * 1000)
    async with lease(f"sqlite:///{tmp_path}/log.db") as holder:
        with pytest.raises(StoreError, match=r"log\.relay\.db: it is damaged"):
            await holder.acquire()


# PostgreSQL's own


@pytest.mark.check
async def test_a_server_that_is_killed_ends_the_lease_and_it_can_be_had_again() -> None:
    with postgres_cluster() as cluster:
        async with lease(cluster.url) as holder, lease(cluster.url) as standby:
            assert await holder.acquire() == 0
            await holder.save(5)
            waiting = asyncio.create_task(standby.acquire())
            cluster.kill()
            with pytest.raises(LeaseLost, match="stands by"):
                await holder.save(6)
            with pytest.raises(StoreError, match="check that the server runs"):
                await waiting
            with pytest.raises(StoreError, match="check that the server runs"):
                await holder.acquire()
            await asyncio.to_thread(cluster.start)
            assert await standby.acquire() in (0, 5), "what was not yet on disk is published once more"
            await standby.save(8)
            assert await standby.load() == 8


async def test_a_name_and_who_serves_it_by_an_older_release_wait_for_each_other(postgres_url: str) -> None:
    lock = "SELECT pg_try_advisory_lock(hashtextextended('redraft ' || current_schema() || ' ' || 'index', 0))"
    prepare(Database(postgres_url))
    async with asyncio.timeout(DEADLINE), open_subscriptions(postgres_url) as names, names.lease("index") as mine:
        waited = asyncio.Event()
        with psycopg.connect(postgres_url, autocommit=True) as older:
            assert older.execute(lock).fetchone() == (True,)
            waiting = asyncio.create_task(mine.acquire(lambda held: waited.set()))
            await waited.wait()
            assert not waiting.done()
        await waiting
        with psycopg.connect(postgres_url, autocommit=True) as older:
            assert older.execute(lock).fetchone() == (False,)


async def test_a_session_of_an_earlier_epoch_cannot_move_the_checkpoint(postgres_url: str) -> None:
    """Even if the lock were not enough, as when an administrator gives it away."""
    async with lease(postgres_url) as holder:
        await holder.acquire()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("UPDATE redraft_relay SET epoch = epoch + 1")
            with pytest.raises(LeaseLost, match="another process has it now"):
                await holder.save(5)
            assert connection.execute("SELECT position FROM redraft_relay").fetchone() == (0,)


async def test_only_the_first_holder_ever_knows_that_nobody_was_before_it(url: str) -> None:
    async with lease(url) as first:
        await first.acquire()
        assert first.is_first
        await first.release()
        assert not first.is_first
        await first.acquire()
        assert not first.is_first
    async with lease(url) as second:
        await second.acquire()
        assert not second.is_first
