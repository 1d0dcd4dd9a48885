"""Messages whose properties no Python client could write, put on a queue as the bytes of their AMQP frames."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable
from typing import Final

from redraft.events.rabbit.connection import Link, answer, close_channel, read_address
from redraft.events.rabbit.wire import BODY, END, HEADER, METHOD

TOLD: Final = "no.such.v1"
"""The type that each of the forged messages names, where its headers can be read."""


def short(raw: bytes) -> bytes:
    return bytes((len(raw),)) + raw


def long(raw: bytes) -> bytes:
    return struct.pack(">I", len(raw)) + raw


def table(*fields: bytes) -> bytes:
    """A table of headers with a type, and with these fields: a name, a kind and a value each."""
    return long(b"".join((short(b"cloudEvents:type") + b"S" + long(TOLD.encode()), *fields)))


def _nested(kind: bytes, levels: int) -> bytes:
    inner = b"V"
    for _ in range(levels):
        inner = kind + long(short(b"a") + inner if kind == b"F" else inner)
    return short(b"deep") + inner


_KIND, _HEADERS, _ID, _TIME, _APP = 0x8000, 0x2000, 0x0080, 0x0040, 0x0008
_LATE: Final = struct.pack(">Q", 1_790_000_000_000_000)
"""Now, in microseconds: as seconds or milliseconds it is beyond the year 9999."""

FORGED: Final = {
    "content type": (_KIND | _HEADERS, short(b"\xff\xfe") + table()),
    "message id": (_HEADERS | _ID, table() + short(b"caf\xe9")),
    "program": (_HEADERS | _APP, table() + short(b"\xc3")),
    "name of a header": (_HEADERS, table(short(b"\xff\xfe") + b"S" + long(b"a"))),
    "time of a header": (_HEADERS, table(short(b"at") + b"T" + _LATE)),
    "last time": (_HEADERS, table(short(b"at") + b"T" + b"\x7f" + 7 * b"\xff")),
    "time in a list": (_HEADERS, table(short(b"at") + b"A" + long(b"T" + _LATE))),
    "time": (_HEADERS | _TIME | _APP, table() + _LATE + short(b"go")),
    "tables in tables": (_HEADERS, table(_nested(b"F", 5_000))),
    "lists in lists": (_HEADERS, table(_nested(b"A", 400))),
}
"""The flags and the properties of messages, by what cannot be decoded in them."""


def header(name: str, size: int) -> bytes:
    """The payload of the header frame of one of `FORGED`."""
    flags, properties = FORGED[name]
    return struct.pack(">HHQH", 60, 0, size, flags) + properties


async def put_forged(url: str, queue: str, names: Iterable[str] = FORGED, body: bytes = b"{}") -> None:
    """They are in the queue, by its name on the server, when this returns."""
    link = Link(read_address(url), "forged", 10.0)
    try:
        await link.connect()
        channel = await link.channel()
        await answer(channel.queue_declare(queue, passive=True))
        method = struct.pack(">HHH", 60, 40, 0) + short(b"") + short(queue.encode()) + b"\0"
        confirmed = []
        for name in names:
            channel.delivery_tag += 1
            channel.confirmations[channel.delivery_tag] = channel.create_future()
            confirmed.append(channel.confirmations[channel.delivery_tag])
            frames = ((METHOD, method), (HEADER, header(name, len(body))), (BODY, body))
            for kind, payload in frames:
                link.wire.write(struct.pack(">BHI", kind, channel.number, len(payload)) + payload + END)
        await asyncio.gather(*confirmed)  # a quorum queue tells of itself before it has them
        await close_channel(channel)
    finally:
        await link.close()
