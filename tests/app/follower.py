"""A process that has the broker alone: a line for each event, until the first run has ended."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from redraft.app.settings.settings import read_settings
from redraft.app.wiring.deployment import open_client


async def follow() -> None:
    async with (
        open_client(read_settings(store="memory:"), reads=False) as client,
        aclosing(client.subscribe()) as events,
    ):
        async for event in events:
            sys.stdout.write(f"{event.position} {event.name}\n")
            if event.name.startswith("run.ended"):
                return


if __name__ == "__main__":
    asyncio.run(follow())
