"""Reads from a queue until a letter of this run comes, and ends as by kill -9: PREFIX QUEUES QUEUE RUN LIMIT."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import cast

from tests.events.rabbit_server import URL

from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.topology import Kind


async def main(prefix: str, kind: Kind, queue: str, poison: str, limit: int) -> None:
    async with (
        RabbitBus(URL, prefix=prefix, queues=kind, delivery_limit=limit) as bus,
        bus.consume(queue, 1) as consumer,
    ):
        while True:
            for delivery in await consumer.take(1):
                sys.stdout.write(f"{delivery.bus_message.run} {delivery.count}\n")
                sys.stdout.flush()
                if delivery.bus_message.run == poison:
                    os.kill(os.getpid(), signal.SIGKILL)
                await consumer.ack([delivery])


if __name__ == "__main__":
    given = sys.argv[1:]
    asyncio.run(main(given[0], cast("Kind", given[1]), given[2], given[3], int(given[4])))
