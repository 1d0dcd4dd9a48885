"""Leases on one machine, and the subscriptions that are served under them: files beside that of the store.

A lease is a file of its own, whose row holds the time of expiry by the clock that all processes here share.

The holder locks a second file beside it: the operating system frees that lock when the process dies, so that others
need not wait for the expiry. The first file stays open as long as the lease is held: earlier releases locked it for as
long as they had the lease, and stand by while another process has it open, as ours stand by while it is locked.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from redraft.events.errors import LeaseLost, StoreError
from redraft.events.sqlite.file import (
    Identity,
    explain,
    open_beside,
    open_connection,
    transaction,
)
from redraft.events.sqlite.tables import SqliteTables
from redraft.events.store.lease import LASTS, LOCKED, Lease, LeaseHolder, this_process
from redraft.events.subscriptions.subscriptions import CREATE

SUBSCRIPTIONS: Final = Identity(0x52645362, 1)
"""The `application_id` of files of subscriptions, "RdSb", and the `user_version` that this version writes."""

IDENTITY: Final = Identity(0x52645279, 0)
"""The same of files of leases: "RdRy"."""

LEASE_BUSY_SECONDS: Final = 1.0
"""Seconds to wait for another process at the file; an earlier release may keep it locked for as long as it likes."""

_LAYOUT: Final = (
    "CREATE TABLE IF NOT EXISTS checkpoint (position INTEGER NOT NULL)",
    "INSERT INTO checkpoint SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM checkpoint)",
    """CREATE TABLE IF NOT EXISTS lease (
        one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, holder TEXT NOT NULL, since REAL NOT NULL,
        expires REAL NOT NULL, locked INTEGER NOT NULL
    )""",
)
_ENDED: Final = "(expires <= :now OR expires > :now + 2 * :lasts)"
"""An expiry further away than a lease lasts comes from the clock before the last start of the machine."""

_TAKE: Final = f"""
    INSERT INTO lease VALUES (1, 1, :holder, :since, :now + :lasts, :alone)
    ON CONFLICT (one) DO UPDATE SET epoch = epoch + 1, holder = excluded.holder, since = excluded.since,
        expires = excluded.expires, locked = excluded.locked
    WHERE {_ENDED} OR (locked AND :alone) RETURNING epoch
