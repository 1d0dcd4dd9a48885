"""A subscriber whose effects count exactly once: they lie in a database of its own, and the position beside them.

Run it: `python examples/exactly_once.py`. Beside a deployment: `redraft subscribe examples/exactly_once.py:note --name
notes`, as often killed and started as you like.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from functools import cache
from pathlib import Path

from redraft.app import open_local, read_settings
from redraft.events import Recorded

TABLES = """
    CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL);
    INSERT OR IGNORE INTO progress VALUES (1, 0);
    CREATE TABLE IF NOT EXISTS notes (number INTEGER PRIMARY KEY, position INTEGER, id TEXT, run TEXT, event TEXT);
"""


@cache
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(os.environ.get("NOTES", "notes.db"))
    connection.executescript(TABLES)
    return connection


async def note(event: Recorded) -> None:
    """Given an event that it has taken already, as after a crash, it finds nothing to move, and does nothing."""
    here = event.position
    with database() as notes:  # one transaction
        if notes.execute("UPDATE progress SET position = ? WHERE position < ?", (here, here)).rowcount:
            row = (here, event.id, event.run, event.name)
            notes.execute("INSERT INTO notes (position, id, run, event) VALUES (?, ?, ?, ?)", row)


async def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from article import article

    async with open_local(read_settings(), article.actors.values()) as runtime:
        run = await runtime.client.submit(article, "Why tides exist")
        end = await runtime.client.wait(run, until="end")
        done = asyncio.Event()

        async def note_until_the_end(event: Recorded) -> None:
            await note(event)
            if event.position == end.position:
                done.set()

        async with asyncio.TaskGroup() as tasks:  # which raises what `deliver` raises, as for a store in memory
            taking = tasks.create_task(runtime.client.deliver("notes", note_until_the_end))
            await done.wait()
            taking.cancel()
    with closing(database()) as notes:
        count, first, last = notes.execute("SELECT count(*), min(position), max(position) FROM notes").fetchone()
    print(f"{count} notes, from event {first} to event {last}")


if __name__ == "__main__":
    asyncio.run(main())
