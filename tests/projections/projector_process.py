"""Catches up with a store in small batches: STORE VIEWS [POSITION]. Says each position; kills itself at POSITION."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from redraft.events.backends import open_store
from redraft.events.messages.envelope import Recorded
from redraft.projections.backends import SHIPPED, open_views
from redraft.projections.engine.projection import Change, Projection
from redraft.projections.read_models.steps import STEPS

OTHERS = tuple(each for each in SHIPPED if each is not STEPS)


def mortal(projection: Projection, last: int) -> Projection:
    """The projection, whose process is killed while it applies the event at this position."""

    def apply(event: Recorded) -> Sequence[Change]:
        if event.position == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return tuple(projection.apply(event))

    return Projection(projection.name, projection.version, projection.tables, apply)


async def main(store: str, path: str, last: int = 0) -> None:
    async with (
        open_store(f"sqlite:///{store}") as log,
        open_views(path if "://" in path else Path(path), (*OTHERS, mortal(STEPS, last))) as views,
    ):
        head = await log.head()
        while (after := await views.refresh()) < head:
            async for batch in log.tail(after, follow=False, limit=20):
                sys.stdout.write(f"{await views.write(batch, after)}\n")
                sys.stdout.flush()
                break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
