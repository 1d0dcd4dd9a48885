"""The seal of a SQLite file: it is written when a store that wrote is closed, and sound files are never reported."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.appending import append_to
from tests.events.test_sqlite_unused import audited, statements
from tests.events.test_store_tampered import _events, url, written

from redraft.events import recorders, sqlite_seal
from redraft.events.content import Brief
from redraft.events.domain_events import DomainEvent, RunGuided, RunStarted
from redraft.events.envelope import Origin
from redraft.events.errors import Conflict
from redraft.events.keyring import Encryption
from redraft.events.plan import Plan, Step
from redraft.events.run_keys import SqliteKeys
from redraft.events.sqlite_file import connect
from redraft.events.sqlite_seal import BROKEN, FAULT, UNSEALED, Seal
from redraft.events.store import NewEvent, open_store

Notes = Callable[..., list[NewEvent]]

KILLED = """
import asyncio, os, signal, sys
from tests.events.test_store_tampered import _events
from redraft.events.keyring import Encryption
from redraft.events.store import open_store

async def write():
    store = open_store(f"sqlite:///{sys.argv[1]}", encryption=Encryption(bytes(32), new_runs=False))
    match sys.argv[2]:
        case "append":
            await store.append("one", 0, _events("one"))
        case "destroy":
            await store.destroy_key("sealed-0")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(write())
"""


@pytest.fixture
def notes() -> Notes:
    """Runs whose record is true: they begin, and a person says something of the length of `text` again and again."""

    def make(run: str, count: int = 1, *, text: str = "") -> list[NewEvent]:
        time = datetime(2026, 3, 1, tzinfo=UTC)
        told: list[DomainEvent] = [RunStarted(Plan("p", (Step("generator", "write", "write"),)), Brief("b"), time)]
        told += [RunGuided(f"word {n}{text}", "ann", key=str(n)) for n in range(1, count)]
        return [NewEvent(Origin(f"{run}/{n}", "test"), time, event) for n, event in enumerate(told)]

    return make


ELSEWHERE = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]).fetchall(); c.close()"


def seal_of(path: Path) -> Seal:
    with closing(sqlite3.connect(path)) as connection:
        ((row,),) = connection.execute("SELECT seal FROM redraft_seal").fetchall()
    sealed = Seal.unpacked(row)
    assert sealed is not None
    return sealed


async def append(path: Path, run: str, events: list[NewEvent]) -> None:
    async with open_store(url(path)) as store:
        await append_to(store, run, 0, events)


def killed(path: Path, doing: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), doing], check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL


def change_a_key(path: Path) -> None:
    """What nobody but the seal, or a checkpoint, can tell."""
    with closing(sqlite3.connect(path)) as connection:
        ((wrapped,),) = connection.execute("SELECT wrapped FROM redraft_keys ORDER BY run DESC LIMIT 1").fetchall()
    whole = path.read_bytes()
    place = whole.index(wrapped) + 7
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    asyncio.run(written(path, 3))
    assert audited(path) == (0, "")
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file that was made before there were seals."""
    path = tmp_path / "old.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorders, "LAY_OUT", ())
        patch.setattr(recorders, "seal_file", lambda *_: None)
        asyncio.run(written(path, 3))
    assert b"redraft_seal" not in path.read_bytes()
    return path


def test_a_store_that_wrote_seals_its_file_when_it_is_closed(path: Path):
    sealed = seal_of(path)
    assert sealed.changes == int.from_bytes(path.read_bytes()[24:28])
    assert (sealed.head, sealed.keys) == (3 * 22 + 1 + 3 * 22, 2)
    change_a_key(path)
    code, told = audited(path)
    assert code == 1
    assert told == f"redraft: file {path}: {FAULT}\n"


@pytest.mark.parametrize("age", ["path", "old"])
def test_a_store_that_only_read_changes_nothing(request: pytest.FixtureRequest, age: str):
    path: Path = request.getfixturevalue(age)

    async def read() -> None:
        async with open_store(url(path)) as store:
            assert (await store.verify_all()).faults == ()
            assert not await store.destroy_key("nobody")
            with pytest.raises(Conflict):
                await store.append("sealed-0", 3, _events("sealed-0"), "f" * 64)

    before = path.read_bytes()
    asyncio.run(read())
    assert path.read_bytes() == before


def test_a_file_of_before_there_were_seals_is_sealed_when_it_was_written_to(old: Path):
    assert audited(old) == (0, "")
    asyncio.run(append(old, "more", _events("more")))
    assert audited(old) == (0, "")
    change_a_key(old)
    assert audited(old) == (1, f"redraft: file {old}: {FAULT}\n")


@pytest.mark.parametrize("rounds", [range(0, 40, 3), pytest.param(range(40), marks=pytest.mark.check)], ids=len)
def test_a_file_that_is_written_to_and_closed_many_times_is_not_reported(path: Path, notes: Notes, rounds: range):
    for number in rounds:
        asyncio.run(append(path, f"run-{number}", notes(f"run-{number}", 1 + number % 3, text="x" * (97 * number))))
        assert audited(path) == (0, "")
        assert seal_of(path).changes == int.from_bytes(path.read_bytes()[24:28])


@pytest.mark.parametrize("first", [0, 1])
async def test_two_stores_on_one_file_are_closed_in_either_order(path: Path, notes: Notes, first: int):
    stores = [open_store(url(path)) for _ in range(2)]
    for number, store in enumerate(stores):
        await append_to(store, f"of-{number}", 0, notes(f"of-{number}", 2))
    await stores[first].close()
    assert await asyncio.to_thread(audited, path) == (0, "")
    await append_to(stores[1 - first], "last", 0, notes("last"))
    assert await asyncio.to_thread(audited, path) == (0, "")
    await stores[1 - first].close()
    assert await asyncio.to_thread(audited, path) == (0, "")
    change_a_key(path)
    assert (await asyncio.to_thread(audited, path))[0] == 1


