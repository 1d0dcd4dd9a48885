"""Keeps the checkpoint of each projection in the same transaction as its rows, and reports progress to those who wait.

A projection has one live set of tables that readers see, and a second, shadow set while a new version or a rebuild is
under way. Each set has a checkpoint, stored under its own name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.events.errors import IncompatibleStore, InputError
from redraft.events.messages.envelope import Unreadable
from redraft.projections.engine.projection import SHADOW_SUFFIX, Projection, Table
from redraft.projections.engine.storage import Checkpoints, Cursor, ProjectionCheckpoint, Tables, row_decoder

SYSTEM_TABLES: Final = {
    "redraft_projections": "track TEXT PRIMARY KEY, version BIGINT NOT NULL, build BIGINT NOT NULL, "
    "tables TEXT NOT NULL, failed BIGINT NOT NULL, error TEXT NOT NULL",
    "redraft_aside": "track TEXT NOT NULL, run TEXT NOT NULL, version BIGINT NOT NULL, position BIGINT NOT NULL, "
    "error TEXT NOT NULL, again BIGINT NOT NULL, PRIMARY KEY (track, run)",
    "redraft_log": "first TEXT NOT NULL",
    "tracking": "application_name TEXT PRIMARY KEY, notification_id BIGINT",
}
"""The tables that hold checkpoints, with their columns. `tracking` is laid out as by the `eventsourcing` library.

In `redraft_aside`, the runs that are set aside, `again` is 1 when the event could not be read, which another release
may be able to do.
"""

_CHECKPOINTS: Final = """
    SELECT track, version, coalesce(notification_id, 0), build, failed, error
    FROM redraft_projections LEFT JOIN tracking ON application_name = track
"""
_MOVE: Final = """
    INSERT INTO tracking (application_name, notification_id) VALUES (?, ?)
    ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id
    WHERE tracking.notification_id < excluded.notification_id
