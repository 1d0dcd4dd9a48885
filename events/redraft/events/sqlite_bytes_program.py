"""Reads a file for another process: `python sqlite_bytes_program.py FILE`; see `sqlite_bytes`.

It is run by itself, and needs nothing but the standard library. The first answer tells whether the file is open; from
then on there is one for each question. It ends with its standard input.
"""

from __future__ import annotations

import signal
import struct
import sys
from typing import BinaryIO, Final

QUESTION: Final = struct.Struct(">QI")
"""From where to read, and how many bytes."""

ANSWER: Final = struct.Struct(">iI")
"""The number of the system's error (0: none), and how many bytes follow, which are fewer at the end of the file."""


def serve(path: str, asked: BinaryIO, given: BinaryIO) -> None:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  quicker to begin than with pathlib
            _say(given, 0, b"")
            while len(question := asked.read(QUESTION.size)) == QUESTION.size:
                at, count = QUESTION.unpack(question)
                file.seek(at)
                _say(given, 0, _read(file, count))
    except OSError as error:
        _say(given, error.errno or 0, b"")


def _read(file: BinaryIO, count: int) -> bytes:
    found = bytearray()
    while len(found) < count and (part := file.read(count - len(found))):
        found += part
    return bytes(found)


def _say(given: BinaryIO, error: int, found: bytes) -> None:
    given.write(ANSWER.pack(error, len(found)) + found)
    given.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asks is told as well, and stops asking
    serve(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)
