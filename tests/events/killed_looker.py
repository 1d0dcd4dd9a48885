"""Looks at what is dead-lettered, and ends as by kill -9 when it has seen so many messages: URL PREFIX NUMBER.

With the word `retry`, puts all back to work, until it is killed by somebody else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import count

from redraft.events.bus.port import DeadLetter
from redraft.events.rabbit.bus import RabbitBus


async def main(url: str, prefix: str, what: str) -> None:
    seen = count(1)

    def keep(_: DeadLetter) -> None:
        if next(seen) == int(what):
            os.kill(os.getpid(), signal.SIGKILL)

    async with RabbitBus(url, prefix=prefix) as bus:
        await (bus.retry_all() if what == "retry" else bus.dead_letters(keep))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
