"""Hearing of appends as they happen: PostgreSQL notifies whoever listens, once for each transaction.

What is missed while there is no connection, or not yet, is found by the tail's own looking, which goes on beside this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg
from psycopg.rows import DictRow
from psycopg.sql import SQL, Identifier

from redraft.events.postgres_connection import Database
from redraft.events.postgres_schema import EVENTS

RECONNECT_SECONDS: Final = 1.0
"""How long after a connection was lost another one is tried."""

_PAUSE_SECONDS: Final = 0.001
"""What is told within this time is taken in together."""

_QUIET_SECONDS: Final = 0.02
"""The same while only we append: to hear what we know already wakes us for nothing."""


_SILENT_SECONDS: Final = 20.0
"""After so long without a word the server is asked whether it is there."""


async def listen(database: Database, schema: str, is_ours: Callable[[int], bool], moved: Callable[[int], None]) -> None:
    """Calls `moved` with the end of the log when another program has appended; never ends by itself.

    `is_ours` tells, by the id of the server's process, whether we appended it: then we know, or are just being told.
    """
    while True:
        with suppress(psycopg.Error):
            connection = await database.connect_async()
            try:
                await _listen(connection, schema, is_ours, moved)
            finally:
                await connection.close()
        await asyncio.sleep(RECONNECT_SECONDS)


async def _listen(
    connection: psycopg.AsyncConnection[DictRow],
    schema: str,
    is_ours: Callable[[int], bool],
    moved: Callable[[int], None],
) -> None:
    events = Identifier(schema, EVENTS)
    found = await (await connection.execute("SELECT %s::regclass::oid AS oid", (events.as_string(),))).fetchone()
    await connection.execute(SQL("LISTEN {}").format(Identifier(f"redraft_{found['oid'] if found else 0}")))
    while True:
        heard = [each async for each in connection.notifies(timeout=_SILENT_SECONDS, stop_after=1)]
        if not heard:
            await connection.execute("SELECT 1")  # whether the server is there at all
        told = [each for each in heard if not is_ours(each.pid)]
        if told and told[-1].payload.isdecimal():
            moved(int(told[-1].payload))
        await asyncio.sleep(_PAUSE_SECONDS if told else _QUIET_SECONDS)
