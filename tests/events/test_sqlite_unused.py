"""Bytes of a SQLite file that hold nothing: sound files are never reported, changed bytes are."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.app.cli_calls import call
from tests.appending import append_to
from tests.events.sqlite_bytes import Map
from tests.events.test_store_tampered import _events, url, written

from redraft.events import sqlite_check, sqlite_file
from redraft.events.recorders import open_recorder
from redraft.events.run_keys import SqliteKeys
from redraft.events.sqlite_snapshot import file_at_rest
from redraft.events.sqlite_unused import LOCKS, Stray, Tree, Walk
from redraft.events.store import open_store

KILLED = """
import asyncio, os, signal, sys
from tests.events.test_store_tampered import _events
from redraft.events.store import open_store

async def write():
    store = open_store(f"sqlite:///{sys.argv[1]}")
    for run in ("one", "two", "three"):
        await store.append(run, 0, _events(run))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(write())
"""


def audited(path: Path) -> tuple[int, str]:
    said = call("audit", "--all", "--verify", "--store", url(path))
    return said.code, said.err


def strays(path: Path) -> list[Stray]:
    """What a walk finds in a file that is at rest."""
    with closing(sqlite3.connect(path)) as connection, path.open("rb") as file:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        found = connection.execute("SELECT rootpage, tbl_name FROM sqlite_master WHERE rootpage > 0").fetchall()
        trees = [Tree(root, only_added=name == "stored_events") for root, name in found]
        return list(Walk(file, pages).strays([Tree(1, only_added=True), *trees]))


def statements(*wanted: str) -> Callable[[Path], None]:
    def carry_out(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in wanted:
                connection.execute(statement).fetchall()

    return carry_out


def page_size(size: int) -> Callable[[Path], None]:
    return statements(
        "PRAGMA journal_mode=DELETE", f"PRAGMA page_size={size}", "VACUUM", "PRAGMA journal_mode=WAL", "SELECT 1"
    )


def keys_come_and_go(path: Path) -> None:
    """Many keys in many pages, most of them destroyed: pages are merged and freed, and used again."""
    chance = random.Random(5)
    runs = [f"key-{chance.randrange(10**9)}-{'x' * chance.randrange(40)}" for _ in range(600)]
    with closing(sqlite_file.connect(path)) as connection:
        connection.execute("BEGIN")
        for run in runs:
            connection.execute("INSERT INTO redraft_keys VALUES (?, ?)", (run, chance.randbytes(40)))
        connection.execute("COMMIT")
        chance.shuffle(runs)
        connection.execute("BEGIN")
        for run in runs[:560]:
            connection.execute("DELETE FROM redraft_keys WHERE run = ?", (run,))
        connection.execute("COMMIT")


def more_events_in_freed_pages(path: Path) -> None:
    """One more run in the place of a good many keys: its rows overflow into pages that were free."""
    keys_come_and_go(path)

    async def append() -> None:
        async with open_store(url(path)) as store:
            await append_to(store, "one-more", 0, _events("one-more"))

    free = path.read_bytes()[36:40]
    asyncio.run(append())
    assert path.read_bytes()[36:40] < free


@pytest.mark.parametrize(
    "afterwards",
    [
        pytest.param(statements(), id="as it is"),
        pytest.param(statements("VACUUM"), id="vacuumed"),
        pytest.param(statements("PRAGMA secure_delete=OFF", "VACUUM"), id="vacuumed without zeros"),
        pytest.param(page_size(1024), id="pages of 1 KiB"),
        pytest.param(page_size(65536), id="pages of 64 KiB"),
        pytest.param(keys_come_and_go, id="keys come and go"),
        pytest.param(more_events_in_freed_pages, id="pages that were free"),
    ],
)
def test_a_sound_file_is_not_reported(tmp_path: Path, afterwards: Callable[[Path], None]):
    path = tmp_path / "log.db"
    asyncio.run(written(path, 20))
    afterwards(path)
    if afterwards is keys_come_and_go:
        assert int.from_bytes(path.read_bytes()[36:40]) > 10, "there are free pages"
    assert audited(path) == (0, "")
    assert strays(path) == []


def test_an_imported_archive_is_not_reported(tmp_path: Path):
    path, copy, archive = tmp_path / "log.db", tmp_path / "copy.db", tmp_path / "archive"
    asyncio.run(written(path, 20))
    assert call("export", "-o", str(archive), "--store", url(path)).code == 0
    assert call("import", str(archive), "--store", url(copy)).code == 0
    assert audited(copy) == (0, "")


def test_a_store_whose_writer_was_killed_is_not_reported(tmp_path: Path):
    path = tmp_path / "log.db"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL
    assert path.with_name("log.db-wal").stat().st_size, "the write-ahead log should be left"
    assert audited(path) == (0, "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("made") / "log.db"
    asyncio.run(written(path, 12))
    keys_come_and_go(path)
    return path.read_bytes()


@pytest.fixture
def sound(tmp_path: Path, made: bytes) -> Path:
    path = tmp_path / "log.db"
    path.write_bytes(made)
    return path


def test_each_byte_that_must_be_zero_is_found(sound: Path):
    """A sample of all that holds nothing outside the pages from which cells are taken away."""
    whole, chance = sound.read_bytes(), random.Random(6)
    held = Map(whole)
    unused = [at for at in range(len(whole)) if not held.used[at] and not held.may_be_left(at)]
    assert not any(whole[at] for at in unused)
    for place in chance.sample(unused, 100):
        with sound.open("r+b") as file:
            file.seek(place)
            file.write(bytes([chance.randrange(1, 256)]))
            file.flush()
            assert strays(sound) == [Stray(place, place // 4096 + 1)]
            file.seek(place)
            file.write(b"\0")


def test_the_fault_names_the_place_and_the_remedy(tmp_path: Path):
    path = tmp_path / "log.db"
    asyncio.run(written(path, 12))
    whole = path.read_bytes()
    held = Map(whole)
    place = next(at for at in range(len(whole) - 1, 0, -1) if not held.used[at] and not held.may_be_left(at))
    path.write_bytes(whole[:place] + b"x" + whole[place + 1 :])
    code, told = audited(path)
    assert code == 1
    assert told.startswith(
        f"redraft: file {path}: byte {place} (page {place // 4096 + 1}) holds nothing, yet is not zero"
    )
    assert told.count("\n") == 1
    assert "redraft export, and redraft import" in told


def test_the_page_of_locks_is_looked_at(tmp_path: Path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.write(bytes(16) + (4096).to_bytes(2) + bytes(82))
        file.truncate(LOCKS + 8192)
        pages = LOCKS // 4096 + 2
        with path.open("rb") as read:
            assert list(Walk(read, pages).strays([])) == []
        file.seek(LOCKS + 7)
        file.write(b"x")
    with path.open("rb") as read:
        assert list(Walk(read, pages).strays([])) == [Stray(LOCKS + 7, LOCKS // 4096 + 1)]


@pytest.mark.parametrize("seed", range(60))
def test_a_walk_through_a_damaged_file_ends(sound: Path, seed: int):
    """Pointers to nowhere, loops, sizes that cannot be: nothing is raised."""
    whole, chance = bytearray(sound.read_bytes()), random.Random(seed)
    for _ in range(400):
        page = chance.randrange(len(whole) // 4096)
        whole[page * 4096 + chance.choice((chance.randrange(16), chance.randrange(4096)))] = chance.randrange(256)
    whole[:100] = sound.read_bytes()[:100]
    sound.write_bytes(whole[: chance.choice((len(whole), chance.randrange(200, len(whole))))])
    with sound.open("rb") as file:
        list(Walk(file, len(whole) // 4096).strays([Tree(root, only_added=root < 4) for root in range(1, 8)]))


@pytest.fixture
def unsafe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An SQLite that was compiled to leave what is deleted where it is."""
    connect = sqlite3.connect

    def plain(*given: object, **named: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)  # type: ignore[call-overload]
        connection.execute("PRAGMA secure_delete=OFF")
        return connection

    monkeypatch.setattr(sqlite_file.sqlite3, "connect", plain)
    yield
    monkeypatch.undo()


