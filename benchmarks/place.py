"""The places of the benchmark: one process on SQLite, or a deployment, each part a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO
from uuid import uuid4

import aio_pika
import msgspec

from redraft.actors import Actor
from redraft.app import Client, Settings, open_local, read_settings
from redraft.app.process.lifecycle import together
from redraft.app.wiring.deployment import open_client
from redraft.events.backends import open_shares
from redraft.events.bus.port import PARTITIONS, inbox_queues, work_queue
from redraft.events.rabbit.topology import Kind, Names

BUNDLE = 16
"""How many requests for one actor may share a message: the steps here are quick, so none waits for its neighbour."""

QUEUES: Kind = "classic"
"""The kind of the inbox on the broker, which is one server here: a quorum queue has nobody to send a copy to."""


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


class Parts(msgspec.Struct):
    """The processes of a deployment, and what those that have ended said."""

    worker: Process
    coordinators: Sequence[Process]
    said: list[str]


@asynccontextmanager
async def open_deployment(
    store: str,
    bus: str,
    module: Path,
    actors: Sequence[Actor],
    queues: Kind = QUEUES,
    coordinators: int = 1,
    partitions: int = PARTITIONS,
    *,
    watched: bool = True,
) -> AsyncIterator[tuple[Client, Parts]]:
    """A client of so many coordinators and a worker, and their processes; `watched` ones may not end."""
    settings = read_settings(
        store=store,
        bus=bus,
        broker_prefix=f"bench{uuid4().hex[:8]}",
        request_batch_size=BUNDLE,
        queue_type=queues,
        inbox_partitions=partitions,
    )
    try:
        async with (
            _deployed(settings, module, actors, coordinators, watched=watched) as parts,
            open_client(settings) as client,
        ):
            yield client, parts
    finally:
        await _delete(settings, actors)


@asynccontextmanager
async def _deployed(
    settings: Settings, module: Path, actors: Sequence[Actor], coordinators: int, *, watched: bool
) -> AsyncIterator[Parts]:
    """`redraft coordinator` and `redraft worker`, for as long as the block lasts."""
    names = [f"{module}:{actor.name}" for actor in actors]
    commands = [("worker", *names), *[("coordinator",)] * coordinators]
    ended: list[str] = []
    async with AsyncExitStack() as stack:
        parts = [await stack.enter_async_context(_process(settings, ended, *command)) for command in commands]
        async with together([_watch(*part) for part in parts if watched]):
            await _shared_out(settings, coordinators)
            (worker, _), *others = parts
            yield Parts(worker, [process for process, _ in others], ended)


async def _shared_out(settings: Settings, coordinators: int) -> None:
    """Waits until each coordinator has its share of the inbox."""
    async with open_shares(settings.store) as shares:
        while settings.inbox_partitions:
            counts = Counter(each.holder for each in await shares.all())
            if len(counts) == coordinators and "" not in counts and max(counts.values()) - min(counts.values()) < 2:
                return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _process(settings: Settings, ended: list[str], *command: str) -> AsyncIterator[tuple[Process, IO[bytes]]]:
    names = ("store", "bus", "broker_prefix", "request_batch_size", "queue_type", "inbox_partitions")
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
            said.seek(0)
            ended.append(said.read().decode(errors="replace"))


async def _watch(process: Process, said: IO[bytes]) -> None:
    await process.wait()
    said.seek(0)
    raise SystemExit(f"a part of the deployment ended: {said.read().decode(errors='replace')[-1000:]}")


async def _delete(settings: Settings, actors: Sequence[Actor]) -> None:
    names = Names(settings.broker_prefix)
    ours = (*inbox_queues(settings.inbox_partitions), *(work_queue(actor.role, actor.name) for actor in actors))
    queues = [names.there(queue) for queue in ours]
    async with await aio_pika.connect(settings.bus) as connection, connection.channel() as channel:
        for queue in (*queues, names.dead_letters, names.events):
            await channel.queue_delete(queue)
        for exchange in (names.commands, names.incoming, names.events, names.cancellations, *queues):
            await channel.exchange_delete(exchange)
