"""Opens read models in a SQLite file, in memory, or in the PostgreSQL database of the event store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final, Self

from redraft.events.backends import psycopg_needed
from redraft.events.errors import InputError, StoreError
from redraft.events.store.event_store import Threads, thread
from redraft.projections.engine.projection import Projection, Table, check_names
from redraft.projections.engine.projector import ReadableLog, catch_up
from redraft.projections.engine.storage import Cells, Storage, StorageLocation
from redraft.projections.engine.views import Views
from redraft.projections.engine.writer import Notice
from redraft.projections.read_models.actor_work import ACTORS
from redraft.projections.read_models.choices import CHOICES
from redraft.projections.read_models.costs import BUDGETS
from redraft.projections.read_models.critiques import CRITIQUES
from redraft.projections.read_models.issues import ISSUES
from redraft.projections.read_models.publications import PUBLICATIONS
from redraft.projections.read_models.runs import RUNS
from redraft.projections.read_models.scores import SCORES
from redraft.projections.read_models.steps import STEPS
from redraft.projections.read_models.texts import TEXTS
from redraft.projections.read_models.tree_nodes import TREE
from redraft.projections.read_models.verdicts import VERDICTS
from redraft.projections.sqlite.storage import SqliteStorage


def open_views(
    location: StorageLocation,
    projections: Sequence[Projection],
    on_notice: Callable[[Notice], None] = lambda notice: None,
    threads: Threads | None = None,
) -> Views:
    """Returns the read models of these projections, opened by entering them: in a file, in memory (None), or in the
    database of a `postgresql://` URL.

    A projection without rows starts from the beginning of the log. One whose rows were made by an earlier version is
    built anew in shadow tables, and the old rows stay readable until it has caught up. `on_notice` is called when a
    projection switches to its new rows, stops or resumes. `threads` makes the threads for reading and writing.

    Raises IncompatibleStore when the storage belongs to another application or to a later version, StoreError when it
    cannot be opened, and InputError when a projection or a table has the name of another one.
    """
    check_names(projections)
    for projection in projections:
        _refuse_shipped_names(projection)
    return Views(_storage_at(location), projections, on_notice, threads or thread)


def _refuse_shipped_names(projection: Projection) -> None:
    """Raises InputError for a projection of one's own with the name, or a table, of a shipped one."""
    tables = {table.name for table in projection.tables}
    for shipped in SHIPPED:
        if shipped.name != projection.name:
            taken = [table.name for table in shipped.tables if table.name in tables]
            if taken:
                raise InputError(
                    f"projection {projection.name}: the table {taken[0]!r} is that of the projection "
                    f"{shipped.name!r}; name it otherwise"
                )
        elif (shipped.version, shipped.tables) != (projection.version, projection.tables):
            raise InputError(
                f"projection {projection.name}: Redraft has a read model of this name; name yours otherwise"
            )


def _storage_at(location: StorageLocation) -> Storage:
    if not isinstance(location, str):
        return SqliteStorage(location)
    with psycopg_needed():
        from redraft.projections.postgres.storage import PostgresStorage  # only those who use it need psycopg
    return PostgresStorage(location)


class ReadModels:
    """Opens read models of a log, at a location as in `open_views`, on demand; closed by leaving its context."""

    def __init__(self, location: StorageLocation, log: ReadableLog) -> None:
        self._where = location
        self._log = log
        self._open: dict[str, tuple[Projection, Views]] = {}
        self._held = AsyncExitStack()
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def of(self, projection: Projection) -> Views:
        """Returns the rows of a projection, shipped or your own, after projecting every event that is in the log now.

        They stay open until this object is closed. Raises StoreError when they cannot be opened or the projection has
        stopped at an event that it cannot process; InputError when another projection has a table of the same name.
        """
        async with self._one_at_a_time:
            views = await self._open_views(projection)
            await catch_up(views, self._log)
        for stopped in (await views.stopped()).values():
            raise StoreError(
                f"the projection {projection.name!r} has stopped at event {stopped.failed}: {stopped.error}; "
                "correct its code: the next process that opens it tries again"
            )
        return views

    async def rows(self, projection: Projection, table: Table, limit: int) -> list[Cells]:
        """Returns at most `limit` rows of a table, in the order of its keys, brought up to date. Raises as `of`."""
        views = await self.of(projection)
        sql = f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {', '.join(table.keys)} LIMIT ?"  # noqa: S608
        return await views.query(sql, (limit,))

    async def close(self) -> None:
        """Closes all read models that `of` has opened."""
        self._open.clear()
        await self._held.aclose()

    async def _open_views(self, projection: Projection) -> Views:
        known, views = self._open.get(projection.name, (None, None))
        if known is projection and views is not None:
            return views
        if views is not None:
            await views.close()
        alone = self._where is None and projection is not RUNS  # in memory, what others keep cannot be joined
        kept = (RUNS, projection) if alone else (projection,)
        opened = await self._held.enter_async_context(open_views(self._where, kept))
        self._open[projection.name] = projection, opened
        return opened


FOLLOWED: Final[tuple[Projection, ...]] = (RUNS, STEPS)
"""The projections that every deciding process keeps up to date: the list of runs, and the timekeeper's steps."""

SHIPPED: Final[tuple[Projection, ...]] = (
    *FOLLOWED,
    ACTORS,
    BUDGETS,
    CHOICES,
    CRITIQUES,
    ISSUES,
    PUBLICATIONS,
    SCORES,
    TEXTS,
    TREE,
    VERDICTS,
)
"""All shipped projections. `ReadModels` brings those outside `FOLLOWED` up to date when they are read."""
