"""A log's rows as they are kept, byte for byte: read to be carried elsewhere, and put in as they were elsewhere.

Putting rows in is the one way past the coordinator: for a copy of another log, while nobody relays from this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Final, Protocol, TypeVar

import msgspec

from redraft.events.codec import Opener
from redraft.events.errors import StoreError
from redraft.events.keyring import Keyring
from redraft.events.recorders import (
    ApplicationRecorder,
    IntegrityError,
    Notification,
    PersistenceError,
    StoredEvent,
    explain,
)
from redraft.events.verification import Rows

AT_ONCE: Final = 500
"""Rows that are read or put in together."""

T = TypeVar("T")


class Kept(msgspec.Struct, frozen=True):
    """An event as it is kept: its place in the log (0: not known), run, version in the run, stored name and bytes."""

    position: int
    run: str
    version: int
    name: str
    state: bytes


class Read(Protocol):
    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        """What the call gives, made on the thread that reads."""
        ...


class Copying:
    """Raises StoreError as the store does that it is made by."""

    def __init__(
        self, recorder: ApplicationRecorder, keyring: Keyring, where: str, read: Read, writes: Executor
    ) -> None:
        self._recorder = recorder
        self._keyring = keyring
        self._where = where
        self._read = read
        self._writes = writes

    async def after(self, position: int, upto: int) -> Sequence[Kept]:
        """The next events after a position, up to and with another; () when there are no more."""
        rows = await self._read(
            lambda: self._recorder.select_notifications(position, AT_ONCE, upto, inclusive_of_start=False)
        )
        return [_kept(row) for row in rows]

    async def of_run(self, run: str, after: int, upto: int) -> Sequence[Kept]:
        """The events of a run with versions above `after`, up to and with `upto`."""
        rows = await self._read(lambda: self._recorder.select_events(run, gt=after, lte=upto))
        return [_kept(row) for row in rows]

    async def by_run(self, run: str, version: int) -> Sequence[Kept]:
        """The next events in the order of runs and versions, after this version of this run; () when there are no more.

        Raises StoreError when the store cannot be read run by run.
        """
        recorder = self._recorder
        if not isinstance(recorder, Rows):
            raise StoreError(f"store {self._where}: {type(recorder).__name__} cannot be read run by run")
        return [_kept(row) for row in await self._read(lambda: recorder.select_by_run(run, version, AT_ONCE))]

    @property
    def opener(self) -> Opener:
        """Returns the function that opens the sealed texts of a run, if its key is here."""
        return self._keyring.opener

    async def version(self, run: str) -> int:
        """The version of the last event of a run; 0 when there is none."""
        rows = await self._read(lambda: self._recorder.select_events(run, desc=True, limit=1))
        return rows[0].originator_version if rows else 0

    async def put(self, rows: Sequence[Kept]) -> int:
        """Puts rows in, in this order, all or none, behind the end of the log; gives the position of the last.

        Raises StoreError when one of them is there already, or its run does not exist up to it.
        """
        stored = [StoredEvent(row.run, row.version, row.name, row.state) for row in rows]
        try:
            positions = await asyncio.wrap_future(self._writes.submit(self._recorder.insert_events, stored))
        except IntegrityError as error:
            raise StoreError(f"store {self._where}: somebody else writes to it; end that, and import again") from error
        except PersistenceError as error:
            raise StoreError(f"store {self._where}: {explain(error)}") from error
        return positions[-1] if positions else 0

    async def key(self, run: str) -> bytes | None:
        """The wrapped key of a run; None when it is kept in the clear, or was erased."""
        return await self._read(lambda: self._keyring.keys.get(run))

    def check_key(self, run: str, wrapped: bytes) -> None:
        """Raises Sealed when the store's encryption key is given, and cannot open the wrapped key of a run."""
        self._keyring.check(run, wrapped)

    async def note_imported(self, runs: Sequence[str]) -> None:
        """Keeps that these runs come out of an archive; see `EventStore.is_imported`."""
        await asyncio.wrap_future(self._writes.submit(self._keyring.keys.note_imported, runs))

    async def put_key(self, run: str, wrapped: bytes) -> None:
        """Keeps the wrapped key of a run, unless it has one."""
        await asyncio.wrap_future(self._writes.submit(self._keyring.keys.put, run, wrapped))


def _kept(row: StoredEvent) -> Kept:
    position = row.id if isinstance(row, Notification) else 0
    return Kept(position, str(row.originator_id), row.originator_version, row.topic, row.state)