"""

Shape: TypeAlias = dict[str, list[str]]
"""The columns of each table with their types, as they were when the table was created."""


class AsideRun(msgspec.Struct, frozen=True):
    """A run whose events, from `version` on, are not projected to the tables of `checkpoint_name`.

    `position` is that event's position in the log, `error` the reason; with `again`, another release may be able to
    read it.
    """

    checkpoint_name: str
    run: str
    version: int
    position: int
    error: str
    again: bool


def shadow_name(name: str) -> str:
    """Returns the name of the shadow checkpoint of a projection, or of the shadow of a table."""
    return name + SHADOW_SUFFIX


def stored_table(table: Table, checkpoint_name: str, build: int) -> Table:
    """Returns a table under its stored name: a shadow table has a suffix, and indexes are named for each build."""
    name = shadow_name(table.name) if checkpoint_name.endswith(SHADOW_SUFFIX) else table.name
    indexes = {f"{table.name}_i{number}_{build}": rest for number, rest in enumerate(table.indexes.values())}
    return replace(table, name=name, indexes=indexes)


def columns_of(table: Table) -> list[str]:
    """Returns the columns of a table with their types, as `Shape` has them."""
    return [f"{name} {kind}" for name, kind in table.columns.items()]


class Positions:
    """Reads and moves checkpoints, creates and drops tables; every call is part of the caller's transaction."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def create(self, cursor: Cursor) -> None:
        """Creates the tables for checkpoints if they are missing."""
        existing = self._tables.existing(cursor)
        for name, columns in SYSTEM_TABLES.items():
            if name not in existing:
                self._tables.define(cursor, name, columns)

    def checkpoints(self, cursor: Cursor) -> Checkpoints:
        """Returns all checkpoints by name."""
        rows = msgspec.convert(cursor.execute(_CHECKPOINTS).fetchall(), list[tuple[str, int, int, int, int, str]])
        return {row[0]: ProjectionCheckpoint(*row[1:]) for row in rows}

    def move(self, cursor: Cursor, checkpoint_name: str, position: int) -> None:
        """Raises the position of a checkpoint."""
        cursor.execute(_MOVE, (checkpoint_name, position))

    def fail(self, cursor: Cursor, checkpoint_name: str, failed: int, error: str) -> None:
        """Stores the position of the event that stopped a projection, and the error; 0 and "" clear both."""
        cursor.execute(
            "UPDATE redraft_projections SET failed = ?, error = ? WHERE track = ?", (failed, error, checkpoint_name)
        )

    def begin(self, cursor: Cursor, projection: Projection, checkpoint_name: str, build: int) -> ProjectionCheckpoint:
        """Creates the tables of a checkpoint anew, at the beginning of the log; returns the new checkpoint.

        Raises InputError when another projection, or another program, has a table of the same name.
        """
        self.drop(cursor, checkpoint_name)
        self._refuse_taken(cursor, projection)
        for table in projection.tables:
            stored = stored_table(table, checkpoint_name, build)
            self._clear(cursor, projection, stored.name)
            self._tables.create(cursor, stored)
        shape: Shape = {table.name: columns_of(table) for table in projection.tables}
        made = (checkpoint_name, projection.version, build, msgspec.json.encode(shape).decode(), 0, "")
        cursor.execute("INSERT INTO redraft_projections VALUES (?, ?, ?, ?, ?, ?)", made)
        return ProjectionCheckpoint(projection.version, 0, build)

    def open(self, cursor: Cursor, projection: Projection, checkpoints: Checkpoints, *, rebuilt: bool) -> str:
        """Returns the name of the checkpoint that a projection is written to, which is created if it is missing.

        It is that of the shadow tables for a new version, and for a projection that is `rebuilt`. `checkpoints` are
        brought up to date. Raises IncompatibleStore when the rows are of a later version.
        """
        name, wanted = projection.name, projection.version
        live, built = checkpoints.get(name), checkpoints.get(shadow_name(name))
        if live is not None and live.version == wanted and not rebuilt:
            return name
        for checkpoint in (live, built):
            if checkpoint is not None and checkpoint.version > wanted:
                raise IncompatibleStore(
                    f"the read model {name!r} was made by a later version ({checkpoint.version}, not {wanted}) of it; "
                    "use the Redraft or the file that made it, or delete the read models: "
                    "Redraft rebuilds them from the log"
                )
        if live is None or live.position == 0:
            checkpoints[name] = self.reset(cursor, projection)
            checkpoints.pop(shadow_name(name), None)
            return name
        if built is None or built.version < wanted:
            build = max(live.build, built.build if built else 0) + 1
            checkpoints[shadow_name(name)] = self.begin(cursor, projection, shadow_name(name), build)
        return shadow_name(name)

    def reset(self, cursor: Cursor, projection: Projection) -> ProjectionCheckpoint:
        """Drops all rows of a projection, and returns its checkpoint at the beginning of the log."""
        self.drop(cursor, shadow_name(projection.name))
        return self.begin(cursor, projection, projection.name, 1)

    def check_tables(
        self, cursor: Cursor, projection: Projection, checkpoint_name: str, at: ProjectionCheckpoint
    ) -> None:
        """Selects every column by name, so that an altered table is reported as damage before anything is written.

        Rows whose position is unknown, as after the loss of the checkpoints, are deleted, so that nothing counts twice.
        """
        for each in projection.tables:
            table = stored_table(each, checkpoint_name, at.build)
            cursor.execute(f"SELECT {', '.join(table.columns)} FROM {table.name} LIMIT 0")  # noqa: S608 - checked names
            if at.position == 0:
                cursor.execute(f"DELETE FROM {table.name}")  # noqa: S608 - checked names

    def _refuse_taken(self, cursor: Cursor, projection: Projection) -> None:
        names = {table.name for table in projection.tables}
        for checkpoint_name in self.checkpoints(cursor):
            taken = sorted(names & self.shape(cursor, checkpoint_name).keys())
            if taken and checkpoint_name.removesuffix(SHADOW_SUFFIX) != projection.name:
                raise InputError(
                    f"projection {projection.name}: the table {taken[0]!r} is that of the projection "
                    f"{checkpoint_name.removesuffix(SHADOW_SUFFIX)!r}; name it otherwise"
                )

    def _clear(self, cursor: Cursor, projection: Projection, name: str) -> None:
        """Drops a table that was left without its checkpoint; raises InputError for one of another program."""
        if name not in self._tables.existing(cursor):
            return
        if not self._tables.is_ours(cursor, name):
            raise InputError(
                f"projection {projection.name}: there is a table {name!r} in the database, and no read model made it; "
                "name yours otherwise, or drop that table yourself if nobody needs it"
            )
        self._tables.drop(cursor, name)

    def drop(self, cursor: Cursor, checkpoint_name: str) -> None:
        """Drops a checkpoint with its tables, if it exists."""
        for table in self.shape(cursor, checkpoint_name):
            self._tables.drop(cursor, shadow_name(table) if checkpoint_name.endswith(SHADOW_SUFFIX) else table)
        cursor.execute("DELETE FROM redraft_aside WHERE track = ?", (checkpoint_name,))
        cursor.execute("DELETE FROM tracking WHERE application_name = ?", (checkpoint_name,))
        cursor.execute("DELETE FROM redraft_projections WHERE track = ?", (checkpoint_name,))

    def switch(self, cursor: Cursor, name: str) -> None:
        """Replaces the live tables of a projection by its shadow tables."""
        built = shadow_name(name)
        self.drop(cursor, name)
        for table in self.shape(cursor, built):
            self._tables.rename(cursor, shadow_name(table), table)
        cursor.execute("UPDATE redraft_aside SET track = ? WHERE track = ?", (name, built))
        cursor.execute("UPDATE tracking SET application_name = ? WHERE application_name = ?", (name, built))
        cursor.execute("UPDATE redraft_projections SET track = ? WHERE track = ?", (name, built))

    def set_aside(self, cursor: Cursor, checkpoint_name: str, entry: Unreadable) -> None:
        """Stores that a run is set aside. An entry without a hash could be read, but the projection failed on it."""
        what = (checkpoint_name, entry.run, entry.version, entry.position, entry.why, int(bool(entry.hash)))
        cursor.execute("INSERT INTO redraft_aside VALUES (?, ?, ?, ?, ?, ?)", what)

    def aside(self, cursor: Cursor) -> list[AsideRun]:
        """Returns the runs that are set aside, latest positions first, then by checkpoint."""
        sql = "SELECT track, run, version, position, error, again FROM redraft_aside ORDER BY position DESC, track"
        return [*map(row_decoder(AsideRun), cursor.execute(sql).fetchall())]

    def shape(self, cursor: Cursor, checkpoint_name: str) -> Shape:
        """Returns the tables of a checkpoint as they were created; empty if there is no such checkpoint."""
        found = cursor.execute("SELECT tables FROM redraft_projections WHERE track = ?", (checkpoint_name,)).fetchone()
        return {} if found is None else msgspec.json.decode(str(found[0]), type=Shape)

    def log(self, cursor: Cursor) -> str | None:
        """Returns the hash of the first event of the log that the rows were made from; None if not known yet."""
        found = cursor.execute("SELECT first FROM redraft_log").fetchone()
        return None if found is None else str(found[0])

    def set_log(self, cursor: Cursor, first: str | None) -> None:
        cursor.execute("DELETE FROM redraft_log")
        if first is not None:
            cursor.execute("INSERT INTO redraft_log VALUES (?)", (first,))


