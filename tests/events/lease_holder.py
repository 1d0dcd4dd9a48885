"""Holds the relay's lease of a store: URL POSITION. Says `held` with the checkpoint, saves, and keeps it.

When another has it, says `lost` and why.
"""

from __future__ import annotations

import asyncio
import sys

from redraft.events.backends import open_lease
from redraft.events.errors import LeaseLost


async def main(url: str, position: int) -> None:
    async with open_lease(url, retry=0.02) as lease:
        held = await lease.acquire()
        await lease.save(position)
        sys.stdout.write(f"held {held}\n")
        sys.stdout.flush()
        try:
            await lease.keep()
        except LeaseLost as error:
            sys.stdout.write(f"lost {error}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
