"""The end of a process and the lines of its standard error, which what it started may hold open for longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_LONGEST: Final = 64 * 1024
"""The number of bytes after which a line is cut that does not end."""

REST: Final = 1.0
"""Seconds after the end of a process in which what is left of its standard error is read."""


class ChildOutput(asyncio.SubprocessProtocol):
    """Calls `write` with each line of a process's standard error, and waits for its end.

    `Process.wait` of asyncio waits for the end of the pipes too, and so for all that inherited them.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._line = b""
        self._exited = asyncio.Event()
        self._silent = asyncio.Event()

    async def wait(self) -> None:
        """Waits until the process has ended and what it wrote is written: `REST` seconds at most for the latter."""
        await self._exited.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(REST):
                await self._silent.wait()
        self._end_line()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *whole, self._line = (self._line + data).split(b"\n")
        for line in whole:
            self._write(line.decode(errors="replace"))
        if len(self._line) > _LONGEST:
            self._end_line()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 2:
            self._silent.set()

    def process_exited(self) -> None:
        self._exited.set()

    def _end_line(self) -> None:
        if self._line:
            self._write(self._line.decode(errors="replace"))
            self._line = b""
