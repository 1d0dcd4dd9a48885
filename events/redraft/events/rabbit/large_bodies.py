"""Requests that are larger than the server takes: the message refers to a queue of its own, which holds the pieces.

Who reads the request fetches them from there, and gives them back: should the request come to another reader, that one
fetches them too. The queue is deleted once the request is settled, or when nobody has asked for it for `EXPIRES`. Its
name begins as those of the notes between the readers of a queue do: so they have the right to read and to delete it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from uuid import uuid4

from aiormq.abc import DeliveredMessage
from aiormq.exceptions import ChannelNotFoundEntity

from redraft.events.errors import BusError
from redraft.events.rabbit.cloudevents import BODY, PIECE_NUMBER, PIECES, Headers, headers_of, number
from redraft.events.rabbit.connection import LOST, Link, answer, close_channel
from redraft.events.rabbit.fast_publish import Outgoing
from redraft.events.rabbit.publisher import Destination, Publisher
from redraft.events.rabbit.topology import Names

PIECE: Final = 8 * 1024 * 1024
"""Bytes of a piece."""

EXPIRES: Final = 24 * 60 * 60
"""Seconds after which a queue of pieces that nobody asks for is deleted."""

_TOKEN: Final = re.compile("[0-9a-f]{32}")

_MOST: Final = 1_000
"""The largest number of pieces that a message may say."""


def refers(message: DeliveredMessage, queue: str) -> str:
    """Returns the queue that has the pieces of a message's body; empty if the message has its body itself.

    A header that names no queue of pieces for readers of this `queue`, by its name on the server, counts as none.
    """
    name = headers_of(message).get(BODY)
    known = isinstance(name, str) and name.startswith(f"{queue}.notes-body-")
    return str(name) if known and _TOKEN.fullmatch(str(name).rpartition("-")[2]) else ""


class LargeBodies:
    """Puts, fetches and deletes the pieces of large bodies."""

    def __init__(self, out: Link, into: Link, names: Names, publisher: Publisher) -> None:
        self._out = out
        self._in = into
        self._names = names
        self._publisher = publisher
        self._deleting: set[asyncio.Task[None]] = set()

    async def put(self, queue: str, body: bytes) -> Headers:
        """Puts a body for a reader of `queue` on the server; returns the headers of the message that refers to it.

        Raises BusError.
        """
        name = f"{self._names.there(queue)}.notes-body-{uuid4().hex}"
        pieces = [body[start : start + PIECE] for start in range(0, len(body), PIECE)]

        async def prepare() -> None:
            channel = await self._out.channel()
            try:
                await answer(channel.queue_declare(name, durable=True, arguments=_arguments(len(pieces))))
            finally:
                await close_channel(channel)

        numbered = enumerate(pieces, 1)
        outgoing = [Outgoing("", name, piece, {PIECE_NUMBER: number}, transient=True) for number, piece in numbered]
        await self._publisher.send(Destination(name, prepare), outgoing)
        return {BODY: name, PIECES: len(pieces)}

    async def fetch(self, headers: Mapping[str, object]) -> bytes | None:
        """Returns the body that these headers refer to; None if it is not there any more. Raises BusError."""
        name, count = str(headers.get(BODY, "")), number(headers, PIECES)
        if not name or not 1 <= count <= _MOST:
            return None
        return await self._in.persist(lambda: self._fetch(name, count))

    async def _fetch(self, name: str, count: int) -> bytes | None:
        """Gets all pieces on a channel of its own; the server takes them back as the channel closes."""
        channel = await self._in.channel()
        try:
            pieces: dict[int, bytes] = {}
            while len(pieces) < count:
                found = await answer(channel.basic_get(name, no_ack=False))
                if found.delivery_tag is None:
                    return None
                pieces[number(headers_of(found), PIECE_NUMBER)] = bytes(found.body)
        except ChannelNotFoundEntity:
            return None
        finally:
            await close_channel(channel)
        return b"".join(pieces[each] for each in sorted(pieces))

    def delete(self, name: str) -> None:
        """Deletes a queue of pieces, soon; it expires by itself where that fails."""
        task = asyncio.create_task(self._delete(name))
        self._deleting.add(task)
        task.add_done_callback(self._deleting.discard)

    async def close(self) -> None:
        """Waits for what is being deleted."""
        await asyncio.gather(*self._deleting, return_exceptions=True)

    async def _delete(self, name: str) -> None:
        with suppress(*LOST, BusError):
            channel = await self._in.channel()
            try:
                await answer(channel.queue_delete(name))
            finally:
                await close_channel(channel)


def _arguments(pieces: int) -> Headers:
    return {
        "x-queue-type": "classic",
        "x-expires": EXPIRES * 1000,
        "x-max-length": 2 * pieces,
        "x-overflow": "reject-publish",
    }
