"""The bytes of a SQLite file, read without harm to who has it open in this process.

A process that closes a file loses all the locks that it has on it, those of SQLite included; see `sqlite_identity`. So
another process reads it, which has no locks to lose: `sqlite_bytes_program`. It ends when nothing more is asked of it.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Protocol

from redraft.events.sqlite_bytes_program import ANSWER, QUESTION

AHEAD: Final = 2**16
"""Bytes that are read at once at least: a question takes longer than that many bytes."""

_PROGRAM: Final = Path(__file__).with_name("sqlite_bytes_program.py")


class Bytes(Protocol):
    """A file, or what is read as one."""

    def seek(self, at: int, /) -> object:
        """Goes to a place, from 0."""
        ...

    def read(self, count: int, /) -> bytes:
        """As many bytes from there on; fewer at the end of the file."""
        ...


class FileBytes:
    """A file that another process reads. Memory: what was read last, `AHEAD` bytes at least."""

    def __init__(self, asked: IO[bytes], given: IO[bytes]) -> None:
        """`asked` and `given` are the pipes to and from the process. Raises OSError when it cannot open the file."""
        self._asked = asked
        self._given = given
        self._at = 0
        self._start = 0
        self._held = b""
        self._answer()

    def seek(self, at: int, /) -> int:
        self._at = at
        return at

    def read(self, count: int, /) -> bytes:
        """Raises OSError."""
        begin = self._at - self._start
        if not 0 <= begin <= begin + count <= len(self._held):
            self._asked.write(QUESTION.pack(self._at, max(count, AHEAD)))
            self._asked.flush()
            self._start, self._held, begin = self._at, self._answer(), 0
        found = self._held[begin : begin + count]
        self._at += len(found)
        return found

    def _answer(self) -> bytes:
        head = self._given.read(ANSWER.size)
        if len(head) == ANSWER.size:
            error, count = ANSWER.unpack(head)
            if error:
                raise OSError(error, os.strerror(error))
            found = self._given.read(count)
            if len(found) == count:
                return found
        raise OSError(errno.EIO, "the process that reads it has ended")


@contextmanager
def bytes_of(path: Path) -> Iterator[FileBytes]:
    """The bytes of a file until the context ends. What was read may be read ahead: open it anew to see changes.

    Raises OSError.
    """
    command = (sys.executable, "-I", "-S", str(_PROGRAM), str(path))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        if process.stdin is None or process.stdout is None:
            raise OSError(errno.EIO, "no pipe")
        yield FileBytes(process.stdin, process.stdout)
