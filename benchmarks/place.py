"""Where the benchmark runs: all in one process on SQLite, or as a deployment, each part a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4

import aio_pika

from redraft.actors import Actor
from redraft.app import Client, Settings, open_local, read_settings
from redraft.app.process.lifecycle import together
from redraft.app.wiring.deployment import open_client
from redraft.events.bus.port import INBOX, work_queue
from redraft.events.rabbit.topology import Kind, Names

BUNDLE = 16
"""How many requests for one actor may share a message: the steps here are quick, so none waits for its neighbour."""

QUEUES: Kind = "classic"
"""The kind of the queues on the broker, which is one server here: a quorum queue has nobody to send a copy to."""


@asynccontextmanager
async def open_place(
    store: str, bus: str, module: Path, actors: Sequence[Actor], queues: Kind = QUEUES
) -> AsyncIterator[Client]:
    """A client of a place where these actors of a module work; what it made on a broker is deleted at the end."""
    if bus:
        async with open_deployment(store, bus, module, actors, queues) as (client, _):
            yield client
        return
    async with open_local(read_settings(store=store), actors) as runtime:
        yield runtime.client


@asynccontextmanager
async def open_deployment(
    store: str, bus: str, module: Path, actors: Sequence[Actor], queues: Kind = QUEUES
) -> AsyncIterator[tuple[Client, dict[str, Process]]]:
    """A client of a coordinator and a worker, and their processes by what they are."""
    settings = read_settings(
        store=store, bus=bus, broker_prefix=f"bench{uuid4().hex[:8]}", request_batch_size=BUNDLE, queue_type=queues
    )
    try:
        async with _deployed(settings, module, actors) as processes, open_client(settings) as client:
            yield client, processes
    finally:
        await _delete(settings, actors)


@asynccontextmanager
async def _deployed(settings: Settings, module: Path, actors: Sequence[Actor]) -> AsyncIterator[dict[str, Process]]:
    """`redraft coordinator` and `redraft worker`, for as long as the block lasts."""
    names = [f"{module}:{actor.name}" for actor in actors]
    async with AsyncExitStack() as stack:
        parts = [
            await stack.enter_async_context(_process(settings, "coordinator")),
            await stack.enter_async_context(_process(settings, "worker", *names)),
        ]
        async with together([_watch(*part) for part in parts]):
            yield {"coordinator": parts[0][0], "worker": parts[1][0]}


@asynccontextmanager
async def _process(settings: Settings, *command: str) -> AsyncIterator[tuple[Process, IO[bytes]]]:
    names = ("store", "bus", "broker_prefix", "request_batch_size", "queue_type")
    given = {f"REDRAFT_{name.upper()}": str(getattr(settings, name)) for name in names}
    with tempfile.TemporaryFile() as said:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "redraft", *command, env=os.environ | given, stdout=said, stderr=said
        )
        try:
            yield process, said
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def _watch(process: Process, said: IO[bytes]) -> None:
    await process.wait()
    said.seek(0)
    raise SystemExit(f"a part of the deployment ended: {said.read().decode(errors='replace')[-1000:]}")


async def _delete(settings: Settings, actors: Sequence[Actor]) -> None:
    names = Names(settings.broker_prefix)
    queues = [names.there(queue) for queue in (INBOX, *(work_queue(actor.role, actor.name) for actor in actors))]
    async with await aio_pika.connect(settings.bus) as connection, connection.channel() as channel:
        for queue in (*queues, names.dead_letters, names.events):
            await channel.queue_delete(queue)
        for exchange in (names.commands, names.incoming, names.events, names.cancellations, *queues):
            await channel.exchange_delete(exchange)
