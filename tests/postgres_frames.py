"""As much of PostgreSQL's protocol as it takes to see that a commit was answered: frames, and what each asks or says.

A client's frames up to a Sync, or a simple Query, are one unit; the server ends its answer to one with ReadyForQuery.
An append is a statement that calls `redraft_append`, outside of a transaction block: its answer says that it committed.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import Final

APPEND: Final = b"redraft_append"
COMMIT: Final = b"COMMIT\0"
_SELECT: Final = b"SELECT "
_UNTYPED: Final = 8
"""Bytes of the first message at least: it has no type, but a length and a version or a code."""


class Frames:
    """Cuts one direction of a connection into frames. `begins_untyped`: the client's first message has no type."""

    def __init__(self, *, begins_untyped: bool) -> None:
        self._rest = b""
        self._untyped = begins_untyped

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The frames that are whole now: the type (empty for a message without), and all bytes of the frame."""
        self._rest += data
        while (size := self._size()) and len(self._rest) >= size:
            frame, self._rest = self._rest[:size], self._rest[size:]
            kind = b"" if self._untyped else frame[:1]
            self._untyped = False
            yield kind, frame

    def _size(self) -> int:
        """How long the next frame is; 0 while that is not known."""
        if self._untyped:
            return int(struct.unpack_from(">i", self._rest)[0]) if len(self._rest) >= _UNTYPED else 0
        return 1 + int(struct.unpack_from(">i", self._rest, 1)[0]) if len(self._rest) > 4 else 0


class Commits:
    """Follows one connection, and says of each answer of the server whether it is that of a commit."""

    def __init__(self) -> None:
        self._appends: set[bytes] = set()
        self._unit = False
        self._units: deque[bool] = deque()
        self._tag = b""

    def asked(self, kind: bytes, frame: bytes) -> None:
        """Takes in a frame of the client."""
        match kind:
            case b"P":
                name, text = frame[5:].split(b"\0", 2)[:2]
                (self._appends.add if APPEND in text else self._appends.discard)(name)
                self._unit |= text.strip().upper() == b"COMMIT"
            case b"B":
                statement = frame[5:].split(b"\0", 2)[1]
                self._unit |= statement in self._appends or statement == APPEND
            case b"Q":
                text = frame[5:].upper()
                self._units.append(text.strip(b"\0 ;") == b"COMMIT")
            case b"S":
                self._units.append(self._unit)
                self._unit = False
            case _:
                pass

    def is_commit(self, kind: bytes, frame: bytes) -> bool:
        """Takes in a frame of the server; whether it says that something was committed."""
        match kind:
            case b"C":
                self._tag = frame[5:]
                asked = bool(self._units) and self._units[0]
                return asked and (self._tag == COMMIT or self._tag.startswith(_SELECT))
            case b"Z":
                if self._units:
                    self._units.popleft()
                return False
            case _:
                return False
