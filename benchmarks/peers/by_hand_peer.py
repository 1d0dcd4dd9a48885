"""The loop written by hand on a bare SQLite table: each step a row; one by one, or a commit for a step of all."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from peers.work import COMMENT, ROUNDS, TEXT, Loop, main, refined


@asynccontextmanager
async def open_by_hand(variant: str, folder: Path) -> AsyncIterator[Loop]:
    with closing(sqlite3.connect(folder / "hand.db", isolation_level=None)) as table:
        table.execute("PRAGMA journal_mode=WAL")
        table.execute("PRAGMA synchronous=FULL")
        table.execute("CREATE TABLE log (run TEXT, step INTEGER, body BLOB, PRIMARY KEY (run, step))")
        waiting: list[tuple[str, int, bytes]] = []
        written = asyncio.get_running_loop().create_future()

        def commit() -> None:
            """Writes the rows of this turn of the event loop in one transaction."""
            nonlocal written
            rows, done = waiting.copy(), written
            waiting.clear()
            written = asyncio.get_running_loop().create_future()
            table.execute("BEGIN")
            table.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)
            table.execute("COMMIT")
            done.set_result(None)

        async def step(name: str, number: int, said: object) -> None:
            if not waiting:
                asyncio.get_running_loop().call_soon(commit)
            waiting.append((name, number, json.dumps({"said": said}).encode()))
            await written

        async def one(name: str) -> str:
            draft = TEXT
            await step(name, 1, draft)
            for number in range(ROUNDS):
                await step(name, 2 * number + 2, COMMENT)
                draft = refined(draft)
                await step(name, 2 * number + 3, draft)
            await step(name, 2 * ROUNDS + 2, COMMENT)
            await step(name, 2 * ROUNDS + 3, draft)
            return draft

        yield one


if __name__ == "__main__":
    main(open_by_hand)
