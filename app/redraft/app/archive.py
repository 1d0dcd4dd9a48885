"""The archive: a log, or runs of it, as one file that any tool can read: JSON lines, compressed by Zstandard.

The first line is `{"redraft_archive": 1, "made": …}`. Then comes one line for each event, in the order of the log, in
the form of `audit_lines`: its place, and byte for byte what the store holds, so that it can be checked without Redraft.
Before the first event of an encrypted run there is `{"key": {"run": …, "wrapped": …}}`, the run's key as the store has
it. The last line is `{"end": {"events": …, "runs": …, "sha256": …}}`, with the SHA-256 of all lines before it: an
archive without it was cut off.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Final, NoReturn, TypeAlias

import msgspec
import zstandard

from redraft.app.audit_lines import export_jsonl
from redraft.events.codec import verify_content
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.copying import Kept
from redraft.events.errors import InputError, Tampered

FORMAT: Final = 1
LEAST_LINE: Final = 32 * 1024 * 1024
"""Bytes that a line may have whatever the size of drafts: twice what a message on the bus may have."""

PER_BYTE: Final = 8
"""Bytes of a line for each byte of the largest draft: a character may take six in JSON, and critics speak as well."""

_HEAD_LINE: Final = 1024
LEVEL: Final = 6

_STATE: Final = b'"hash":"'


class RunKey(msgspec.Struct, frozen=True):
    """The wrapped key of an encrypted run."""

    run: str
    wrapped: bytes


Item: TypeAlias = RunKey | Kept


class _Head(msgspec.Struct, frozen=True):
    redraft_archive: int
    made: datetime


class _Key(msgspec.Struct, frozen=True):
    key: RunKey


class End(msgspec.Struct, frozen=True):
    """What an archive says of itself in its last line."""

    events: int
    runs: int
    sha256: str


class _Tail(msgspec.Struct, frozen=True):
    end: End


class _Place(msgspec.Struct, frozen=True):
    run: str
    version: int
    name: str
    position: int = 0


class ArchiveWriter:
    """Writes an archive to an open file, from the first line to `finish`."""

    def __init__(self, file: IO[bytes], made: datetime) -> None:
        self._out = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).stream_writer(file, closefd=False)
        self._hash = sha256()
        self._write(msgspec.json.encode(_Head(FORMAT, made)) + b"\n")

    def add(self, items: list[Item]) -> None:
        """Raises Tampered for an event that is not what was recorded."""
        for item in items:
            match item:
                case RunKey():
                    self._write(msgspec.json.encode(_Key(item)) + b"\n")
                case Kept(position, run, version, name, state):
                    verify_content(run, version, name, state)
                    for line in export_jsonl(run, [(version, name, state, position)]):
                        self._write(line.encode())

    def finish(self, events: int, runs: int) -> None:
        end = End(events, runs, self._hash.hexdigest())
        self._out.write(msgspec.json.encode(_Tail(end)) + b"\n")
        self._out.close()  # type: ignore[no-untyped-call]

    def _write(self, line: bytes) -> None:
        self._hash.update(line)
        self._out.write(line)


def read_archive(path: Path, draft_limit: int = MAX_DRAFT_BYTES) -> Iterator[Item]:
    """What an archive holds, in order, each event verified by itself; raises InputError for the first fault.

    Faults that only the end shows (it was cut off, a line was taken out) come at the end. No more than one line is
    unpacked at a time, and none that is longer than an event whose draft has `draft_limit` bytes.
    """
    lines = _lines(path, max(LEAST_LINE, PER_BYTE * draft_limit))
    whole = sha256()
    events = 0
    _check_head(path, next(lines, (1, b""))[1], whole)
    for number, line in lines:
        item = _item(path, number, line)
        if isinstance(item, End):
            if (item.events, item.sha256) != (events, whole.hexdigest()):
                _refuse(path, number, "it is not the end of these lines: some were changed or taken out")
            if next(lines, None) is not None:
                _refuse(path, number + 1, "there is more after its end")
            return
        whole.update(line)
        events += isinstance(item, Kept)
        yield item
    raise InputError(f"archive {path} was cut off: its last line is missing; export it again, or fetch it again")


def _check_head(path: Path, line: bytes, whole: object) -> None:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InputError(f"{path} is no archive of Redraft; redraft export -o FILE writes one") from None
    if head.redraft_archive > FORMAT:
        raise InputError(f"archive {path} was written by a later version of Redraft; upgrade Redraft")
    whole.update(line)  # type: ignore[attr-defined]  # a hash, whose type has no public name


def _lines(path: Path, longest: int) -> Iterator[tuple[int, bytes]]:
    """The lines with their numbers, each with its line end. The first, which is the head, may be cut off."""
    try:
        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as unpacked:
            reader = io.BufferedReader(unpacked, 1 << 20)
            number = 1
            yield number, reader.readline(_HEAD_LINE)
            while line := reader.readline(longest + 1):
                number += 1
                if len(line) > longest:
                    raise InputError(
                        f"archive {path}: line {number} has more than {longest:,} bytes, too many for an event with a "
                        "draft of the size allowed here; if its drafts are larger, set REDRAFT_DRAFT_LIMIT to that"
                    )
                yield number, line
    except OSError as error:
        raise InputError(f"archive {path} cannot be read: {error.strerror}; see to its path and permissions") from None
    except zstandard.ZstdError:
        raise InputError(
            f"archive {path} is damaged, or no archive: it cannot be unpacked; export it again, or fetch it again"
        ) from None


def _item(path: Path, number: int, line: bytes) -> Item | End:
    try:
        if line.startswith(b'{"end":'):
            return msgspec.json.decode(line, type=_Tail).end
        if line.startswith(b'{"key":'):
            return msgspec.json.decode(line, type=_Key).key
        return _event(line)
    except Tampered as error:
        _refuse(path, number, str(error))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        _refuse(path, number, "it is no event")


def _event(line: bytes) -> Kept:
    """The event of a line, with the bytes that were stored; raises Tampered unless they are as they were recorded."""
    place = msgspec.json.decode(line, type=_Place)
    _, found, state = line.rstrip(b"\n").partition(_STATE)
    kept = b"{" + found + state
    verify_content(place.run, place.version, place.name, kept)
    return Kept(place.position, place.run, place.version, place.name, kept)


def _refuse(path: Path, number: int, why: str) -> NoReturn:
    raise InputError(f"archive {path} is damaged in line {number}: {why}; export it again, or fetch it again") from None
