"""Reads and writes archives: a log, or runs of it, as one file of JSON lines, compressed by Zstandard.

The first line is `{"redraft_archive": 1, "made": …}`. One line for each event follows, in the order of the log: its
place, and byte for byte what the store holds, so that it can be checked without Redraft. Before the first event of an
encrypted run there is `{"key": {"run": …, "wrapped": …}}`, the run's key as the store has it. The last line is `{"end":
{"events": …, "runs": …, "sha256": …}}`, with the SHA-256 of all lines before it: an archive without it was cut off.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Final, NoReturn, TypeAlias

import msgspec
import zstandard

from redraft.events.errors import InputError, Tampered
from redraft.events.messages.codec import UNREADABLE, verify_content
from redraft.events.messages.content import MAX_DRAFT_BYTES
from redraft.events.store.raw_rows import RawRow

Raw: TypeAlias = tuple[int, str, bytes, int]
"""An event as stored: version in its run, name, bytes, position in the log (0: not known)."""


def export_jsonl(run: str, events: Iterable[Raw]) -> Iterator[str]:
    """Yields one line, with its line end, for each event. Raises Tampered for bytes that cannot be a stored event."""
    for version, name, state, position in events:
        try:
            kept = state.decode()
        except UnicodeDecodeError as error:
            raise _tampered_error(run, version, name) from error
        if not kept.startswith('{"hash":"') or not kept.endswith("}") or "\n" in kept:
            raise _tampered_error(run, version, name)
        found = f'"position":{position},' if position else ""
        place = f'"run":{_quote(run)},"version":{version},"name":{_quote(name)}'
        yield f"{{{found}{place},{kept[1:]}\n"


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _tampered_error(run: str, version: int, name: str) -> Tampered:
    return Tampered(f"event {version} of run {run} ({name}) is not what was recorded: its bytes are not a stored event")


FORMAT: Final = 1
MIN_LINE_LIMIT: Final = 32 * 1024 * 1024
"""The minimum limit in bytes of a line, whatever the size of drafts: twice the limit of a message on the bus."""

PER_BYTE: Final = 8
"""Bytes of a line for each byte of the largest draft: JSON takes up to six per character, and critiques come on top."""

_HEAD_LINE: Final = 1024
LEVEL: Final = 6

_STATE: Final = b'"hash":"'


class RunKey(msgspec.Struct, frozen=True):
    """The wrapped key of an encrypted run."""

    run: str
    wrapped: bytes


Item: TypeAlias = RunKey | RawRow


class _Head(msgspec.Struct, frozen=True):
    redraft_archive: int
    made: datetime


class _Key(msgspec.Struct, frozen=True):
    key: RunKey


class End(msgspec.Struct, frozen=True):
    """The last line of an archive: its totals, and the digest of all lines before it."""

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
        self._out = zstandard.ZstdCompressor(level=LEVEL).stream_writer(file, closefd=False)
        self._hash = sha256()
        self._write(msgspec.json.encode(_Head(FORMAT, made)) + b"\n")

    def add(self, items: list[Item]) -> None:
        """Writes keys and events. Raises Tampered for an event that is not what was recorded."""
        for item in items:
            match item:
                case RunKey():
                    self._write(msgspec.json.encode(_Key(item)) + b"\n")
                case RawRow(position, run, version, name, state):
                    verify_content(run, version, name, state)
                    for line in export_jsonl(run, [(version, name, state, position)]):
                        self._write(line.encode())

    def finish(self, events: int, runs: int) -> None:
        """Writes the last line and flushes the compressor."""
        end = End(events, runs, self._hash.hexdigest())
        self._out.write(msgspec.json.encode(_Tail(end)) + b"\n")
        self._out.close()  # type: ignore[no-untyped-call]

    def _write(self, line: bytes) -> None:
        self._hash.update(line)
        self._out.write(line)


def read_archive(path: Path, draft_limit: int = MAX_DRAFT_BYTES) -> Iterator[Item]:
    """Yields the items of an archive in order, each event verified on its own. Raises InputError for the first fault.

    Faults that only the end shows (it was cut off, a line was removed) come at the end. Only one line is unpacked at a
    time, and none longer than an event with a draft of `draft_limit` bytes.
    """
    lines = _read_lines(path, max(MIN_LINE_LIMIT, PER_BYTE * draft_limit))
    whole = sha256()
    events = 0
    whole.update(_check_head(path, next(lines, (1, b""))[1]))
    for number, line in lines:
        item = _parse_item(path, number, line)
        if isinstance(item, End):
            if (item.events, item.sha256) != (events, whole.hexdigest()):
                _refuse(path, number, "it is not the end of these lines: some were changed or taken out")
            if next(lines, None) is not None:
                _refuse(path, number + 1, "there is more after its end")
            return
        whole.update(line)
        events += isinstance(item, RawRow)
        yield item
    raise InputError(f"archive {path} was cut off: its last line is missing; export it again, or fetch it again")


def _check_head(path: Path, line: bytes) -> bytes:
    try:
        head = msgspec.json.decode(line, type=_Head)
    except UNREADABLE:
        raise InputError(f"{path} is not an archive of Redraft; redraft export -o FILE writes one") from None
    if head.redraft_archive > FORMAT:
        raise InputError(f"archive {path} was written by a later version of Redraft; upgrade Redraft")
    return line


def _read_lines(path: Path, longest: int) -> Iterator[tuple[int, bytes]]:
    """Yields the lines with their numbers, each with its line end. The first, the head, may be truncated."""
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
                        "draft of the size allowed here; if its drafts are larger, set REDRAFT_MAX_DRAFT_BYTES to that"
                    )
                yield number, line
    except OSError as error:
        raise InputError(f"archive {path} cannot be read: {error.strerror}; check its path and permissions") from None
    except zstandard.ZstdError:
        raise InputError(
            f"archive {path} is damaged, or not an archive: it cannot be unpacked; export it again, or fetch it again"
        ) from None


def _parse_item(path: Path, number: int, line: bytes) -> Item | End:
    try:
        if line.startswith(b'{"end":'):
            return msgspec.json.decode(line, type=_Tail).end
        if line.startswith(b'{"key":'):
            return msgspec.json.decode(line, type=_Key).key
        return _parse_event(line)
    except Tampered as error:
        _refuse(path, number, str(error))
    except UNREADABLE:
        _refuse(path, number, "it is not an event")


def _parse_event(line: bytes) -> RawRow:
    """Returns the event of a line, with the stored bytes. Raises Tampered unless they are as recorded."""
    place = msgspec.json.decode(line, type=_Place)
    _, found, state = line.rstrip(b"\n").partition(_STATE)
    kept = b"{" + found + state
    verify_content(place.run, place.version, place.name, kept)
    return RawRow(place.position, place.run, place.version, place.name, kept)


def _refuse(path: Path, number: int, why: str) -> NoReturn:
    raise InputError(f"archive {path} is damaged in line {number}: {why}; export it again, or fetch it again") from None
