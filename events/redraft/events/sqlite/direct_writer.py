"""Appends to a SQLite file from the event loop itself, without a thread, where the disk is quick.

A hop to a thread and back takes longer than SQLite's own work on a few events. So the event loop writes these itself
once commits have usually taken less than `QUICK`, for `ENOUGH` of them in a row; when that is over, the thread writes
again. Nothing waits here for another process that holds the file: the thread does. It also moves the write-ahead log
into the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from redraft.events.store.append import NewRow
from redraft.events.store.recorder import PersistenceError, Then

if TYPE_CHECKING:
    from redraft.events.sqlite.recorder import SQLiteRecorder

ENOUGH: Final = 16
"""For how many commits in a row the usual time has to be short before the event loop writes, or writes again."""

TURN: Final = 64
"""Every so many commits the thread writes, which looks after the write-ahead log."""

MOST_ROWS: Final = 16
MOST_BYTES: Final = 64 * 1024
"""The largest append that the event loop writes. The thread writes larger ones, while the loop goes on."""


class SqliteDirectWriter:
    """See `DirectWriter`."""

    def __init__(self, recorder: SQLiteRecorder) -> None:
        self._recorder = recorder

    def begin(self, rows: Sequence[NewRow], then: Then) -> bool:
        quick = self._recorder.quick_commits
        if quick < ENOUGH or quick % TURN == 0:
            return False
        if not 0 < len(rows) <= MOST_ROWS or sum(len(row.state) for row in rows) > MOST_BYTES:
            return False
        answer: Sequence[int] | PersistenceError | None
        try:
            answer = self._recorder.insert_if_free(rows)
        except PersistenceError as error:
            answer = error
        if answer is None:
            return False
        asyncio.get_running_loop().call_soon(then, answer)
        return True

    def close(self) -> None:
        """Does nothing: the recorder holds the connection."""
