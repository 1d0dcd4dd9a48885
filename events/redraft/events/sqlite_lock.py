"""The relay's lease on one machine: a file beside the store, locked for as long as one process has it open.

SQLite keeps the lock from the first transaction on, and the operating system takes it from a process that dies. So each
save is made under the lock that it needs.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from redraft.events.errors import LeaseLost, StoreError, StoreUnusable
from redraft.events.sqlite_file import explain, opened

APPLICATION_ID: Final = 0x52645279
"""SQLite's `application_id` of our files: "RdRy"."""

_T = TypeVar("_T")


class FileLease:
    """A lease in the file `path`, which is made with the first; see `RelayLease`. `what` it is called in messages."""

    def __init__(self, path: Path, retry: float, what: str = "relay's checkpoint") -> None:
        self._path = path
        self._what = what
        self._retry = retry
        self._thread = ThreadPoolExecutor(1, "redraft-lease")
        self._held: tuple[sqlite3.Connection, int] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()
        self._thread.shutdown()

    async def acquire(self) -> int:
        while not await self._on_thread(self._take):  # noqa: ASYNC110  a file tells nobody that it is free
            await asyncio.sleep(self._retry)
        return await self.load()

    async def load(self) -> int:
        return await self._on_thread(lambda: self._move(0))

    async def save(self, position: int) -> None:
        await self._on_thread(lambda: self._move(position))

    async def release(self) -> None:
        await self._on_thread(self._let_go)

    async def _on_thread(self, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._let_go)
            raise StoreError(f"{self._what} {self._path}: {explain(error)}") from error

    def _take(self) -> bool:
        """Locks the file; False when somebody else has it."""
        self._let_go()
        connection = opened(self._path, 0)
        try:
            _lock(connection, self._path)
        except BaseException as error:
            connection.close()
            if _is_busy(error):
                return False
            raise
        self._held = connection, self._path.stat().st_ino
        return True

    def _move(self, position: int) -> int:
        """The checkpoint, once it is at least at this position."""
        if self._held is None or not self._is_there(self._held[1]):
            self._let_go()
            raise LeaseLost(f"{self._what} {self._path}: another one has it now; this one stands by")
        move = "UPDATE checkpoint SET position = max(position, ?) RETURNING position"
        ((found,),) = self._held[0].execute(move, (position,)).fetchall()
        return int(found)

    def _is_there(self, inode: int) -> bool:
        """Whether it is still the file that we have locked: a file can be taken away."""
        try:
            return self._path.stat().st_ino == inode
        except OSError:
            return False

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0].close()


def _lock(connection: sqlite3.Connection, path: Path) -> None:
    """Locks the file until the connection is closed, and lays it out if it is empty."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID:
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreUnusable(f"{path}: the file is not ours; move it away")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("CREATE TABLE checkpoint (position INTEGER NOT NULL)")
        connection.execute("INSERT INTO checkpoint VALUES (0)")
    connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