POLL_SECONDS: Final = 0.05
"""How often a waiting caller checks for moves by another process, when this one does not follow the log."""


class Progress:
    """Tracks the position that every projection has reached (`refresh` reads it anew), and wakes those who wait."""

    def __init__(self, refresh: Callable[[], Awaitable[int]]) -> None:
        self.position = 0
        self.reports = 0
        self.writes = 0
        self._refresh = refresh
        self._moved = asyncio.Event()
        self._hurry = asyncio.Event()
        self._hurried = 0
        self._followers = 0

    def report(self, position: int, *, written: bool = False) -> int:
        """Stores the position that a transaction or a read found, wakes waiting callers if it changed, and returns it.

        With `written` they wake in any case: some rows have changed, even if the common position has not.
        """
        self.reports += 1
        self.writes += written
        if written or position != self.position:
            self.position = position
            self._wake()
        return position

    async def changed(self, seen: int) -> int:
        """Waits until the position is above `seen` or this process has changed rows; returns the position."""
        writes = self.writes
        while self.position <= seen and self.writes == writes:
            await self._wait_for_news()
        return self.position

    async def _wait_for_news(self) -> None:
        moved = self._moved
        try:
            async with asyncio.timeout(None if self._followers else POLL_SECONDS):
                await moved.wait()
        except TimeoutError:
            await self._refresh()

    @contextmanager
    def follow(self) -> Iterator[None]:
        """Marks, while entered, that this process follows the log, so that waiting callers need not poll."""
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1
            self._wake()

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """Makes `rest` return at once while the context is entered."""
        self._hurried += 1
        self._hurry.set()
        try:
            yield
        finally:
            self._hurried -= 1
            if not self._hurried:
                self._hurry.clear()

    async def rest(self, seconds: float) -> None:
        """Waits for `seconds`, or until a caller enters `hurry`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()
