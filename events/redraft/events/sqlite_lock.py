"""Leases on one machine: a file for each, whose row says until when, by the clock that all processes here share.

A second file beside it is locked while the holder lives: the operating system takes that lock from a process that dies,
and then nobody waits for the time to be over. The first stays open as long as the lease is held: releases before this
one locked it for as long as they had it, and stand by while somebody has it open, as ours stand by while it is locked.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from redraft.events.errors import LeaseLost, StoreError, StoreUnusable
from redraft.events.lease import LASTS, Held, this_process
from redraft.events.sqlite_file import explain, opened

APPLICATION_ID: Final = 0x52645279
"""SQLite's `application_id` of our files: "RdRy"."""

BUSY_SECONDS: Final = 1.0
"""How long somebody else may be at the file; a release before this one has it locked for as long as it likes."""

_LAYOUT: Final = (
    "CREATE TABLE IF NOT EXISTS checkpoint (position INTEGER NOT NULL)",
    "INSERT INTO checkpoint SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM checkpoint)",
    """CREATE TABLE IF NOT EXISTS lease (
        one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER NOT NULL, holder TEXT NOT NULL, since REAL NOT NULL,
        expires REAL NOT NULL, locked INTEGER NOT NULL
    )""",
)
_ENDED: Final = "(expires <= :now OR expires > :now + 2 * :lasts)"
"""What lasts longer than a lease can was given by a clock before the last start of the machine."""

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


class FileRow:
    """The lease in the file `path`, which is made with the first; see `Row`. `what` it is called in messages."""

    def __init__(self, path: Path, what: str = "relay's checkpoint") -> None:
        self._path = path
        self._what = what
        self._thread = ThreadPoolExecutor(1, "redraft-lease")
        self._file: sqlite3.Connection | None = None
        self._inode = 0
        self._alone: sqlite3.Connection | None = None
        self._epoch = 0

    async def take(self) -> Held | None:
        return await self._on_thread(self._take)

    async def renew(self, position: int) -> int:
        return await self._on_thread(lambda: self._renew(position))

    async def let_go(self) -> None:
        await self._on_thread(self._let_go)

    async def look(self) -> tuple[Held | None, int]:
        """Who has the lease, None when nobody ever had, and the checkpoint. Raises StoreError; makes no file."""
        return await self._on_thread(self._look) if self._path.exists() else (None, 0)

    async def close(self) -> None:
        self._thread.shutdown()

    async def _on_thread(self, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            raise StoreError(f"{self._what} {self._path}: {explain(error)}") from error

    def _take(self) -> Held | None:
        try:
            if self._file is None or not self._is_there():
                self._open()
            self._lock()
            with self._transaction() as file:
                told = self._told(holder=this_process(), since=time.time())
                taken = file.execute(_TAKE, told).fetchall()
                who = file.execute(_WHO, told).fetchall()
        except sqlite3.Error as error:
            self._close()
            if _is_busy(error):
                return Held("a process that keeps the file locked")
            raise
        if taken:
            ((self._epoch,),) = taken
            return None
        self._unlock()
        return _held(who)

    def _renew(self, position: int) -> int:
        if self._file is None or not self._epoch or not self._is_there():
            self._close()
            self._lost()
        self._lock()
        with self._transaction() as file:
            mine = file.execute(_RENEW, self._told(epoch=self._epoch)).fetchall()
            moved = file.execute(_MOVE, (position,)).fetchall() if mine else []
        if not moved:
            self._close()
            self._lost()
        return int(moved[0][0])

    def _look(self) -> tuple[Held | None, int]:
        try:
            self._open()
            self._lock()
            with self._transaction() as file:
                ((position,),) = file.execute("SELECT position FROM checkpoint").fetchall()
                return _held(file.execute(_WHO, self._told()).fetchall()), int(position)
        except sqlite3.Error as error:
            if _is_busy(error):
                return Held("a process that keeps the file locked"), 0
            raise
        finally:
            self._close()

    def _let_go(self) -> None:
        if self._file is not None and self._epoch and self._is_there():
            with suppress(sqlite3.Error):  # then it ends by itself
                self._file.execute("UPDATE lease SET expires = 0 WHERE epoch = ?", (self._epoch,))
        self._close()

    def _open(self) -> None:
        self._close()
        file = opened(self._path, BUSY_SECONDS)
        try:
            _lay_out(file, self._path)
        except BaseException:
            file.close()
            raise
        self._file, self._inode = file, self._path.stat().st_ino

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The file, while nobody else writes."""
        file = self._file or self._lost()
        file.execute("BEGIN IMMEDIATE")
        try:
            yield file
            file.execute("COMMIT")
        finally:
            if file.in_transaction:
                file.rollback()

    def _lock(self) -> None:
        """Takes the lock of who has the lease, if nobody has that."""
        if self._alone is None:
            beside = self._path.with_name(f"{self._path.name}-alive")
            alone = opened(beside, 0)
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

    def _told(self, **values: object) -> dict[str, object]:
        return {"now": time.monotonic(), "lasts": LASTS, "alone": self._alone is not None, **values}

    def _lost(self) -> NoReturn:
        raise LeaseLost(f"{self._what} {self._path}: another process has it now; this one stands by")

    def _is_there(self) -> bool:
        """Whether it is still the file that we have open: a file can be taken away."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def _close(self) -> None:
        file, self._file, self._epoch = self._file, None, 0
        if file is not None:
            file.close()
        self._unlock()


def _lay_out(file: sqlite3.Connection, path: Path) -> None:
    """Lays the file out if it is empty, or of a release that knew no time."""
    (application,) = file.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID and file.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise StoreUnusable(f"{path}: the file is not ours; move it away")
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = NORMAL")
    if file.execute("SELECT 1 FROM sqlite_master WHERE name = 'lease'").fetchone():
        return
    file.execute("BEGIN IMMEDIATE")
    try:
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in _LAYOUT:
            file.execute(statement)
        file.execute("COMMIT")
    finally:
        if file.in_transaction:
            file.rollback()


def _held(found: list[tuple[str, float, int]]) -> Held | None:
    return next((Held(holder, datetime.fromtimestamp(since, UTC), bool(ended)) for holder, since, ended in found), None)


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
