"""Reads and writes the log's rows byte for byte, for archives.

Writing rows is the only way past the coordinator: it copies another log, and no coordinator may relay from this one
meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Final, Protocol, TypeVar

import msgspec

from redraft.events.encryption.keyring import Keyring
from redraft.events.errors import CodecError, StoreError, Tampered, UnknownName, UnknownRules
from redraft.events.messages.codec import Opener, hash_of
from redraft.events.messages.envelope import Unreadable
from redraft.events.store.recorder import (
    IntegrityError,
    LogRow,
    Notification,
    PersistenceError,
    Place,
    Recorder,
    StoredEvent,
    explain,
)

LONGEST: Final = 200
"""The most characters that are reported of an unknown name."""


def place_of(row: LogRow | Notification) -> tuple[str, int, int]:
    """Returns the run, version and position of a row. Raises CodecError when its version is not a number."""
    run, version = _text(row.originator_id), _number(row.originator_version)
    if version is None:
        raise CodecError(f"a row of run {run} cannot be read: its version is not a number")
    return run, version, row.id


def unreadable(row: LogRow | Notification, error: CodecError | Tampered) -> Unreadable:
    """Returns an `Unreadable` with what is known of a row that could not be read because of this error."""
    return Unreadable(
        _text(row.originator_id),
        _number(row.originator_version) or 0,
        row.id,
        _text(row.topic)[:LONGEST],
        str(error.__cause__ or error if isinstance(error, CodecError) else error),
        hash_of(_bytes(row.state)),
        isinstance(error, UnknownName | UnknownRules),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


AT_ONCE: Final = 500
"""Rows that one call reads or writes."""

T = TypeVar("T")


class RawRow(msgspec.Struct, frozen=True):
    """An event as it is stored: its position in the log, run, version, stored name and bytes."""

    position: int
    run: str
    version: int
    name: str
    state: bytes


class Read(Protocol):
    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        """Runs the call on the reading thread, and returns its result."""


class RowCopier:
    """Reads and writes rows of a store. Raises StoreError under the same conditions as the store that created it."""

    def __init__(self, recorder: Recorder, keyring: Keyring, where: str, read: Read, writes: Executor) -> None:
        self._recorder = recorder
        self._keyring = keyring
        self.opener: Opener = keyring.opener
        """Decrypts the texts of a run, if its key is here."""
        self._where = where
        self._read = read
        self._writes = writes

    async def after(self, position: int, upto: int) -> Sequence[RawRow]:
        """Returns the next rows after `position`, up to and with `upto`; () when there are no more."""
        rows = await self._read(
            lambda: self._recorder.select_notifications(position, AT_ONCE, upto, inclusive_of_start=False)
        )
        return [_to_raw_row(row) for row in rows]

    async def of_run(self, run: str, after: int, upto: int) -> Sequence[RawRow]:
        """Returns the rows of a run with versions above `after`, up to and with `upto`."""
        rows = await self._read(lambda: self._recorder.select_events(run, gt=after, lte=upto))
        return [_to_raw_row(row) for row in rows]

    async def by_run(self) -> AsyncIterator[Sequence[RawRow]]:
        """Yields all rows in the order of runs and versions, some at a time."""
        after = Place()
        while True:
            rows, after = await self._read(partial(self._recorder.select_by_run, after, AT_ONCE))
            if not rows:
                return
            yield [_to_raw_row(row) for row in rows]

    async def version(self, run: str) -> int:
        """Returns the version of the last event of a run; 0 when there is none."""
        rows = await self._read(lambda: self._recorder.select_events(run, desc=True, limit=1))
        return rows[0].originator_version if rows else 0

    async def put(self, rows: Sequence[RawRow]) -> int:
        """Appends rows to the log, in this order, all or none; returns the position of the last.

        Raises StoreError when one of them is there already, or does not follow the last event of its run.
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
        """Returns the wrapped key of a run; None when it is kept in plain text, or was erased."""
        return await self._read(lambda: self._keyring.keys.get(run) or None)

    def check_key(self, run: str, wrapped: bytes) -> None:
        """Raises EncryptionKeyMissing when the key given here cannot open the wrapped key of a run."""
        self._keyring.check(run, wrapped)

    async def note_imported(self, runs: Sequence[str]) -> None:
        """Marks these runs as imported from an archive; see `EventStore.is_imported`."""
        await asyncio.wrap_future(self._writes.submit(self._keyring.keys.note_imported, runs))

    async def put_key(self, run: str, wrapped: bytes) -> None:
        """Stores the wrapped key of a run, unless it has one."""
        await asyncio.wrap_future(self._writes.submit(self._keyring.keys.put, run, wrapped))


def _to_raw_row(row: LogRow | Notification) -> RawRow:
    return RawRow(row.id, str(row.originator_id), row.originator_version, row.topic, row.state)
