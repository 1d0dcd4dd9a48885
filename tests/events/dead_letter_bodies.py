"""Messages with large bodies, dead-lettered on RabbitMQ as a reader dead-letters them, and the reads of what became of
them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aio_pika
from tests.events.rabbit_server import URL

from redraft.events.bus.port import work_queue

QUEUE: Final = work_queue("critic", "judge")


@asynccontextmanager
async def channel() -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    async with await aio_pika.connect(URL) as connection, connection.channel() as opened:
        yield opened


async def park(prefix: str, number: int, size: int, queue: str = QUEUE) -> list[str]:
    """Parks so many messages of so many bytes; their ids, oldest first."""
    ids = [f"letter-{n:05}" for n in range(number)]
    headers: dict[str, aio_pika.abc.FieldValue] = {"redraft-queue": queue, "redraft-reason": "the judge is ill"}
    async with channel() as opened:
        for each in ids:
            message = aio_pika.Message(each.encode().ljust(size, b"x"), message_id=each, headers=headers)
            await opened.default_exchange.publish(message, f"{prefix}.dead-letters")
    return ids


async def came(prefix: str, number: int) -> list[str]:
    """Takes so many messages from the queue that they were dead-lettered from; the ids that they had when they were
    dead-lettered.
    """
    found: list[str] = []
    async with channel() as opened:
        queue = await opened.get_queue(f"{prefix}.critic.judge")
        while len(found) < number:
            message = await queue.get(no_ack=True, fail=False)
            found += [message.body[:12].decode()] if message else []
    return found


async def waiting(prefix: str) -> int:
    """How many messages wait in that queue."""
    async with channel() as opened:
        return (
            await opened.declare_queue(f"{prefix}.critic.judge", passive=True)
        ).declaration_result.message_count or 0
