"""The read models: rows that projections make of the log, and how far each has come.

Rows and positions change in one transaction, so each event counts exactly once, whichever process projects it, and
however often one is killed. Nothing here blocks the event loop: writing and reading have a thread each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self, TypeVar

import msgspec

from redraft.events.envelope import Recorded
from redraft.events.errors import InputError, StoreError
from redraft.events.recorders import psycopg_needed
from redraft.projections.place import Cells, Mark, Parameters, Place, Session, Where
from redraft.projections.positions import Positions
from redraft.projections.progress import Progress
from redraft.projections.projection import Projection
from redraft.projections.sqlite_place import SqlitePlace
from redraft.projections.writer import Writer, check_names, lowest

__all__ = ["Cells", "Parameters", "Views", "open_views"]

T = TypeVar("T")


async def open_views(where: Where, projections: Sequence[Projection]) -> Views:
    """The read models of these projections in a file, beside the store that a `postgresql://` URL names, or in memory.

    A projection that is not there, or in an earlier version, starts from the beginning of the log. Raises StoreUnusable
    when the place is not ours or of a later version, StoreError when it cannot be opened.
    """
    check_names(projections)
    views = Views(_place(where), projections)
    try:
        await views.open()
    except BaseException:
        await views.close()
        raise
    return views


class Views:
    """Open read models; made by `open_views`, closed by leaving its context."""

    def __init__(self, place: Place, projections: Sequence[Projection]) -> None:
        self._place = place
        self._projections = {projection.name: projection for projection in projections}
        self._writing = ThreadPoolExecutor(1, "redraft-project")
        self._reading = ThreadPoolExecutor(1, "redraft-query") if place.has_readers else self._writing
        self._writer: Writer | None = None
        self._reader: Session | None = None
        self._positions = Positions(place.tracks)
        self.progress = Progress(self.look)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def position(self) -> int:
        """The position in the log that every projection has reached, as far as this process knows."""
        return self.progress.position

    async def open(self) -> None:
        """Opens the file; `open_views` has done it."""
        await self._on(self._writing, self._open)
        await self.look()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._reading, self._close_reader)
        await loop.run_in_executor(self._writing, self._close_writer)
        self._reading.shutdown(wait=False)
        self._writing.shutdown(wait=False)

    async def query(self, sql: str, parameters: Parameters = ()) -> list[Cells]:
        """The rows that a SELECT gives. It sees whole batches only, and does not wait for one that is being written."""
        return await self.read(_as_it_is, sql, parameters)

    async def read(self, line: Callable[[Cells], T], sql: str, parameters: Parameters = ()) -> list[T]:
        """The same, each row turned into something better by `line`, for which it can only fail on a damaged file."""
        return await self._on(self._reading, lambda: self._read(line, sql, parameters))

    async def look(self) -> int:
        """Reads the position from the file, where another process may have moved it."""
        before = self.progress.reports
        marks = await self.marks()
        if before != self.progress.reports:
            return self.position  # a batch was written meanwhile, and these marks may be older
        return self.progress.report(lowest(marks, self._projections.values()))

    async def marks(self) -> dict[str, Mark]:
        """The version and position of each projection, by name, as they are in the file."""
        found = await self._on(self._reading, self._marks)
        return {name: found[name] for name in self._projections}

    async def wait_for(self, position: int) -> int:
        """Returns, with the position reached, once all projections have reached this one, here or in another process.

        It waits for ever if nobody projects: put a deadline around it.
        """
        with self.progress.hurried():
            return await self.progress.beyond(position - 1)

    async def changed(self, seen: int) -> int:
        """Returns, with the position reached, once it is above `seen`. Unlike `wait_for` it hurries nobody."""
        return await self.progress.beyond(seen)

    async def write(self, batch: Sequence[Recorded], after: int) -> int:
        """Projects the events that follow the position `after`, in one transaction; returns the position reached.

        What a projection has already counted is passed over. A result below `after` means that a projection was begun
        anew meanwhile: then nothing was written, and the log is to be read again from there.
        """
        return self.progress.report(await self._on(self._writing, lambda: self._open_writer.write(batch, after)))

    async def begin_anew(self, names: Iterable[str] | None = None) -> None:
        """Drops the rows of these projections, or of all, and sets them to the beginning of the log.

        A damaged file is made anew as a whole. Raises InputError for a name that no projection has.
        """
        chosen = tuple(self._projections if names is None else names)
        for name in chosen:
            if name not in self._projections:
                known = ", ".join(sorted(self._projections))
                raise InputError(f"no projection is named {name!r}; there are {known}")
        reached = await self._on(self._writing, lambda: self._begin_anew(chosen))
        if reached is None:
            await self._on(self._reading, self._close_reader)
            await self._on(self._writing, self._replace)
        self.progress.report(reached or 0)

    async def belong_to(self, first: str | None) -> None:
        """Begins all anew if the rows came from another log than the one with this first event's hash (None: none)."""
        self.progress.report(await self._on(self._writing, lambda: self._open_writer.belong_to(first)))

    async def _on(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._closed:
            raise StoreError("the read models are closed")
        with self._place.clear_errors():
            return await asyncio.get_running_loop().run_in_executor(thread, work)

    @property
    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise StoreError("the read models are not open")
        return self._writer

    @property
    def _open_reader(self) -> Session:
        if self._reader is None:
            raise StoreError("the read models are not open")
        return self._reader

    def _open(self) -> None:
        """Opens the place, once more without what lies there if that is ours and damaged."""
        try:
            self._connect()
        except self._place.faults as error:
            if not self._place.is_damage(error, opening=True):
                raise
            self._remove()
            self._connect()

    def _connect(self) -> None:
        session = self._place.open()
        try:
            self._writer = Writer(session, self._place, self._projections.values())
            self._reader = self._place.open_reader() if self._place.has_readers else session
        except BaseException:
            session.close()
            raise

    def _marks(self) -> dict[str, Mark]:
        with self._open_reader.reading() as cursor:
            return self._positions.marks(cursor)

    def _read(self, line: Callable[[Cells], T], sql: str, parameters: Parameters) -> list[T]:
        with self._open_reader.reading() as cursor:
            found: list[Cells] = cursor.execute(sql, parameters).fetchall()
        try:
            return [line(cells) for cells in found]
        except (msgspec.MsgspecError, OverflowError, ValueError) as error:
            raise self._place.damaged() from error

    def _begin_anew(self, names: Sequence[str]) -> int | None:
        """The position reached; None when what lies there is damaged."""
        try:
            return self._open_writer.begin_anew(names)
        except self._place.faults as error:
            if not self._place.is_damage(error):
                raise
            return None

    def _replace(self) -> None:
        self._close_writer()
        self._remove()
        self._open()

    def _remove(self) -> None:
        self._place.remove(table.name for projection in self._projections.values() for table in projection.tables)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _place(where: Where) -> Place:
    if not isinstance(where, str):
        return SqlitePlace(where)
    with psycopg_needed():
        from redraft.projections.postgres_place import PostgresPlace  # only those who use it need psycopg
    return PostgresPlace(where)


def _as_it_is(cells: Cells) -> Cells:
    return cells