def test_every_connection_that_writes_overwrites_what_it_deletes(unsafe: None, tmp_path: Path):
    path = tmp_path / "log.db"
    opened = open_recorder(url(path))
    asked = "PRAGMA secure_delete"
    for commits in (True, False):
        with opened.recorder.datastore.transaction(commit=commits) as cursor:  # type: ignore[attr-defined]
            cursor.execute(asked)
            assert tuple(cursor.fetchone()) == (1,)
    with opened.recorder.writing() as connection:  # type: ignore[attr-defined]
        assert connection.execute(asked).fetchone() == (1,)
    assert isinstance(opened.keys, SqliteKeys)
    with opened.keys._connection() as connection:
        assert connection.execute(asked).fetchone() == (1,)
    with closing(sqlite_file.connect(path)) as connection:
        assert connection.execute(asked).fetchone() == (1,)
    opened.keys.close()
    opened.release()


def test_the_file_stays_as_it_is_while_it_is_at_rest(sound: Path):
    with closing(sqlite_file.connect(sound)) as reader, closing(sqlite_file.connect(sound)) as writer:
        writer.execute("CREATE TABLE more (x)")
        with file_at_rest(reader, sound) as at_rest:
            before = sound.read_bytes()
            assert at_rest
            assert b"CREATE TABLE more" in before, "the log was not moved into the file"
            writer.execute("INSERT INTO more VALUES (zeroblob(9000))")
            writer.execute("PRAGMA wal_checkpoint(PASSIVE)")
            assert sound.read_bytes() == before
        writer.execute("PRAGMA wal_checkpoint(PASSIVE)")
        assert sound.read_bytes() != before


def test_a_store_that_is_never_quiet_is_audited_but_for_unused_bytes(sound: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite_check, "file_at_rest", partial(file_at_rest, seconds=0))
    statements("DELETE FROM redraft_keys WHERE run LIKE 'key-%'")(sound)
    with closing(sqlite_file.connect(sound)) as reader, closing(sqlite_file.connect(sound)) as writer:
        reader.execute("BEGIN")
        reader.execute("SELECT 1 FROM sqlite_master").fetchone()
        writer.execute("DELETE FROM redraft_keys WHERE run = 'nobody'")
        writer.execute("INSERT INTO redraft_keys VALUES ('nobody', x'00')")
        said = call("audit", "--all", "--verify", "--store", url(sound))
        assert (said.code, said.err) == (0, "")
        assert (
            "the bytes that hold nothing were not looked at, because the store is written to all the time" in said.out
        )


def test_looking_at_the_file_gives_up_no_lock_of_this_process(tmp_path: Path):
    """Else another process takes itself for the last that has the store open, and takes the write-ahead log away."""
    path = tmp_path / "log.db"
    opened = open_recorder(url(path))
    with opened.recorder.datastore.transaction(commit=False) as cursor:  # type: ignore[attr-defined]
        cursor.execute("SELECT 1 FROM sqlite_master")
    assert opened.check is not None
    assert not opened.check().faults
    touch = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT 1 FROM sqlite_master'); c.close()"
    subprocess.run([sys.executable, "-c", touch, str(path)], check=True)
    assert path.with_name("log.db-wal").exists()
    opened.release()
    assert not path.with_name("log.db-wal").exists()
