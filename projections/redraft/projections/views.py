"""The read models: rows that projections make of the log, and how far each has come.

Rows and positions change in one transaction, so each event counts exactly once, whichever process projects it, and
however often one is killed. Nothing here blocks the event loop: writing and reading have a thread each. Readers see the
rows of one version until those of the next, built beside them, have caught up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Self, TypeVar

import msgspec

from redraft.events.envelope import Entry
from redraft.events.errors import InputError, StoreError
from redraft.events.recorders import psycopg_needed
from redraft.events.store import Threads, thread
from redraft.projections.place import Cells, Mark, Parameters, Place, Session, Where
from redraft.projections.positions import Aside, Positions, beside
from redraft.projections.progress import Progress
from redraft.projections.projection import BESIDE, Projection
from redraft.projections.sqlite_place import SqlitePlace
from redraft.projections.states import State, states
from redraft.projections.writer import Begun, Notice, Writer, check_names

__all__ = ["Cells", "Parameters", "Views", "open_views"]

T = TypeVar("T")


async def open_views(
    where: Where,
    projections: Sequence[Projection],
    told: Callable[[Notice], None] = lambda notice: None,
    threads: Threads | None = None,
) -> Views:
    """The read models of these projections in a file, beside the store that a `postgresql://` URL names, or in memory.

    A projection that is not there starts from the beginning of the log; so does one that is there in an earlier
    version, beside its rows, which can be read until it has caught up. `told` is called when one has, or when one
    stops or goes on. `threads` makes what reads and what writes. Raises StoreUnusable when the place is not ours or of
    a later version, StoreError when it cannot be opened, InputError when a table has the name of another projection's.
    """
    check_names(projections)
    views = Views(_place(where), projections, told, threads or thread)
    try:
        await views.open()
    except BaseException:
        await views.close()
        raise
    return views


class Views:
    """Open read models; made by `open_views`, closed by leaving its context."""

    def __init__(
        self, place: Place, projections: Sequence[Projection], told: Callable[[Notice], None], threads: Threads
    ) -> None:
        self._place = place
        self._told = told
        self._projections = {projection.name: projection for projection in projections}
        self._writing = threads("redraft-project")
        self._reading = threads("redraft-query") if place.has_readers else self._writing
        self._writer: Writer | None = None
        self._reader: Session | None = None
        self._positions = Positions(place.tracks, place.tables)
        self.progress = Progress(self.look)
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def position(self) -> int:
        """The position in the log that every projection that goes on has reached, as far as this process knows."""
        return self.progress.position

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the projections."""
        return tuple(self._projections)

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
        going = [mark.position for mark in marks.values() if not mark.failed]
        return self.progress.report(min(going or [mark.position for mark in marks.values()], default=0))

    async def marks(self) -> dict[str, Mark]:
        """The version, position and fault of each projection's rows, by name, as they are in the file."""
        found = await self._on(self._reading, self._marks)
        return {name: found.get(name) or Mark(each.version, 0) for name, each in self._projections.items()}

    async def stopped(self) -> dict[str, Mark]:
        """Those of the projections that have stopped, or whose new version has, by name."""
        found = await self._on(self._reading, self._marks)
        tracks = ((name, found.get(track)) for name in self._projections for track in (name, beside(name)))
        return {name: mark for name, mark in tracks if mark is not None and mark.failed}

    async def states(self) -> tuple[State, ...]:
        """Every projection that is kept in the place, whoever keeps it, by name."""
        return await self._on(self._reading, self._states)

    async def aside(self) -> list[Aside]:
        """The runs that are set aside in the rows that are read, by projection, whoever keeps it."""
        found = await self._on(self._reading, self._aside)
        return [each for each in found if not each.track.endswith(BESIDE)]

    async def wait_for(self, position: int) -> int:
        """Returns, with the position reached, once all projections have reached this one, here or in another process.

        It waits for ever if nobody projects: put a deadline around it. Raises StoreError when one has stopped before.
        """
        with self.progress.hurried():
            while True:
                await self._refuse_stopped(position)
                if self.position >= position:
                    return self.position
                await self.progress.changed(self.position)

    async def changed(self, seen: int) -> int:
        """Returns, with the position reached, once it is above `seen` or rows have changed. It hurries nobody."""
        return await self.progress.changed(seen)

    async def write(self, batch: Sequence[Entry], after: int, names: Iterable[str] | None = None) -> int:
        """Projects the events that follow the position `after`, in one transaction; returns the position reached.

        `names` leaves out other projections. What a projection has already counted is passed over. A result below
        `after` means that a projection was begun anew meanwhile: then nothing was written, and the log is to be read
        again from there. A projection that cannot take an event stops before it; the others are written.
        """
        chosen = self._known(names)
        reached, overall = await self._on(self._writing, lambda: self._write(batch, after, chosen))
        self.progress.report(overall, written=True)
        return reached

    async def begin(self, names: Iterable[str] | None = None) -> dict[str, Begun]:
        """Where these projections, or all, are to go on; without those that have stopped here."""
        chosen = self._known(names)
        return await self._on(self._writing, lambda: self._open_writer.begin(chosen))

    async def begin_beside(self, names: Iterable[str] | None = None) -> None:
        """Begins these projections, or all, once more beside the rows that there are, which can be read meanwhile.

        Raises InputError for a name that no projection has.
        """
        chosen = self._known(names)
        await self._on(self._writing, lambda: self._open_writer.begin_beside(chosen))

    async def drop(self, name: str) -> None:
        """Takes away a projection's rows and position, whoever kept them. Raises InputError when there are none."""
        await self._on(self._writing, lambda: self._open_writer.drop(name))

    async def begin_anew(self, names: Iterable[str] | None = None) -> None:
        """Drops the rows of these projections, or of all, and sets them to the beginning of the log.

        A damaged file is made anew as a whole. Raises InputError for a name that no projection has.
        """
        chosen = self._known(names)
        if not await self._on(self._writing, lambda: self._begin_anew(chosen)):
            await self._on(self._reading, self._close_reader)
            await self._on(self._writing, self._replace)
        await self.look()

    async def belong_to(self, first: str | None) -> None:
        """Begins all anew if the rows came from another log than the one with this first event's hash (None: none)."""
        await self._on(self._writing, lambda: self._open_writer.belong_to(first))
        await self.look()

    def _known(self, names: Iterable[str] | None) -> tuple[str, ...]:
        chosen = tuple(self._projections if names is None else names)
        for name in chosen:
            if name not in self._projections:
                known = ", ".join(sorted(self._projections))
                raise InputError(f"no projection is named {name!r}; there are {known}")
        return chosen

    async def _on(self, thread: Executor, work: Callable[[], T]) -> T:
        if self._closed:
            raise StoreError("the read models are closed")
        try:
            with self._place.clear_errors():
                return await asyncio.get_running_loop().run_in_executor(thread, work)
        except msgspec.MsgspecError as error:
            raise self._place.damaged() from error
        finally:
            if thread is self._writing and self._writer is not None:
                for notice in self._writer.notices():
                    self._told(notice)

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

    def _aside(self) -> list[Aside]:
        with self._open_reader.reading() as cursor:
            return self._positions.aside(cursor)

    def _read(self, line: Callable[[Cells], T], sql: str, parameters: Parameters) -> list[T]:
        try:
            with self._open_reader.reading() as cursor:
                found: list[Cells] = cursor.execute(sql, parameters).fetchall()
        except self._place.faults:
            self._refuse_unbuilt()
            raise
        try:
            return [line(cells) for cells in found]
        except (msgspec.MsgspecError, OverflowError, ValueError) as error:
            raise self._place.damaged() from error

    def _write(self, batch: Sequence[Entry], after: int, names: Sequence[str]) -> tuple[int, int]:
        writer = self._open_writer
        return writer.write(batch, after, names), writer.reached

    def _states(self) -> tuple[State, ...]:
        with self._open_reader.reading() as cursor:
            return states(self._positions, cursor)

    async def _refuse_stopped(self, position: int) -> None:
        for name, mark in (await self.marks()).items():
            if mark.failed and mark.position < position:
                raise StoreError(f"the projection {name!r} has stopped at event {mark.failed}: {mark.error}")

    def _refuse_unbuilt(self) -> None:
        """Raises StoreError if the rows that can be read are of an earlier version than those that were asked for."""
        marks = self._marks()
        for name, projection in self._projections.items():
            if name in marks and marks[name].version < projection.version:
                raise StoreError(
                    f"the projection {name!r} is being built in version {projection.version}; try again when it has "
                    "caught up"
                )

    def _begin_anew(self, names: Sequence[str]) -> bool:
        """False when what lies there is damaged."""
        try:
            self._open_writer.begin_anew(names)
        except self._place.faults as error:
            if not self._place.is_damage(error):
                raise
            return False
        return True

    def _replace(self) -> None:
        self._close_writer()
        self._remove()
        self._open()

    def _remove(self) -> None:
        tables = [table.name for projection in self._projections.values() for table in projection.tables]
        self._place.remove([*tables, *map(beside, tables)])

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
