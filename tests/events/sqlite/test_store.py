"""What is SQLite's own: whose file it is, what the disk does to it, and that the library's own recorder agrees."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest
from eventsourcing.persistence import IntegrityError, StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore
from hypothesis import given
from tests.appending import append_to, chained
from tests.events.fitting import ROWS, Fitting

from redraft.events.backends import open_lease, open_recorder, open_store, parse_store_url, read_lease
from redraft.events.errors import CodecError, Conflict, IncompatibleStore, InputError, StoreError, Tampered
from redraft.events.messages.codec import GENESIS
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.events.sqlite.file import APPLICATION_ID, SCHEMA_VERSION, connect, when_free
from redraft.events.sqlite.recorder import SQLiteRecorder
from redraft.events.sqlite.schema import inspect
from redraft.events.store.event_store import EventStore, NewEvent

DEADLINE = 30.0
"""Seconds after which a test that waits in vain fails."""

Notes = Callable[..., list[NewEvent]]


def url(path: Path) -> str:
    return f"sqlite:///{path}"


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, opened beside the store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def one(connection: sqlite3.Connection, statement: str) -> object:
    (value,) = connection.execute(statement).fetchone()
    return value


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# What a URL names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "runs.db",
        "sqlite:",
        "sqlite://runs.db",
        "sqlite:///",
        "sqlite:////",
        "sqlite:///a\0b",
        "sqlite:///:memory:",
        "memory",
        "memory:x",
        "mysql://me:secret@host/db",
        "file:///x.db",
    ],
)
def test_any_other_url_is_refused_with_the_forms_and_without_its_secrets(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="memory:") as caught:
        open_store(text)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert contents(tmp_path) == {}


async def test_a_path_is_relative_or_absolute_and_its_folder_is_made(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a b/ü?x=1#mode=memory/100%25 & more.db"
    async with open_store(f"sqlite:///{name}") as store:
        await append_to(store, "a", 0, notes("a"))
    assert (tmp_path / name).is_file()
    async with open_store(url(tmp_path / name)) as store:
        assert await store.verify("a") == 1
    async with open_store(f"sqlite:////{tmp_path / name}") as store:  # two slashes, as a shell's variable may bring
        assert await store.verify("a") == 1


# Whose file it is


async def test_a_new_file_is_marked_as_ours_and_synced(tmp_path: Path, notes: Notes) -> None:
    opened = open_recorder(url(tmp_path / "log.db"))
    async with EventStore(opened) as store:
        await append_to(store, "a", 0, notes("a"))
        assert isinstance(opened.recorder, SQLiteRecorder)
        recorder = opened.recorder
        with recorder.datastore.get_connection(commit=False) as pooled, recorder.writing() as writer:
            for cursor in (pooled.cursor(), writer.cursor()):
                for pragma, value in (("journal_mode", "wal"), ("synchronous", 2), ("busy_timeout", 10_000)):
                    cursor.execute(f"PRAGMA {pragma}")
                    assert cursor.fetchone()[0] == value
    header = (tmp_path / "log.db").read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(header[60:64], "big") == SCHEMA_VERSION


async def test_an_empty_file_becomes_a_store(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / "log.db"
    path.touch()
    async with open_store(url(path)) as store:
        await append_to(store, "a", 0, notes("a"))


def foreign(path: Path) -> None:
    with database(path) as connection:
        connection.execute("CREATE TABLE stored_events (mine TEXT)")


def foreign_ahead(path: Path) -> None:
    with database(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA application_id=7")
        connection.execute("CREATE TABLE other (mine TEXT)")


def later(path: Path) -> None:
    open_recorder(url(path)).release()
    with database(path) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")


def no_database(path: Path) -> None:
    path.write_text("Dear diary,\n" * 100)


def short(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def folder(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def plug(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


STRANGERS = {
    foreign: "another program",
    foreign_ahead: "another program",
    later: "later version",
    no_database: "not a database",
    short: "not a database",
    folder: "a folder",
    pipe: "not a regular file",
    plug: "not a regular file",
}


@pytest.mark.parametrize(("make", "line"), STRANGERS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_not_ours_is_refused_and_left_as_it_is(make: Callable[[Path], None], line: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "x.db")
        make(path)
        before = contents(path.parent)
        with pytest.raises(IncompatibleStore, match=line) as caught:
            open_store(url(path))
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert ";" in str(caught.value), "the line says how to mend it"
        assert contents(path.parent) == before


async def test_a_later_version_that_is_still_in_the_write_ahead_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    open_recorder(url(path)).release()
    with database(path) as connection:
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
        assert path.read_bytes()[60:64] == SCHEMA_VERSION.to_bytes(4, "big")
        with pytest.raises(IncompatibleStore, match="later version"):
            open_store(url(path))


@contextmanager
def somebody_else() -> Iterator[None]:
    """Root may do anything: be nobody for a while."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everyone may look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_an_unreadable_file_is_refused(shared: Path) -> None:
    path = shared / "log.db"
    open_recorder(url(path)).release()
    path.chmod(0)
    with (
        somebody_else(),
        pytest.raises(IncompatibleStore, match="cannot be read: Permission denied; check its permissions"),
    ):
        open_store(url(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0


def test_a_file_in_an_unreadable_folder_is_refused(shared: Path) -> None:
    (shared / "inner").mkdir()
    open_recorder(url(shared / "inner/log.db")).release()
    (shared / "inner").chmod(0)
    with somebody_else(), pytest.raises(IncompatibleStore, match="Permission denied"):
        open_store(url(shared / "inner/log.db"))


def test_a_folder_that_cannot_be_made_is_said(shared: Path) -> None:
    shared.chmod(0o555)
    with somebody_else(), pytest.raises(StoreError, match="cannot be made: Permission denied; name another"):
        open_store(url(shared / "inner/log.db"))
    (shared / "file").touch()
    with pytest.raises(StoreError, match="; name another"):
        open_store(url(shared / "file/inner/log.db"))


def test_a_file_that_cannot_be_made_is_said(shared: Path) -> None:
    shared.chmod(0o555)
    with somebody_else(), pytest.raises(StoreError, match="cannot be opened; check that its folder"):
        open_store(url(shared / "log.db"))


async def test_a_file_that_may_not_be_written_can_be_read_while_its_log_is_there(shared: Path, notes: Notes) -> None:
    path = shared / "log.db"
    async with open_store(url(path)) as owner:
        await append_to(owner, "a", 0, notes("a"))
        shared.chmod(0o777)
        path.chmod(0o444)
        for name in ("log.db-wal", "log.db-shm"):
            (shared / name).chmod(0o444)
        with somebody_else():
            store = open_store(url(path))
            async with store:
                with pytest.raises(StoreError, match="may not be written; check the permissions"):
                    await append_to(store, "b", 0, notes("b"))
                assert await store.verify("a") == 1


async def test_many_may_open_a_new_file_at_once(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / "log.db"
    stores = await asyncio.gather(*(asyncio.to_thread(open_store, url(path)) for _ in range(12)))
    await asyncio.gather(*(append_to(store, f"r{n}", 0, notes(f"r{n}")) for n, store in enumerate(stores)))
    assert await stores[0].head() == 12
    for store in stores:
        await store.close()


def test_what_is_held_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    """SQLite gives up at once, without its own waiting, when two processes lay a file out at the same moment."""
    with (
        database(tmp_path / "log.db") as holder,
        closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None, timeout=0)) as connection,
    ):
        holder.execute("BEGIN IMMEDIATE")
        tries = 0

        def attempt() -> str:
            nonlocal tries
            tries += 1
            if tries == 3:
                holder.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
            return "done"

        assert when_free(attempt) == "done"
        assert tries == 3


# Rows stay


@pytest.mark.parametrize("statement", ["UPDATE stored_events SET topic='x'", "DELETE FROM stored_events"])
async def test_events_are_never_changed_or_deleted(tmp_path: Path, notes: Notes, statement: str) -> None:
    path = tmp_path / "log.db"
    async with open_store(url(path)) as store:
        await append_to(store, "a", 0, notes("a", 3))
        with database(path) as connection, pytest.raises(sqlite3.IntegrityError, match="events are never"):
            connection.execute(statement)
        assert await store.verify("a") == 3


async def test_a_flipped_byte_anywhere_in_an_event_is_found(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / "log.db"
    async with open_store(url(path)) as store:
        await append_to(store, "a", 0, notes("a", 3))
        with database(path) as connection:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("DROP TRIGGER stored_events_never_updated")
            state = bytes(one(connection, "SELECT state FROM stored_events WHERE originator_version=2"))  # type: ignore[call-overload]
            update = "UPDATE stored_events SET state=? WHERE originator_version=2"
            for place in range(len(state)):
                flipped = bytearray(state)
                flipped[place] ^= 1 << (place % 8)
                connection.execute(update, (bytes(flipped),))
                with pytest.raises(Tampered, match="event 2 of run a"):
                    await store.verify("a")
            connection.execute(update, (state,))
            assert await store.verify("a") == 3


@pytest.mark.parametrize(
    "change",
    [
        "state=CAST(state AS TEXT)||'!'",
        "state=NULL",
        "state=7",
        "topic=CAST(x'ff' AS TEXT)",
        "topic=NULL",
        "originator_version=9",
        "originator_id='b'",
    ],
)
async def test_a_row_of_other_kinds_is_found(tmp_path: Path, notes: Notes, change: str) -> None:
    path = tmp_path / "log.db"
    async with open_store(url(path)) as store:
        await append_to(store, "a", 0, notes("a", 3))
        with database(path) as connection:
            connection.execute("DROP TRIGGER stored_events_never_updated")
            connection.execute(f"UPDATE stored_events SET {change} WHERE originator_version=2")  # noqa: S608
        with pytest.raises(Tampered, match="event 2 of run a"):
            await store.verify("a")
    async with open_store(url(path)) as fresh:
        if "originator" not in change:
            with pytest.raises(CodecError, match="event"):
                await fresh.read("a")
            batch = await anext(fresh.tail(0, follow=False))
            assert [type(each) for each in batch] == [Recorded, Unreadable, Recorded]


async def test_nothing_is_appended_where_an_event_was_taken_out(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / "log.db"
    async with open_store(url(path)) as store:
        await append_to(store, "a", 0, notes("a", 3))
    with database(path) as connection:
        connection.execute("DROP TRIGGER stored_events_never_deleted")
        connection.execute("DELETE FROM stored_events WHERE originator_version=2")
    async with open_store(url(path)) as store:
        with pytest.raises(Conflict):
            await append_to(store, "a", 2, notes("a", after=2))
        with pytest.raises(Tampered, match="event 2 of run a is missing"):
            await store.verify("a")


# What the disk and other processes do


async def test_a_full_database_is_told_and_the_store_goes_on_when_there_is_room(tmp_path: Path, notes: Notes) -> None:
    opened = open_recorder(url(tmp_path / "log.db"))
    assert isinstance(opened.recorder, SQLiteRecorder)

    def limit(pages: int) -> None:
        assert isinstance(opened.recorder, SQLiteRecorder)
        with opened.recorder.writing() as connection:
            connection.execute(f"PRAGMA max_page_count={pages}")

    async with EventStore(opened) as store:
        await append_to(store, "a", 0, notes("a"))
        limit(1)
        calls = [append_to(store, run, 0, notes(run, 20, text="x" * 10_000)) for run in ("b", "c")]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert type(result) is StoreError
            assert "the disk is full; free some space" in str(result)
        assert await store.head() == 1
        limit(1_000_000)
        assert len(await append_to(store, "b", 0, notes("b", 20, text="x" * 10_000))) == 20
        assert await store.verify("b") == 20


async def test_a_file_that_cannot_grow_is_told_and_the_store_goes_on(tmp_path: Path, notes: Notes) -> None:
    """A real error of the operating system, in the middle of a write."""
    async with open_store(url(tmp_path / "log.db")) as store:
        await append_to(store, "a", 0, notes("a"))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
        try:
            with pytest.raises(StoreError, match="disk") as caught:
                await append_to(store, "b", 0, notes("b", 100, text="x" * 10_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert "\n" not in str(caught.value)
        assert await store.read("b") == ()
        assert len(await append_to(store, "b", 0, notes("b", 100, text="x" * 10_000))) == 100
        assert (await store.verify("a"), await store.verify("b")) == (1, 100)


async def test_a_disk_without_space_is_no_sign_of_tampering(tmp_path: Path, notes: Notes) -> None:
    """There is no room even for the index of the write-ahead log, which every reader needs."""
    path = tmp_path / "log.db"
    async with open_store(url(path)) as store:
        await append_to(store, "a", 0, notes("a"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(StoreError, match="the disk") as caught:
            inspect(path, "stored_events", ["CREATE TABLE stored_events (a)"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert type(caught.value) is StoreError


async def test_a_relative_path_is_that_of_the_folder_in_which_it_was_opened(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_store("sqlite:///log.db") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        await append_to(store, "r", 0, notes("one"))
        assert await store.verify("r") == 1
    assert not list((tmp_path / "elsewhere").iterdir())


async def test_a_link_is_the_file_that_it_leads_to_with_all_that_lies_beside_it(tmp_path: Path, notes: Notes) -> None:
    (tmp_path / "real").mkdir()
    link, file = tmp_path / "link.db", tmp_path / "real" / "log.db"
    link.symlink_to(file)
    by_link, by_file = f"sqlite:///{link}", f"sqlite:///{file}"
    async with open_store(by_link) as store, open_store(by_file) as other:
        await append_to(store, "r", 0, notes("one"))
        assert await other.verify("r") == 1
    async with open_lease(by_link) as held:
        await held.acquire()
        holder, _ = await read_lease(by_file)
        assert holder is not None
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("link.")] == ["link.db"]
    assert parse_store_url(by_link) == parse_store_url(by_file)


@pytest.mark.parametrize("happens", ["deleted", "moved", "replaced", "before the first event"])
async def test_nothing_is_recorded_in_a_file_that_is_not_there_any_more(
    tmp_path: Path, notes: Notes, happens: str
) -> None:
    file, away = tmp_path / "log.db", tmp_path / "away.db"
    if happens == "before the first event":
        async with open_store(f"sqlite:///{file}") as store:
            file.rename(away)
            file.touch()
            with pytest.raises(StoreError, match="deleted, moved or replaced"):
                await append_to(store, "r", 0, notes("one"))
        return
    async with open_store(f"sqlite:///{file}") as store:
        (first,) = await append_to(store, "r", 0, notes("one"))
        file.unlink() if happens == "deleted" else file.rename(away)
        if happens == "replaced":
            with closing(connect(file, creates=True)) as another:
                another.execute("PRAGMA user_version = 1")
        for _ in range(2):
            with pytest.raises(StoreError, match="deleted, moved or replaced while it was in use"):
                await store.append("r", 1, notes("two"), first.hash)
        assert file.exists() == (happens == "replaced")
        if happens == "moved":
            away.rename(file)
            await append_to(store, "r", 1, notes("two"))
    if happens == "moved":
        async with open_store(f"sqlite:///{file}") as store:
            assert await store.verify("r") == 2


async def test_a_folder_that_a_file_has_replaced_is_told(tmp_path: Path, notes: Notes) -> None:
    folder = tmp_path / "folder"
    async with open_store(f"sqlite:///{folder / 'log.db'}") as store:
        await append_to(store, "r", 0, notes("one"))
        folder.rename(tmp_path / "away")
        folder.touch()
        with pytest.raises(StoreError, match="deleted, moved or replaced"):
            await store.append("s", 0, notes("two"), GENESIS)


async def test_a_damaged_file_is_told(tmp_path: Path, notes: Notes) -> None:
    path = tmp_path / "log.db"
    async with open_store(url(path)) as store:
        await append_to(store, "a", 0, notes("a", 200, text="x" * 500))
    raw = bytearray(path.read_bytes())
    raw[4096:] = b"\xaa" * (len(raw) - 4096)
    path.write_bytes(raw)
    with pytest.raises(StoreError, match="damaged; restore it from a copy"):
        async with open_store(url(path)) as store:
            await store.read("a")


async def test_the_event_loop_goes_on_while_another_process_holds_the_file(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.db"
    opened = open_recorder(url(path))
    insert, entered = opened.recorder.insert_events, threading.Event()

    def entering(rows: Sequence[StoredEvent]) -> Sequence[int] | None:
        entered.set()
        return insert(rows)

    monkeypatch.setattr(opened.recorder, "insert_events", entering)
    async with EventStore(opened) as store, asyncio.timeout(DEADLINE):
        with database(path) as holder:
            holder.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(append_to(store, "a", 0, notes("a")))
            assert await asyncio.to_thread(entered.wait, DEADLINE)
            for turn in range(20):
                assert await store.read("a") == ()
                assert not waiting.done(), turn
            holder.execute("ROLLBACK")
        assert len(await waiting) == 1


async def test_what_is_handed_in_while_what_it_builds_on_is_written_conflicts_with_it(
    tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second goes into another transaction, and is at a version that would fit."""
    opened = open_recorder(url(tmp_path / "log.db"))
    insert, entered, released = opened.recorder.insert_events, threading.Event(), threading.Event()

    def held(rows: Sequence[StoredEvent]) -> Sequence[int] | None:
        entered.set()
        released.wait(DEADLINE)
        return insert(rows)

    async with open_store(url(tmp_path / "log.db")) as other, EventStore(opened) as store:
        (start,) = await append_to(store, "a", 0, notes("a"))
        await append_to(other, "a", 1, notes("a", after=1, by="other"))
        monkeypatch.setattr(opened.recorder, "insert_events", held)
        mine = chained("a", notes("a", after=1), notes("a", after=2), version=1, previous=start.hash)
        first = asyncio.create_task(store.hand_in(mine[:1]))
        assert await asyncio.to_thread(entered.wait, DEADLINE)
        second = asyncio.create_task(store.hand_in(mine[1:]))
        await asyncio.sleep(0)
        released.set()
        results = [result for each in await asyncio.gather(first, second) for result in each]
        assert [type(result) for result in results] == [Conflict, Conflict]
        assert [event.actor for event in await store.read("a")] == ["test", "other"]


async def test_a_file_that_stays_held_is_told(tmp_path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redraft.events.sqlite.recorder.connect", partial(connect, seconds=0.05))
    path = tmp_path / "log.db"
    async with open_store(url(path)) as store:
        with database(path) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="another process has held it"):
                await append_to(store, "a", 0, notes("a"))
            holder.execute("ROLLBACK")
        assert len(await append_to(store, "a", 0, notes("a"))) == 1


@pytest.mark.check
async def test_two_processes_write_to_one_run_and_to_many(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    writers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, url(path), name, "40", stdout=-1)
        for name in ("one", "two")
    ]
    said = [(await writer.communicate())[0].decode().split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    async with open_store(url(path)) as store:
        events = [event async for batch in store.tail(0, follow=False) for event in batch]
        assert [event.position for event in events] == list(range(1, len(events) + 1))
        for run in ("one", "two", "shared"):
            assert await store.verify(run) == sum(event.run == run for event in events)
        recorded = {f"{event.run}:{event.version}:{event.id}" for event in events}
        assert set(said[0] + said[1]) == recorded


@pytest.mark.check
async def test_after_a_kill_all_that_was_acknowledged_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    acknowledged: set[str] = set()
    for lines in (1, 7, 50):
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, url(path), f"run-{lines}", "1000000", stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        async with asyncio.timeout(DEADLINE):
            for _ in range(lines):
                acknowledged.add((await writer.stdout.readline()).decode().strip())
            writer.send_signal(signal.SIGKILL)
            acknowledged |= {line for line in (await writer.stdout.read()).decode().split("\n")[:-1] if line}
            await writer.wait()
        async with open_store(url(path)) as store:
            events = [event async for batch in store.tail(0, follow=False) for event in batch]
            assert [event.position for event in events] == list(range(1, len(events) + 1))
            for run in {event.run for event in events}:
                assert await store.verify(run) == sum(event.run == run for event in events)
            assert acknowledged <= {f"{event.run}:{event.version}:{event.id}" for event in events}


WRITER = """
import asyncio, sys, uuid
from datetime import UTC, datetime
from redraft.events.messages.domain_events import StepFailed
from redraft.events.messages.envelope import Origin
from redraft.events.errors import Conflict
from redraft.events.messages.codec import GENESIS
from redraft.events.backends import open_store
from redraft.events.store.event_store import NewEvent

def note():
    return NewEvent(Origin(uuid.uuid4().hex, "w"), datetime.now(UTC), StepFailed("Loop", 1, "error", "x" * 3000))

async def tip(store, run):
    events = await store.read(run)
    return (events[-1].version, events[-1].hash) if events else (0, GENESIS)

async def write(store, run, count):
    version, last = await tip(store, run)
    while count:
        try:
            events = await store.append(run, version, [note(), note()], last)
        except Conflict:
            version, last = await tip(store, run)
            continue
        version, last, count = events[-1].version, events[-1].hash, count - 1
        print(*(f"{e.run}:{e.version}:{e.id}" for e in events), sep="\\n", flush=True)

async def main(url, run, count):
    async with open_store(url) as store:
        await asyncio.gather(write(store, run, int(count)), write(store, "shared", int(count)))

asyncio.run(main(*sys.argv[1:]))
"""


# The library's recorder and ours


@given(groups=ROWS)
def test_our_recorder_gives_what_the_library_gives(groups: list[list[tuple[str, int, str, bytes]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        opened = open_recorder(url(Path(name, "ours.db")))
        ours = opened.recorder
        with closing(SQLiteDatastore(str(Path(name, "theirs.db")), originator_id_type="text")) as datastore:
            theirs = SQLiteApplicationRecorder(datastore)
            theirs.create_table()
            fitting = Fitting()
            for group in groups:
                rows = fitting.rows(group)
                results: list[object] = []
                for recorder in (ours, theirs):
                    try:
                        results.append(list(recorder.insert_events(rows) or ()))
                    except IntegrityError:
                        results.append("conflict")
                assert results[0] == results[1]
                if results[0] != "conflict":
                    fitting.taken(rows)
            assert ours.max_notification_id() == theirs.max_notification_id()
            assert ours.select_notifications(None, 99) == theirs.select_notifications(None, 99)
            for run in "abcd":
                for gt, lte, desc, limit in (
                    (None, None, False, None),
                    (2, 4, False, None),
                    (None, 5, True, 2),
                    (0, None, False, 1),
                ):
                    found = ours.select_events(run, gt=gt, lte=lte, desc=desc, limit=limit)
                    plain = [StoredEvent(r.originator_id, r.originator_version, r.topic, r.state) for r in found]
                    assert plain == theirs.select_events(run, gt=gt, lte=lte, desc=desc, limit=limit)
            with closing(SQLiteDatastore(str(Path(name, "ours.db")), originator_id_type="text")) as again:
                assert SQLiteApplicationRecorder(again).select_notifications(None, 99) == theirs.select_notifications(
                    None, 99
                )
        opened.release()


@pytest.mark.check
async def test_a_group_above_the_rows_of_one_statement_is_still_all_or_nothing(tmp_path: Path, notes: Notes) -> None:
    async with open_store(url(tmp_path / "log.db")) as store, open_store(url(tmp_path / "log.db")) as other:
        await append_to(store, "a", 0, notes("a"))
        await append_to(other, "a", 1, notes("a", after=1, by="other"))
        with pytest.raises(Conflict):
            await append_to(store, "a", 1, notes("a", 9000, after=1))
        assert await store.head() == 2
        assert len(await append_to(store, "a", 2, notes("a", 9000, after=2))) == 9000
        assert await store.verify("a") == 9002
