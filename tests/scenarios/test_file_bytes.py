"""A changed byte of a SQLite file is reported, or changes nothing that can be read; and a sound file is no fault."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
import sys
from base64 import b64encode
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from tests.app.cli_calls import call
from tests.appending import append_to
from tests.events.filled_file import LARGE, MASTER, SHORT, SIZES, audited, written

from redraft.events.backends import open_store
from redraft.events.errors import NoSuchRun, StoreError
from redraft.events.messages.domain_events import IterationStarted
from redraft.events.messages.envelope import Origin
from redraft.events.store.event_store import NewEvent

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


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a few short runs."""
    path = tmp_path_factory.mktemp("small") / "log.db"
    asyncio.run(written(path, 5, SHORT))
    return path


READINGS: Final = (
    "SELECT rowid, * FROM stored_events NOT INDEXED",
    "SELECT rowid, * FROM stored_events ORDER BY originator_id, originator_version",
    "SELECT id FROM redraft_event_ids",
    "SELECT run, CASE run WHEN '' THEN 'there' ELSE wrapped END FROM redraft_keys",
    "SELECT run FROM redraft_imported NOT INDEXED",
    "SELECT run FROM redraft_imported ORDER BY run",
    "SELECT type, name, tbl_name, sql FROM sqlite_master",
    "PRAGMA application_id",
    "PRAGMA user_version",
)
"""What can be read of a log. Of the mark of a store that encrypts, which is a key without a run, nobody reads more."""


def all_of(path: Path) -> list[object] | None:
    """All that can be read of a file; None when it cannot be read."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            return [connection.execute(reading).fetchall() for reading in READINGS]
    except (sqlite3.Error, UnicodeDecodeError):
        return None


@pytest.mark.check
@pytest.mark.parametrize(("seed", "count"), SIZES)
def test_a_changed_byte_of_the_file_is_reported_or_changes_nothing_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, count: int
):
    original, copy = tmp_path / "log.db", tmp_path / "copy.db"
    asyncio.run(written(original, 8, LARGE))
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY", b64encode(MASTER).decode())
    assert audited(original) == 0
    assert not list(tmp_path.glob("log.db-*")), "the write-ahead log is still there"
    whole, known, chance = original.read_bytes(), all_of(original), random.Random(seed)
    reported = 0
    for _ in range(count):
        place = chance.randrange(len(whole))
        byte = whole[place] ^ chance.randrange(1, 256)
        _put(copy, whole, place, byte)
        if audited(copy):
            reported += 1
        else:
            _put(copy, whole, place, byte)
            assert all_of(copy) == known, f"byte {place} is {byte} in place of {whole[place]}, and nobody noticed"
    sys.stdout.write(f"{count} changes of a byte: {reported} were reported, the others changed nothing to read\n")
    assert count / 3 < reported < count, "bytes that hold something were changed, and some that hold nothing"


@pytest.mark.check
def test_a_changed_byte_of_the_header_is_reported_or_changes_nothing_that_can_be_read(small: Path, tmp_path: Path):
    copy, whole, known = tmp_path / "copy.db", small.read_bytes(), all_of(small)
    for place in range(100):
        for change in (1, 0x20):
            _put(copy, whole, place, whole[place] ^ change)
            if not audited(copy):
                _put(copy, whole, place, whole[place] ^ change)
                assert all_of(copy) == known, f"byte {place} was changed, and nobody noticed"


@pytest.mark.parametrize("at", [b"tablestored_events", b"stored_eventsCREATE TRIGGER", b"triggerstored_events"])
def test_a_letter_of_the_schema_in_another_case_is_reported(small: Path, tmp_path: Path, at: bytes):
    """SQLite takes the names of types and tables in any case."""
    whole = small.read_bytes()
    place = whole.index(at)
    _put(tmp_path / "copy.db", whole, place, whole[place] ^ 0x20)
    assert audited(tmp_path / "copy.db") == 1


def test_a_schema_that_is_no_text_is_reported_in_one_line(small: Path, tmp_path: Path):
    """SQLite repeats it in its error, which Python cannot read then."""
    whole, copy = small.read_bytes(), tmp_path / "copy.db"
    _put(copy, whole, whole.index(b"tablestored_events") + len("table"), 0xC7)
    said = call("audit", "--all", "--verify", "--store", f"sqlite:///{copy}")
    assert (said.code, said.err) == (5, f"redraft: store {copy}: it is damaged; restore it from a copy\n")


@pytest.mark.parametrize(
    "statements",
    [
        ("VACUUM",),
        ("REINDEX",),
        ("PRAGMA secure_delete=OFF", "CREATE TABLE other AS SELECT * FROM stored_events", "DROP TABLE other"),
        ("PRAGMA journal_mode=DELETE", "PRAGMA page_size=1024", "VACUUM"),
    ],
    ids=["vacuumed", "indexed anew", "with remains in free pages", "of other pages"],
)
def test_what_changes_nothing_that_can_be_read_is_no_fault(small: Path, tmp_path: Path, statements: tuple[str, ...]):
    path = shutil.copy(small, tmp_path / "copy.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement).fetchall()
    assert audited(path) == 0


def test_a_trigger_that_is_none_of_ours_is_a_fault(small: Path, tmp_path: Path):
    path = shutil.copy(small, tmp_path / "copy.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TRIGGER other BEFORE INSERT ON stored_events BEGIN SELECT 1; END")
    assert audited(path) == 1


def _put(copy: Path, whole: bytes, place: int, byte: int) -> None:
    """Makes a copy of a file in which this place holds that."""
    for left in copy.parent.glob(f"{copy.name}-*"):
        left.unlink()
    copy.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
