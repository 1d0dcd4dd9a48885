"""One changed byte of a database file, wherever it lies, is reported: by the file alone if it was sealed."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from tests.app.cli_calls import call
from tests.appending import append_to
from tests.events.sqlite_bytes import UNCHECKED, Map
from tests.streams import article_told

from redraft.events.domain_events import IterationStarted, RunErased
from redraft.events.envelope import Origin
from redraft.events.errors import NoSuchRun, StoreError
from redraft.events.keyring import Encryption
from redraft.events.sealing import new_run_key, wrapped
from redraft.events.sqlite_file import connect
from redraft.events.sqlite_seal import break_seal
from redraft.events.store import NewEvent, open_store

RUN = "run-that-is-tampered-with"


async def recorded(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        for version in range(4):
            event = NewEvent(Origin(f"e{version}", "test"), datetime.now(UTC), IterationStarted("Loop", version + 1))
            await append_to(store, RUN, version, [event])


async def sound(path: Path) -> bool:
    """Whether every run that the log or the index knows is verified."""
    try:
        async with open_store(f"sqlite:///{path}") as store:
            runs = {RUN}
            async for batch in store.tail(0, follow=False):
                runs |= {event.run for event in batch}
            for run in runs:
                await store.verify(run)
    except (StoreError, NoSuchRun):
        return False
    return True


async def test_a_changed_byte_of_a_runs_id_is_found_in_rows_and_in_the_index(tmp_path: Path):
    original = tmp_path / "log.db"
    await recorded(original)
    assert await sound(original)
    whole = original.read_bytes()
    places = [at for at in range(len(whole)) if whole.startswith(RUN.encode(), at)]
    assert len(places) >= 8
    for number, place in enumerate(places):
        changed = tmp_path / f"changed{number}.db"
        shutil.copy(original, changed)
        with changed.open("r+b") as file:
            file.seek(place + 5)
            file.write(bytes([whole[place + 5] ^ 1]))
        assert not await sound(changed), f"byte {place + 5} was changed, and nobody noticed"


TEXTS = ("Teh sea rises. " * 40, "The sea rises. " * 400, "The sea rises twice a day. " * 900)


async def written(path: Path, runs: int) -> None:
    """A database with pages of every kind: rows that overflow, indexes of several levels, keys, pages that are free."""
    async with open_store(f"sqlite:///{path}", encryption=Encryption(bytes(32), new_runs=False)) as sealed:
        for number in range(3):  # as in a store that does not encrypt what begins
            sealed._keyring.keys.put(f"sealed-{number}", wrapped(bytes(32), new_run_key()))
            await append_to(sealed, f"sealed-{number}", 0, _events(f"sealed-{number}"))
        await sealed.destroy_key("sealed-1")
        gone = NewEvent(Origin("erased", "ada"), datetime(2026, 3, 1, tzinfo=UTC), RunErased("ada"))
        await append_to(sealed, "sealed-1", 22, [gone])
    async with open_store(f"sqlite:///{path}") as store:
        for number in random.Random(3).sample(range(runs), runs):
            run = f"run-{number:04}-{'of-a-long-name' * 3}"
            await append_to(store, run, 0, _events(run))


def _events(run: str) -> list[NewEvent]:
    told = article_told(TEXTS)
    return [
        NewEvent(Origin(f"{run}/{n}", actor), datetime(2026, 3, 1, tzinfo=UTC), data)
        for n, (actor, data) in enumerate(told)
    ]


def rows_of(path: Path) -> list[object] | None:
    """All that can be read of a database; None when it cannot be read."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT rowid, * FROM stored_events").fetchall()
            by_run = connection.execute("SELECT * FROM stored_events ORDER BY 1, 2").fetchall()
            rest = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
            return [rows, by_run, rest, connection.execute("SELECT * FROM redraft_keys").fetchall()]
    except sqlite3.Error:
        return None


def changes(whole: bytes, chance: random.Random) -> Iterator[tuple[int, int]]:
    """Places, and what is put there in place of what there is."""
    while True:
        place = chance.randrange(len(whole))
        yield place, whole[place] ^ chance.randrange(1, 256)


LONG = [pytest.mark.chaos, pytest.mark.timeout(1_200)]
SIZES = [(30, 100, 1), *(pytest.param(60, 1_000, seed, marks=LONG) for seed in (2, 3, 4))]


@pytest.mark.parametrize(("runs", "count", "seed"), SIZES)
def test_a_random_change_of_a_byte_is_reported(tmp_path: Path, runs: int, count: int, seed: int):
    """Each of them, anywhere in the file, by the file alone: it was sealed when it was closed."""
    original = tmp_path / "log.db"
    asyncio.run(written(original, runs))
    assert not list(tmp_path.glob("log.db-*")), "the write-ahead log is still there"
    silent = dict(_silent(original, count, seed))
    assert not silent, f"changes were not reported: {silent}"
    sys.stdout.write(f"{count} changes, {count} reported\n")


