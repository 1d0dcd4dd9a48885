"""What a worker and the process of an isolated actor tell each other: JSON behind its length, on two pipes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from redraft.events.plan import Role
from redraft.events.usage import Usage

if TYPE_CHECKING:
    from asyncio import StreamReader

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a frame at most; a letter of the bus is smaller."""

_HEAD: Final = 4

T = TypeVar("T")


class Load(msgspec.Struct, frozen=True):
    """Which actor the process is to load: out of a file, or, where `file` is empty, one that ships."""

    role: Role
    name: str
    version: str
    file: str = ""


class Ask(msgspec.Struct, frozen=True):
    """A request. `name` says what `body`, its JSON, is; `limit` is the largest draft in bytes."""

    name: str
    body: msgspec.Raw
    limit: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The actor is loaded."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The actor cannot be loaded, and why."""

    why: str


class Used(msgspec.Struct, frozen=True, tag="used"):
    """What the request has used until now."""

    usage: Usage


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The outcome of the request. `name` says what `body`, its JSON, is."""

    name: str
    body: msgspec.Raw


Told: TypeAlias = Ready | Refused | Used | Done

TOLD: Final[msgspec.json.Decoder[Told]] = msgspec.json.Decoder(Told)
ASK: Final = msgspec.json.Decoder(Ask)
LOAD: Final = msgspec.json.Decoder(Load)


def frame(value: Load | Ask | Told) -> bytes:
    """Returns a value as it travels."""
    body = msgspec.json.encode(value)
    return len(body).to_bytes(_HEAD) + body


async def received(reader: StreamReader, decoder: msgspec.json.Decoder[T]) -> T:
    """Returns the next value. Raises EOFError at the end of the pipe and for a frame that is too long, MsgspecError."""
    size = int.from_bytes(await reader.readexactly(_HEAD))
    if size > LARGEST:
        raise EOFError(f"a frame of {size:,} bytes")
    return decoder.decode(await reader.readexactly(size))


def write_all(pipe: int, data: bytes) -> None:
    """Writes all of it, however long that takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(pipe, rest) :]
