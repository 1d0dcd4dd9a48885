"""Where the benchmark runs: all in one process on SQLite, or the parts of a deployment on RabbitMQ and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import uuid4

import aio_pika
import structlog

from redraft.actors import Actor
from redraft.app import Client, Settings, open_house, read_settings
from redraft.app.deployment import coordinate, open_client, work
from redraft.app.together import together

QUEUES = ("generator.write", "critic.judge", "refiner.improve", "publisher.save", "inbox", "parked", "events")


@asynccontextmanager
async def open_place(store: str, bus: str, actors: Sequence[Actor]) -> AsyncIterator[Client]:
    """A client of a place where these actors work; what it made on a broker is deleted at the end."""
    if not bus:
        async with open_house(read_settings(store=store), actors) as house:
            yield house.client
        return
    settings = read_settings(store=store, bus=bus, prefix=f"bench{uuid4().hex[:8]}")
    try:
        async with _deployed(settings, actors), open_client(settings) as client:
            yield client
    finally:
        await _delete(settings)


@asynccontextmanager
async def _deployed(settings: Settings, actors: Sequence[Actor]) -> AsyncIterator[None]:
    """A coordinator and a worker, as their commands run them, in this process."""
    quiet = structlog.wrap_logger(structlog.PrintLogger(), processors=[_drop])
    serving = [asyncio.Event(), asyncio.Event()]
    never = asyncio.Event()
    parts = [
        coordinate(settings, serving[0].set, quiet, drain=never),
        work(settings, actors, never, serving[1].set, quiet),
    ]
    async with together(parts):
        for each in serving:
            await each.wait()
        yield


def _drop(logger: object, name: str, event: object) -> str:
    raise structlog.DropEvent


async def _delete(settings: Settings) -> None:
    async with await aio_pika.connect(settings.bus) as connection:
        channel = await connection.channel()
        for name in QUEUES:
            await channel.queue_delete(f"{settings.prefix}.{name}")
        for name in ("commands", "events"):
            await channel.exchange_delete(f"{settings.prefix}.{name}")
