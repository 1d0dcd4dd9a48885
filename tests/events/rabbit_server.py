"""The RabbitMQ server that the tests share: each test has names of its own there, and takes them away afterwards."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

import aio_pika
import pytest

from redraft.events.bus.port import DELIVERY_LIMIT, INBOX, PARTITIONS, inbox_queues, work_queue
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.topology import Kind, Names

URL: Final = os.environ.get("REDRAFT_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/")
QUEUES: Final = (work_queue("critic", "judge"), work_queue("critic", "prüfer-京都"), INBOX)


def require_rabbitmq(url: str = URL) -> None:
    """Skips the test when no server is there, and fails it where one is required."""
    fault = _fault(url)
    if fault is None:
        return
    place = urlsplit(url)
    line = (
        f"no RabbitMQ at {place.hostname}:{place.port} ({fault}): start one (`rabbitmq-server -detached`, or "
        "`docker run -p 5672:5672 rabbitmq`), or name one in REDRAFT_TEST_RABBITMQ"
    )
    if os.environ.get("REDRAFT_REQUIRE_SERVICES") == "1":
        pytest.fail(line, pytrace=False)
    pytest.skip(line)


@asynccontextmanager
async def rabbit(
    *,
    capacity: int = 10_000,
    delivery_limit: int = DELIVERY_LIMIT,
    queues: Sequence[str] = QUEUES,
    prefix: str = "",
    batch: int = 1,
    kind: Kind = "quorum",
    partitions: int = 0,
) -> AsyncIterator[RabbitBus]:
    """A bus with names of its own on the shared server; all of them are gone afterwards."""
    require_rabbitmq()
    names = prefix or new_prefix()
    try:
        async with RabbitBus(
            URL,
            prefix=names,
            capacity=capacity,
            delivery_limit=delivery_limit,
            batch=batch,
            partitions=partitions,
            queues=kind,
        ) as bus:
            yield bus
    finally:
        await clear(URL, names, queues)


def new_prefix() -> str:
    return f"test-{uuid4().hex[:12]}"


async def clear(url: str, prefix: str, queues: Sequence[str] = QUEUES) -> None:
    """Deletes everything that a bus with this prefix made; what is not there is passed over."""
    names = Names(prefix)
    queues = [*queues, *inbox_queues(PARTITIONS)]
    async with await aio_pika.connect(url) as connection, connection.channel() as channel:
        for queue in [*map(names.there, queues), names.dead_letters, names.events]:
            await channel.queue_delete(queue)
        own = {names.own(queue) for queue in queues}
        for exchange in (names.commands, names.incoming, names.events, names.cancellations, *own):
            await channel.exchange_delete(exchange)


@cache
def _fault(url: str) -> str | None:
    place = urlsplit(url)
    try:
        socket.create_connection((place.hostname or "", place.port or 5672), timeout=5).close()
    except OSError as error:
        return str(error)
    return None
