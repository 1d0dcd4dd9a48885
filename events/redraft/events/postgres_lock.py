"""The relay's lease in PostgreSQL: an advisory lock, which the server takes from a session that ends.

Each save goes through the session that holds the lock, and names the epoch in which it was acquired. So it fails when
the session is gone, and when another one has had the lease since.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, NoReturn, Self

import psycopg
from psycopg.rows import DictRow
from psycopg.sql import SQL, Identifier

from redraft.events.errors import LeaseLost
from redraft.events.postgres_connection import Database
from redraft.events.postgres_schema import APPLICATION, RELAY, prepare

HOLD: Final = """
    SELECT set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '1', false),
           set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '6000', false)
"""
"""The server notices within 6 seconds that the machine of the holder is gone."""

_NO_EPOCH: Final = -1


class AdvisoryLease:
    """A lease in the database that a URL names; see `RelayLease`. Raises InputError when the URL is not understood."""

    def __init__(self, url: str, retry: float) -> None:
        self._database = Database(url)
        self._retry = retry
        self._schema = ""
        self._session: psycopg.AsyncConnection[DictRow] | None = None
        self._epoch = _NO_EPOCH

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    async def acquire(self) -> int:
        await self.release()
        if not self._schema:
            self._schema = await asyncio.to_thread(prepare, self._database)
        try:
            self._session = await self._database.connect_async()
            await self._session.execute(HOLD)
            while not await self._lock(self._session):  # noqa: ASYNC110  the server has nobody else to ask
                await asyncio.sleep(self._retry)
            row = await self._ask(self._session, "UPDATE {} SET epoch = epoch + 1 RETURNING epoch, position")
            # What is not yet on disk when the server dies is published once more.
            await self._session.execute("SET synchronous_commit = off")
        except psycopg.Error as error:
            await self.release()
            raise self._database.unreadable(error) from None
        self._epoch = row["epoch"]
        return int(row["position"])

    async def load(self) -> int:
        return await self._move(0)

    async def save(self, position: int) -> None:
        await self._move(position)

    async def release(self) -> None:
        session, self._session, self._epoch = self._session, None, _NO_EPOCH
        if session is not None:
            await session.close()

    async def _move(self, position: int) -> int:
        """The checkpoint, once it is at least at this position."""
        if self._session is None:
            self._lost()
        move = "UPDATE {} SET position = greatest(position, %s) WHERE epoch = %s RETURNING position"
        try:
            row = await self._ask(self._session, move, position, self._epoch)
        except psycopg.Error as error:
            await self.release()
            self._lost(self._database.explain(error))
        except LookupError:
            await self.release()
            self._lost()
        return int(row["position"])

    def _lost(self, why: str = "another relay has it now") -> NoReturn:
        raise LeaseLost(f"relay's checkpoint in {self._database.where}: {why}; this relay stands by") from None

    async def _lock(self, session: psycopg.AsyncConnection[DictRow]) -> bool:
        table = Identifier(self._schema, RELAY).as_string()
        cursor = await session.execute(
            "SELECT pg_try_advisory_lock(%s, %s::regclass::oid::integer) AS got", (APPLICATION, table)
        )
        row = await cursor.fetchone()
        return bool(row and row["got"])

    async def _ask(self, session: psycopg.AsyncConnection[DictRow], statement: str, *values: int) -> DictRow:
        """The one row that a statement gives; raises LookupError when it gives none."""
        query = SQL(statement).format(Identifier(self._schema, RELAY))
        row = await (await session.execute(query, values, prepare=True)).fetchone()
        if row is None:
            raise LookupError
        return row
