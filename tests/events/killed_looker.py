"""Looks at what is parked, and ends as by kill -9 when it has seen so many letters: PREFIX NUMBER.

With the word `retry`, puts all back to work, until it is killed by somebody else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import count

from tests.events.rabbit_server import URL

from redraft.events.bus import Parked
from redraft.events.rabbit_bus import open_rabbit_bus


async def main(prefix: str, what: str) -> None:
    seen = count(1)

    def keep(_: Parked) -> None:
        if next(seen) == int(what):
            os.kill(os.getpid(), signal.SIGKILL)

    async with open_rabbit_bus(URL, prefix=prefix) as bus:
        await (bus.retry_all() if what == "retry" else bus.parked(keep))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
