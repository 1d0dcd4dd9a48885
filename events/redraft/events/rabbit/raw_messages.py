"""Reads a queue with its messages as they came over the wire, for checks of what other programs send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import msgspec
from aiormq.abc import DeliveredMessage

from redraft.events.bus.port import DELIVERY_LIMIT, BusMessage
from redraft.events.rabbit.cloudevents import message_headers, read_headers, read_message
from redraft.events.rabbit.connection import Link, answer, read_address
from redraft.events.rabbit.structured_events import read_batch
from redraft.events.rabbit.topology import Kind, Names, Topology

_MOST: Final = 1_000
_PATIENCE: Final = 10.0
_PERSISTENT: Final = 2


class RawMessage(msgspec.Struct, frozen=True):
    """A message as it came: its attributes as headers with our prefix, and whether it outlives the server's restart."""

    bus_message: BusMessage
    headers: Mapping[str, object]
    persistent: bool


@asynccontextmanager
async def read_raw(
    url: str, prefix: str, kind: Kind, queue: str, others: Sequence[str] = ()
) -> AsyncIterator[asyncio.Queue[RawMessage]]:
    """Takes every message out of a queue while the context lasts. Makes this queue and the `others`.

    Raises InputError for a URL or a name that cannot be used, BusError when the server cannot be.
    """
    names = Names(prefix)
    link = Link(read_address(url), "checks", _PATIENCE)
    topology = Topology(link, names, DELIVERY_LIMIT, kind)
    came: asyncio.Queue[RawMessage] = asyncio.Queue(_MOST)

    async def deliver(message: DeliveredMessage) -> None:
        for each in _raw(message):
            await came.put(each)

    async def start() -> None:
        for each in (queue, *others):
            await topology.queue(each)
        channel = await link.channel()
        await answer(channel.basic_consume(names.there(queue), deliver, no_ack=True))

    try:
        await link.connect()
        await link.persist(start)
        yield came
    finally:
        await link.close()


def _raw(message: DeliveredMessage) -> Sequence[RawMessage]:
    persistent = message.header.properties.delivery_mode == _PERSISTENT
    if whole := read_batch(message):
        return [RawMessage(each, message_headers(each), persistent) for each in whole]
    return [RawMessage(read_message(message), read_headers(message), persistent)]
