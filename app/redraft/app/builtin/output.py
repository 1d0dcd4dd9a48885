"""What a program prints, kept up to a limit: memory stays bounded whatever the program does."""

from __future__ import annotations

import asyncio
import os
from typing import Final

_CHUNK: Final = 65_536


class Output:
    """So many pipes (two, for standard output and standard error), read as data arrives until `limit` bytes are kept.

    `full` is done, with the bytes that were kept, as soon as a program has printed more than the limit. Both write ends
    belong to whoever starts the program and must be closed by it; the read ends are closed by `close`.
    """

    __slots__ = ("_kept", "_loop", "_open", "_room", "full", "write_ends")

    def __init__(self, limit: int, number: int = 2) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = limit
        self.full: asyncio.Future[int] = self._loop.create_future()
        pipes = [os.pipe() for _ in range(number)]
        self.write_ends = tuple(write for _, write in pipes)
        self._kept: dict[int, bytearray] = {read: bytearray() for read, _ in pipes}
        self._open = set(self._kept)
        for read in self._kept:
            os.set_blocking(read, False)
            self._loop.add_reader(read, self._take, read)

    def drain(self) -> tuple[bytes, ...]:
        """Returns the bytes that came by each pipe until now; does not wait for more."""
        for read in tuple(self._open):
            while self._take(read):
                pass
        return tuple(map(bytes, self._kept.values()))

    def close(self) -> None:
        """Closes the read ends; a program that still prints is told by a broken pipe."""
        for read in tuple(self._open):
            self._shut(read)

    def _take(self, read: int) -> bool:
        """Keeps one chunk; False when there is none for now, or no more."""
        if self.full.done():
            self._loop.remove_reader(read)
            return False
        try:
            chunk = os.read(read, min(_CHUNK, self._room + 1))
        except BlockingIOError:
            return False
        self._kept[read] += chunk[: self._room]
        if len(chunk) > self._room:
            self.full.set_result(sum(map(len, self._kept.values())))
        self._room = max(0, self._room - len(chunk))
        if not chunk:
            self._shut(read)
        return bool(chunk)

    def _shut(self, read: int) -> None:
        self._loop.remove_reader(read)
        self._open.discard(read)
        os.close(read)
