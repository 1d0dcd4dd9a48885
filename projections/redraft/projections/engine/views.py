"""Opens read models for reading and writing: rows that projections make of the log, and a checkpoint for each.

Rows and checkpoints change in one transaction, so each event counts exactly once, whichever process projects it and
however often a process is killed. Nothing here blocks the event loop: writing and reading have a thread each. Readers
see the rows of one version until the next, built in shadow tables, has caught up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, Self, TypeVar

import msgspec

from redraft.events.errors import InputError, StoreError
from redraft.events.messages.codec import UNREADABLE
from redraft.events.messages.envelope import Entry
from redraft.events.store.event_store import Threads
from redraft.projections.engine.positions import AsideRun, Positions, Progress, shadow_name
from redraft.projections.engine.projection import SHADOW_SUFFIX, Projection, Table
from redraft.projections.engine.states import State, read_states
from redraft.projections.engine.storage import (
    Cells,
    Checkpoints,
    Cursor,
    Parameters,
    Phrase,
    ProjectionCheckpoint,
    Session,
    Storage,
)
from redraft.projections.engine.writer import Begun, Notice, Writer

__all__ = ["Cells", "Parameters", "Views"]

T = TypeVar("T")


_TRIES: Final = 5
"""How often the position is read, at most, while other reports of it come: of an older look, or of a batch written."""


class Views:
    """Read models; made by `open_views`, opened by entering the context and closed by leaving it."""

    def __init__(
        self, storage: Storage, projections: Sequence[Projection], on_notice: Callable[[Notice], None], threads: Threads
    ) -> None:
        self._storage = storage
        self._on_notice = on_notice
        self._projections = {projection.name: projection for projection in projections}
        self._writing = threads("redraft-project")
        self._reading = threads("redraft-query") if storage.has_readers else self._writing
        self._writer: Writer | None = None
        self._reader: Session | None = None
        self._positions = Positions(storage.tables)
        self.progress = Progress(self.refresh)
        self._closed = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def position(self) -> int:
        """The log position that every running projection has reached, as far as this process knows."""
        return self.progress.position

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the projections."""
        return tuple(self._projections)

    async def open(self) -> None:
        """Opens the storage; raises what `open_views` names, and is closed then."""
        try:
            await self._run_on(self._writing, self._open)
            await self.refresh()
        except BaseException:
            await self.close()
            raise

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
        """Returns the rows of a SELECT. It sees whole batches only, and does not wait for one that is being written."""
        return await self.read(_unchanged, sql, parameters)

    async def read(self, decode: Callable[[Cells], T], sql: str, parameters: Parameters = ()) -> list[T]:
        """Returns the rows of a SELECT, each converted by `decode`, which may only fail when the data is damaged."""
        return await self._run_on(self._reading, lambda: self._read(decode, sql, parameters))

    def matching(self, table: Table, phrases: Sequence[Phrase]) -> tuple[str, str]:
        """Returns the condition for rows whose `searched` column has all phrases, and the value of its `:words`."""
        return self._storage.tables.matching(table, phrases)

    async def refresh(self) -> int:
        """Reads the position from the storage, where another process may have moved it, and returns it."""
        for _ in range(_TRIES):
            before = self.progress.reports
            checkpoints = await self.checkpoints()
            if before == self.progress.reports:
                break
        else:
            return self.position  # batches are written here all the time, and these marks may be older
        going = [checkpoint.position for checkpoint in checkpoints.values() if not checkpoint.failed]
        return self.progress.report(
            min(going or [checkpoint.position for checkpoint in checkpoints.values()], default=0)
        )

    async def checkpoints(self) -> Checkpoints:
        """Returns the version, position and fault of each projection's live rows, by name, as stored."""
        found = await self._consult(self._positions.checkpoints)
        return {
            name: found.get(name) or ProjectionCheckpoint(each.version, 0) for name, each in self._projections.items()
        }

    async def stopped(self) -> Checkpoints:
        """Returns the checkpoints of projections that have stopped, or whose new version has, by name."""
        found = await self._consult(self._positions.checkpoints)
        return {
            name: found[each]
            for name in self._projections
            for each in (name, shadow_name(name))
            if each in found and found[each].failed
        }

    async def states(self) -> tuple[State, ...]:
        """Returns the state of every projection in the storage, by name, including those of other programs."""
        return await self._consult(partial(read_states, self._positions))

    async def aside(self) -> list[AsideRun]:
        """Returns the runs that are set aside in live rows, by projection, including those of other programs."""
        found = await self._consult(self._positions.aside)
        return [each for each in found if not each.checkpoint_name.endswith(SHADOW_SUFFIX)]

    async def wait_for(self, position: int) -> int:
        """Waits until all projections have reached this position, here or elsewhere; returns the position reached.

        It waits for ever if no process projects: put a deadline around it. Raises StoreError when a projection has
        stopped before.
        """
        with self.progress.hurry():
            while True:
                await self._refuse_stopped(position)
                if self.position >= position:
                    return self.position
                await self.progress.changed(self.position)

    async def changed(self, seen: int) -> int:
        """Waits until the position is above `seen` or rows have changed, and returns it, without hurrying."""
        return await self.progress.changed(seen)

    async def write(self, batch: Sequence[Entry], after: int, names: Iterable[str] | None = None) -> int:
        """Projects the events that follow the position `after` in one transaction; returns the position reached.

        Only the projections of `names` are written. Each skips the events that it has already counted. A result below
        `after` means that a projection was reset meanwhile: then nothing was written, and the log must be read again
        from there. A projection that cannot process an event stops before it; the others are written.
        """
        chosen = self._check_names(names)
        reached, overall = await self._run_on(self._writing, lambda: self._write(batch, after, chosen))
        self.progress.report(overall, written=True)
        return reached

    async def begin(self, names: Iterable[str] | None = None) -> dict[str, Begun]:
        """Returns where these projections, or all, continue; without those that have stopped."""
        chosen = self._check_names(names)
        return await self._run_on(self._writing, lambda: self._open_writer.begin(chosen))

    async def begin_shadow(self, names: Iterable[str] | None = None) -> None:
        """Starts building these projections, or all, again in shadow tables; the live rows stay readable.

        Raises InputError for an unknown name.
        """
        chosen = self._check_names(names)
        await self._run_on(self._writing, lambda: self._open_writer.begin_shadow(chosen))

    async def drop(self, name: str) -> None:
        """Drops the rows and checkpoint of a projection, of any program. Raises InputError when there are none."""
        await self._run_on(self._writing, lambda: self._open_writer.drop(name))

    async def reset(self, names: Iterable[str] | None = None) -> None:
        """Drops the rows of these projections, or of all, and sets them to the beginning of the log.

        A damaged storage is created anew as a whole. Raises InputError for an unknown name.
        """
        chosen = self._check_names(names)
        if not await self._run_on(self._writing, lambda: self._reset(chosen)):
            await self._run_on(self._reading, self._close_reader)
            await self._run_on(self._writing, self._replace)
        await self.refresh()

    async def belong_to(self, first: str | None) -> None:
        """Resets all if the rows were made from a log whose first event has another hash (None: an empty log)."""
        await self._run_on(self._writing, lambda: self._open_writer.belong_to(first))
        await self.refresh()

    def _check_names(self, names: Iterable[str] | None) -> tuple[str, ...]:
        chosen = tuple(self._projections if names is None else names)
        for name in chosen:
            if name not in self._projections:
                known = ", ".join(sorted(self._projections))
                raise InputError(f"no projection is named {name!r}; there are {known}")
        return chosen

    async def _consult(self, work: Callable[[Cursor], T]) -> T:
        def consult() -> T:
            with self._open_reader.reading() as cursor:
                return work(cursor)

        return await self._run_on(self._reading, consult)

    async def _run_on(self, thread: Executor, work: Callable[[], T]) -> T:
        if self._closed:
            raise StoreError("the read models are closed")
        try:
            with self._storage.clear_errors():
                return await asyncio.get_running_loop().run_in_executor(thread, work)
        except msgspec.MsgspecError as error:
            raise self._storage.damage_error() from error
        finally:
            if thread is self._writing and self._writer is not None:
                for notice in self._writer.notices():
                    self._on_notice(notice)

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
        """Opens the storage; if it is ours and damaged, removes its content and opens it again."""
        try:
            self._connect()
        except self._storage.faults as error:
            if not self._storage.is_damage(error, opening=True):
                raise
            self._remove()
            self._connect()

    def _connect(self) -> None:
        session = self._storage.open()
        try:
            self._writer = Writer(session, self._storage, self._projections.values())
            self._reader = self._storage.open_reader() if self._storage.has_readers else session
        except BaseException:
            session.close()
            raise

    def _read(self, decode: Callable[[Cells], T], sql: str, parameters: Parameters) -> list[T]:
        try:
            with self._open_reader.reading() as cursor:
                found: list[Cells] = cursor.execute(sql, parameters).fetchall()
        except self._storage.faults:
            self._refuse_unbuilt()
            raise
        try:
            return [decode(cells) for cells in found]
        except (*UNREADABLE, OverflowError, ValueError) as error:
            raise self._storage.damage_error() from error

    def _write(self, batch: Sequence[Entry], after: int, names: Sequence[str]) -> tuple[int, int]:
        writer = self._open_writer
        return writer.write(batch, after, names), writer.reached

    async def _refuse_stopped(self, position: int) -> None:
        for name, checkpoint in (await self.checkpoints()).items():
            if checkpoint.failed and checkpoint.position < position:
                raise StoreError(
                    f"the projection {name!r} has stopped at event {checkpoint.failed}: {checkpoint.error}"
                )

    def _refuse_unbuilt(self) -> None:
        """Raises StoreError if the readable rows are of an earlier version than this program's."""
        with self._open_reader.reading() as cursor:
            checkpoints = self._positions.checkpoints(cursor)
        for name, projection in self._projections.items():
            if name in checkpoints and checkpoints[name].version < projection.version:
                raise StoreError(
                    f"the projection {name!r} is being built in version {projection.version}; try again when it has "
                    "caught up"
                )

    def _reset(self, names: Sequence[str]) -> bool:
        """Resets the projections; returns False when the storage is damaged."""
        try:
            self._open_writer.reset(names)
        except self._storage.faults as error:
            if not self._storage.is_damage(error):
                raise
            return False
        return True

    def _replace(self) -> None:
        self._close_writer()
        self._remove()
        self._open()

    def _remove(self) -> None:
        tables = [table.name for projection in self._projections.values() for table in projection.tables]
        self._storage.remove([*tables, *map(shadow_name, tables)])

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _unchanged(cells: Cells) -> Cells:
    return cells