def test_after_a_writer_that_was_killed_nothing_is_claimed(path: Path):
    before = seal_of(path)
    killed(path, "append")
    assert seal_of(path) == before
    assert audited(path) == (0, "")
    change_a_key(path)
    assert audited(path) == (0, ""), "the seal is of a file to which something was added"
    asyncio.run(append(path, "more", _events("more")))
    assert seal_of(path).head > before.head
    assert audited(path) == (0, "")


def test_a_key_that_is_destroyed_breaks_the_seal(path: Path):
    """Another key would make as many as were sealed, and no event tells of either."""
    killed(path, "destroy")
    assert seal_of(path) == UNSEALED
    with closing(connect(path)) as connection:
        connection.execute("INSERT INTO redraft_keys VALUES ('other', zeroblob(40))")
    code, told = audited(path)
    assert code == 1
    assert told == ("redraft: run sealed-0 cannot be read any more: its key is gone, and no erasure is recorded\n")


def test_a_key_that_was_put_or_destroyed_is_sealed_when_the_store_is_closed(path: Path):
    for change in (lambda keys: keys.put("other", bytes(40)), lambda keys: keys.destroy("other")):
        before = seal_of(path)

        async def closed(change: Callable[[SqliteKeys], object] = change) -> None:
            async with open_store(url(path), encryption=Encryption(bytes(32))) as store:
                assert isinstance(store._keyring.keys, SqliteKeys)
                change(store._keyring.keys)

        asyncio.run(closed())
        assert seal_of(path) not in (before, UNSEALED)
        assert audited(path) == (0, "")


@pytest.mark.parametrize("statement", ["VACUUM", "REINDEX", "PRAGMA journal_mode=DELETE"])
def test_what_another_program_does_to_the_file_as_a_whole_is_no_fault(path: Path, statement: str):
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(path), statement], check=True)
    assert audited(path) == (0, "")
    asyncio.run(append(path, "more", _events("more")))
    assert audited(path) == (0, "")


def test_a_seal_that_was_changed_is_told_and_left_as_it_is(path: Path):
    statements("UPDATE redraft_seal SET seal = zeroblob(92)")(path)
    told = f"redraft: file {path}: {BROKEN}\n"
    assert audited(path) == (1, told)
    asyncio.run(append(path, "more", _events("more")))
    assert audited(path) == (1, told)
    statements("DELETE FROM redraft_seal")(path)
    assert audited(path) == (1, told)


async def test_who_cannot_seal_a_file_closes_it_without_an_error(
    path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_seal, "WAIT_SECONDS", 0.01)
    before = seal_of(path)
    store = open_store(url(path))
    await append_to(store, "more", 0, notes("more"))
    with closing(connect(path)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        await store.close()
        holder.execute("ROLLBACK")
    assert seal_of(path) == before
    assert await asyncio.to_thread(audited, path) == (0, "")


def reading(meanwhile: Callable[[], None]) -> Callable[[Path, float], sqlite3.Connection]:
    """Opens a file for who seals it; this happens while the file is read."""

    class Reading(sqlite3.Connection):
        def serialize(self, *given: str, **named: str) -> bytes:
            meanwhile()
            return super().serialize(*given, **named)

    return lambda path, seconds: sqlite3.connect(path, timeout=seconds, isolation_level=None, factory=Reading)


async def test_what_another_commits_while_the_file_is_read_is_not_sealed(
    path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch
):
    before = seal_of(path)
    async with open_store(url(path)) as store:
        await append_to(store, "more", 0, notes("more"))
        with closing(connect(path)) as other:

            def disturb() -> None:
                other.execute("INSERT INTO redraft_keys VALUES ('other', zeroblob(40))")

            monkeypatch.setattr(sqlite_seal, "connect", reading(disturb))
            await store.close()
    monkeypatch.undo()
    assert seal_of(path) == before
    assert await asyncio.to_thread(audited, path) == (0, "")


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk is full"), OSError("no"), MemoryError()])
async def test_an_error_while_sealing_is_none_of_who_closes(
    path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def refuse() -> None:
        raise error

    before = seal_of(path)
    monkeypatch.setattr(sqlite_seal, "connect", reading(refuse))
    await append(path, "more", notes("more"))
    assert seal_of(path) == before
    monkeypatch.undo()
    assert await asyncio.to_thread(audited, path) == (0, "")


def test_a_large_file_is_not_sealed(path: Path, notes: Notes, monkeypatch: pytest.MonkeyPatch):
    before = seal_of(path)
    monkeypatch.setattr(sqlite_seal, "MOST_BYTES", path.stat().st_size - 1)
    asyncio.run(append(path, "more", notes("more")))
    assert seal_of(path) == before
    assert audited(path) == (0, "")


async def test_sealing_gives_up_no_lock_of_this_process(path: Path, notes: Notes):
    """Else another process takes itself for the last that has the store open, and takes the write-ahead log away."""
    stores = [open_store(url(path)) for _ in range(2)]
    for number, store in enumerate(stores):
        await append_to(store, f"of-{number}", 0, notes(f"of-{number}"))
    await stores[0].close()
    inode = os.stat(f"{path}-wal").st_ino  # noqa: PTH116
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", ELSEWHERE, str(path), "SELECT 1 FROM sqlite_master"], check=True
    )
    assert os.stat(f"{path}-wal").st_ino == inode  # noqa: PTH116
    await stores[1].close()
