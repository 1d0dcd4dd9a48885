"""To look whose a file is must not take away the locks of those who have it open in the same process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.appending import append_to

from redraft.events.backends import open_store
from redraft.events.messages.domain_events import IterationStarted
from redraft.events.messages.envelope import Origin
from redraft.events.sqlite.file import APPLICATION_ID, SCHEMA_VERSION, Identity, identity_of
from redraft.events.store.event_store import NewEvent
from redraft.projections.backends import open_views
from redraft.projections.engine.projection import Projection, Put, Table

COUNTED = Projection("counted", 1, (Table("counted", {"id": "TEXT NOT NULL"}),), lambda event: [row_of(event.id)])


def row_of(name: str) -> Put:
    return Put("counted", {"id": name})


def new(number: int) -> NewEvent:
    return NewEvent(Origin(f"e{number}", "test"), datetime.now(UTC), IterationStarted("Loop", number + 1))


def seen_elsewhere(path: Path, table: str) -> int:
    """How many rows another process sees, which closes the file as if it were the last to have it open."""
    script = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1])\n"
        "print(len(connection.execute('SELECT * FROM ' + sys.argv[2]).fetchall()))\n"
        "connection.close()"
    )
    command = [sys.executable, "-c", script, str(path), table]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


async def test_what_a_store_commits_after_another_was_opened_on_the_file_is_not_lost(tmp_path: Path):
    path = tmp_path / "log.db"
    async with open_store(f"sqlite:///{path}") as store:
        await append_to(store, "a", 0, [new(0)])
        async with open_store(f"sqlite:///{path}"):
            assert seen_elsewhere(path, "stored_events") == 1
            await append_to(store, "a", 1, [new(1)])
            assert seen_elsewhere(path, "stored_events") == 2


async def test_what_a_store_commits_after_another_was_audited_and_closed_is_not_lost(tmp_path: Path):
    path = tmp_path / "log.db"
    async with open_store(f"sqlite:///{path}") as store:
        await append_to(store, "a", 0, [new(0)])
        async with open_store(f"sqlite:///{path}") as audited:
            assert not (await audited.verify_all()).count
        assert seen_elsewhere(path, "stored_events") == 1
        await append_to(store, "a", 1, [new(1)])
        assert seen_elsewhere(path, "stored_events") == 2


async def test_nor_is_what_read_models_write(tmp_path: Path):
    path = tmp_path / "views.db"
    async with open_store("memory:") as log, open_views(path, [COUNTED]) as views:
        (first,) = await append_to(log, "a", 0, [new(0)])
        (second,) = await append_to(log, "a", 1, [new(1)])
        await views.write([first], 0)
        async with open_views(path, [COUNTED]):
            assert seen_elsewhere(path, "counted") == 1
            await views.write([second], 1)
            assert seen_elsewhere(path, "counted") == 2


async def test_the_identity_of_a_store(tmp_path: Path):
    path = tmp_path / "a folder" / "50% of ü?#.db"
    async with open_store(f"sqlite:///{path}") as store:
        await append_to(store, "a", 0, [new(0)])
        assert identity_of(path) == Identity(APPLICATION_ID, SCHEMA_VERSION)
    before = path.read_bytes()
    assert identity_of(path) == Identity(APPLICATION_ID, SCHEMA_VERSION)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [b"x", b"SQLite format 3\0", bytes(511), b"{}" * 5000, bytes(4096)])
def test_what_is_no_database_has_none(tmp_path: Path, content: bytes):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert identity_of(path) is None
    assert path.read_bytes() == content


def test_a_damaged_database_still_says_whose_it_is(tmp_path: Path):
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id=77")
        connection.execute("CREATE TABLE t (a)")
    whole = path.read_bytes()
    path.write_bytes(whole[:16] + b"\0\7" + whole[18:])
    assert identity_of(path) == Identity(77, 0)


def test_a_file_that_may_not_be_read_is_an_error_of_the_system(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        identity_of(tmp_path / "nothing")