"""  # noqa: S608 - words of our own
_RENEW: Final = "UPDATE lease SET expires = :now + :lasts, locked = :alone WHERE epoch = :epoch RETURNING epoch"
_MOVE: Final = "UPDATE checkpoint SET position = max(position, ?) RETURNING position"
_WHO: Final = f"SELECT holder, since, {_ENDED} OR (locked AND :alone) FROM lease"  # noqa: S608 - words of our own

_T = TypeVar("_T")


class FileLease:
    """A lease in the file `path`, which is created at first use; see `LeaseRow`. `what` is its name in messages."""

    def __init__(self, path: Path, what: str = "relay's checkpoint") -> None:
        self._path = path
        self._what = what
        self._thread = ThreadPoolExecutor(1, "redraft-lease")
        self._file: sqlite3.Connection | None = None
        self._inode = 0
        self._alone: sqlite3.Connection | None = None
        self._epoch = 0

    @property
    def epoch(self) -> int:
        return self._epoch

    async def take(self) -> LeaseHolder | None:
        return await self._on_thread(self._take)

    async def renew(self, position: int) -> int:
        return await self._on_thread(lambda: self._renew(position))

    async def release(self) -> None:
        await self._on_thread(self._release)

    async def look(self) -> tuple[LeaseHolder | None, int]:
        """Returns the holder, None when there never was one, and the checkpoint. Raises StoreError; creates no file."""
        return await self._on_thread(self._look) if self._path.exists() else (None, 0)

    async def close(self) -> None:
        self._thread.shutdown()

    async def _on_thread(self, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            raise StoreError(f"{self._what} {self._path}: {explain(error)}") from error

    def _take(self) -> LeaseHolder | None:
        try:
            file = self._file if self._file is not None and self._is_same_file() else self._open()
            self._lock()
            with transaction(file):
                parameters = self._parameters(holder=this_process(), since=time.time())
                taken = file.execute(_TAKE, parameters).fetchall()
                who = file.execute(_WHO, parameters).fetchall()
        except sqlite3.Error as error:
            self._close()
            if _is_busy(error):
                return LOCKED
            raise
        if taken:
            ((self._epoch,),) = taken
            return None
        self._unlock()
        return _holder_of(who)

    def _renew(self, position: int) -> int:
        if self._file is None or not self._epoch or not self._is_same_file():
            self._close()
            self._raise_lost()
        self._lock()
        with transaction(self._file):
            mine = self._file.execute(_RENEW, self._parameters(epoch=self._epoch)).fetchall()
            moved = self._file.execute(_MOVE, (position,)).fetchall() if mine else []
        if not moved:
            self._close()
            self._raise_lost()
        return int(moved[0][0])

    def _look(self) -> tuple[LeaseHolder | None, int]:
        try:
            file = self._open()
            self._lock()
            with transaction(file):
                ((position,),) = file.execute("SELECT position FROM checkpoint").fetchall()
                return _holder_of(file.execute(_WHO, self._parameters()).fetchall()), int(position)
        except sqlite3.Error as error:
            if _is_busy(error):
                return LOCKED, 0
            raise
        finally:
            self._close()

    def _release(self) -> None:
        if self._file is not None and self._epoch and self._is_same_file():
            with suppress(sqlite3.Error):  # then it ends by itself
                self._file.execute("UPDATE lease SET expires = 0 WHERE epoch = ?", (self._epoch,))
        self._close()

    def _open(self) -> sqlite3.Connection:
        self._close()
        self._file = open_beside(self._path, LEASE_BUSY_SECONDS, self._what, IDENTITY, _LAYOUT)
        self._inode = self._path.stat().st_ino
        return self._file

    def _lock(self) -> None:
        """Takes the lock of the lease's holder, if it is free."""
        if self._alone is None:
            beside = self._path.with_name(f"{self._path.name}-alive")
            alone = open_connection(beside, 0)
            try:
                alone.execute("BEGIN EXCLUSIVE")
            except sqlite3.Error as error:
                alone.close()
                if not _is_busy(error):
                    raise
            else:
                self._alone = alone

    def _unlock(self) -> None:
        alone, self._alone = self._alone, None
        if alone is not None:
            alone.close()

    def _parameters(self, **values: object) -> dict[str, object]:
        return {"now": time.monotonic(), "lasts": LASTS, "alone": self._alone is not None, **values}

    def _raise_lost(self) -> NoReturn:
        raise LeaseLost(f"{self._what} {self._path}: another process has it now; this one stands by")

    def _is_same_file(self) -> bool:
        """Returns whether the path still names the file that we have open: it may have been deleted or replaced."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def _close(self) -> None:
        file, self._file, self._epoch = self._file, None, 0
        if file is not None:
            file.close()
        self._unlock()


def _holder_of(found: list[tuple[str, float, int]]) -> LeaseHolder | None:
    return next(
        (LeaseHolder(holder, datetime.fromtimestamp(since, UTC), bool(ended)) for holder, since, ended in found), None
    )


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


class SqliteSubscriptions:
    """Keeps subscriptions in the file `path`, which is created at first use; see `SubscriptionStore`.

    A crash of the machine may undo the last transactions: their events are then delivered again. The lease of each name
    that is served has a file of its own.
    """

    def __init__(self, path: Path, retry: float) -> None:
        self._path = path
        self._retry = retry
        tables = SqliteTables(path, "subscriptions", SUBSCRIPTIONS, CREATE)
        self.where, self.transaction, self.close = tables.where, tables.transaction, tables.close

    def lease(self, name: str) -> Lease:
        lock = self._path.with_name(f"{self._path.stem}.{name}.lock")
        return Lease(FileLease(lock, what=f"subscription {name!r}, its lock"), self._retry)
