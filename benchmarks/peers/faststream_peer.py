"""FastStream: the steps as messages through four quorum queues, persistent and confirmed. It stores no history."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from faststream.rabbit import Channel, RabbitBroker, RabbitQueue
from faststream.rabbit.schemas.queue import QueueType
from peers.work import COMMENT, ROUNDS, TEXT, Loop, main, refined


@asynccontextmanager
async def open_faststream(variant: str, folder: Path) -> AsyncIterator[Loop]:
    broker = RabbitBroker(os.environ["BUS"], logger=None, default_channel=Channel(prefetch_count=100))
    prefix = f"peers-{uuid4().hex[:8]}"
    steps = ("write", "judge", "improve", "save")
    queues = {step: RabbitQueue(f"{prefix}.{step}", durable=True, queue_type=QueueType.QUORUM) for step in steps}
    ended: dict[str, asyncio.Future[str]] = {}

    async def send(step: str, message: dict[str, Any]) -> None:
        await broker.publish(message, queues[step], persist=True)

    @broker.subscriber(queues["write"])
    async def write(message: dict[str, Any]) -> None:
        await send("judge", {**message, "draft": TEXT, "rounds": 0})

    @broker.subscriber(queues["judge"])
    async def judge(message: dict[str, Any]) -> None:
        await send("save" if message["rounds"] == ROUNDS else "improve", {**message, "comment": COMMENT})

    @broker.subscriber(queues["improve"])
    async def improve(message: dict[str, Any]) -> None:
        await send("judge", {**message, "draft": refined(message["draft"]), "rounds": message["rounds"] + 1})

    @broker.subscriber(queues["save"])
    async def save(message: dict[str, Any]) -> None:
        ended[message["name"]].set_result(message["draft"])

    async def one(name: str) -> str:
        ended[name] = asyncio.get_running_loop().create_future()
        await send("write", {"name": name})
        try:
            return await ended[name]
        finally:
            del ended[name]

    await broker.start()
    try:
        yield one
    finally:
        for queue in queues.values():
            await (await broker.declare_queue(queue)).delete(if_unused=False, if_empty=False)
        await broker.stop()


if __name__ == "__main__":
    main(open_faststream)
