"""RabbitMQ and PostgreSQL by themselves: their rates stand beside the loop's in the same run."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

import aio_pika
import msgspec
import psycopg

BODY = b"x" * 2048
SECONDS = 1.5


class Rates(msgspec.Struct):
    """Confirmed publishes of 2 KB to a quorum queue, and commits of a 2 KB row, a second: one by one and together."""

    publishes_per_s: float
    publishes_128_per_s: float
    commits_per_s: float
    rows_grouped_64_per_s: float


async def rates(bus: str, store: str) -> Rates:
    """Measures each for a second and a half, on a queue and a table of its own."""
    return Rates(await publishes(bus, 1), await publishes(bus, 128), await commits(store, 1), await commits(store, 64))


async def publishes(url: str, at_once: int, body: bytes = BODY) -> float:
    """Confirmed publishes a second to a quorum queue of its own, so many in flight."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        queue = await channel.declare_queue(f"bare.{uuid4().hex}", durable=True, arguments={"x-queue-type": "quorum"})
        begun, sent = time.perf_counter(), 0
        while time.perf_counter() - begun < SECONDS:
            letters = [aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT) for _ in range(at_once)]
            await asyncio.gather(*(channel.default_exchange.publish(each, queue.name) for each in letters))
            sent += at_once
        taken = time.perf_counter() - begun
        await queue.delete(if_unused=False, if_empty=False)
    return sent / taken


async def commits(url: str, rows: int, body: bytes = BODY) -> float:
    """Rows a second that a table of its own takes, so many to a commit."""
    table = f"bare_{uuid4().hex}"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"CREATE TABLE {table} (number bigserial PRIMARY KEY, body bytea)".encode())
        insert = f"INSERT INTO {table} (body) SELECT unnest(%s::bytea[])".encode()
        begun, written = time.perf_counter(), 0
        while time.perf_counter() - begun < SECONDS:
            await connection.execute(insert, ([body] * rows,))
            written += rows
        taken = time.perf_counter() - begun
        await connection.execute(f"DROP TABLE {table}".encode())
    return written / taken
