"""Catches up with a store in small batches: STORE VIEWS [POSITION]. Says each position; kills itself at POSITION."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from redraft.events.backends import open_store
from redraft.projections.backends import SHIPPED, open_views
from redraft.projections.engine.positions import Positions
from redraft.projections.engine.storage import Cursor


def end_at(last: int) -> None:
    """Makes the process kill itself in the transaction that counts the event at this position, its rows written."""
    move = Positions.move

    def move_or_end(self: Positions, cursor: Cursor, checkpoint_name: str, position: int) -> None:
        if position >= last:
            os.kill(os.getpid(), signal.SIGKILL)
        move(self, cursor, checkpoint_name, position)

    Positions.move = move_or_end  # type: ignore[method-assign]


async def main(store: str, path: str, last: int = 0) -> None:
    if last:
        end_at(last)
    async with (
        open_store(f"sqlite:///{store}") as log,
        open_views(path if "://" in path else Path(path), SHIPPED) as views,
    ):
        head = await log.head()
        while (after := await views.refresh()) < head:
            async for batch in log.tail(after, follow=False, limit=20):
                sys.stdout.write(f"{await views.write(batch, after)}\n")
                sys.stdout.flush()
                break


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