@pytest.mark.parametrize(("runs", "count", "seed"), SIZES)
def test_a_random_change_of_a_byte_in_a_file_that_is_not_sealed(tmp_path: Path, runs: int, count: int, seed: int):
    """What such a file alone does not show lies where SQLite itself leaves bytes that nobody reads, or in a key.

    A checkpoint shows that too, so that each change is reported.
    """
    original, copy = tmp_path / "log.db", tmp_path / "copy.db"
    asyncio.run(written(original, runs))
    with closing(connect(original)) as connection:
        break_seal(connection)
    whole, known = original.read_bytes(), rows_of(original)
    held = Map(whole)
    keys = places_of_keys(original, whole)
    key, signed = tmp_path / "key", tmp_path / "signed.json"
    assert call("key", "signing", str(key)).code == 0
    assert call("audit", "--all", "--checkpoint", str(signed), "--key", str(key), "--store", url(original)).code == 0
    assert original.read_bytes() == whole
    silent: list[int] = []
    for place, byte in _silent(original, count, seed):
        silent.append(place)
        copy.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
        against = ("--against", str(signed), "--public-key", f"{key}.pub")
        said = call("audit", "--all", *against, "--store", url(copy))
        assert said.code == 1, f"byte {place} was changed to {byte}, and not even the checkpoint shows it"
        assert place in keys or rows_of(copy) == known, f"byte {place} is now {byte}, and other rows are read"
    allowed = [place for place in silent if held.may_be_left(place) or place in UNCHECKED or place in keys]
    assert silent == allowed, f"changes were not reported, at {sorted(set(silent) - set(allowed))[:10]}"
    assert len(silent) <= count / 50, "the file alone should show nearly all"
    sys.stdout.write(f"{count} changes, {count - len(silent)} reported by the file alone, all with a checkpoint\n")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    asyncio.run(written(path, 2))
    return path


@pytest.mark.parametrize("change", [3, *(pytest.param(change, marks=LONG) for change in (1, 0x20, 0xFF))])
def test_a_change_of_any_byte_of_the_header_is_reported(small: Path, change: int):
    whole = small.read_bytes()
    assert not [place for place in range(100) if not _is_reported(small, whole, place, whole[place] ^ change)]


@pytest.mark.parametrize("change", [8, *(pytest.param(change, marks=LONG) for change in (1, 0x20))])
def test_a_change_of_any_byte_of_the_seal_and_of_its_page_is_reported(small: Path, change: int):
    whole = small.read_bytes()
    with closing(sqlite3.connect(small)) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'redraft_seal'").fetchall()
    used, start = Map(whole).used, (root - 1) * 4096
    places = [place for place in range(start, start + 4096) if used[place]]
    assert len(places) > 92
    assert not [place for place in places if not _is_reported(small, whole, place, whole[place] ^ change)]


@pytest.mark.parametrize("at", [b"tablestored_events", b"stored_eventsCREATE TRIGGER", b"triggerstored_events"])
def test_a_letter_of_the_schema_in_another_case_is_reported(small: Path, at: bytes):
    """SQLite takes the names of types and tables in any case; no seal is needed to see it."""
    with closing(connect(small)) as connection:
        break_seal(connection)
    whole = small.read_bytes()
    place = whole.index(at)
    assert _is_reported(small, whole, place, whole[place] ^ 0x20)


def _silent(original: Path, count: int, seed: int) -> Iterator[tuple[int, int]]:
    """The changes of so many, of a file without a fault, that its audit does not report: places, and what they hold."""
    assert _reported(original) == 0
    whole = original.read_bytes()
    for place, byte in islice(changes(whole, random.Random(seed)), count):
        if not _is_reported(original, whole, place, byte):
            yield place, byte


def _is_reported(original: Path, whole: bytes, place: int, byte: int) -> bool:
    """Whether an audit of a copy reports it when this place holds that."""
    copy = original.with_name("copy.db")
    for left in copy.parent.glob("copy.db*"):
        left.unlink()
    copy.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
    return _reported(copy) != 0


def places_of_keys(path: Path, whole: bytes) -> set[int]:
    """Where wrapped keys lie, which only the encryption key, or a checkpoint, can tell from others."""
    with closing(sqlite3.connect(path)) as connection:
        found = [wrapped for (wrapped,) in connection.execute("SELECT wrapped FROM redraft_keys")]
    return {at for wrapped in found for at in range(whole.index(wrapped), whole.index(wrapped) + len(wrapped))}


def _reported(path: Path) -> int:
    return call("audit", "--all", "--verify", "--store", url(path)).code


def url(path: Path) -> str:
    return f"sqlite:///{path}"
