"""Leases in PostgreSQL, and the subscriptions that are served under them.

A lease is a row, with times of the server's clock, and locks of the session that renews it.

A session lock shows whether the holder's process has ended: then others need not wait for the expiry. Earlier releases
held only a lock, for as long as a session lasted: all sessions of ours share that lock, so that older processes stand
by while one of ours runs, and ours while an older one holds it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, LiteralString, NoReturn

import msgspec
import psycopg
from psycopg.rows import DictRow
from psycopg.sql import SQL, Composed, Identifier, Literal

from redraft.events.errors import LeaseLost, StoreError
from redraft.events.postgres import connection as postgres_connection
from redraft.events.postgres.connection import AsyncConnection, Database
from redraft.events.postgres.schema import APPLICATION, LEASES, RELAY, prepare
from redraft.events.postgres.tables import PostgresTables
from redraft.events.store.lease import LASTS, Lease, LeaseHolder, this_process
from redraft.events.subscriptions.subscriptions import CREATE

SILENCE: Final = 5.0
"""Seconds to wait for the server's answer to a renewal."""

_HOLD: Final = """
    SELECT set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '1', false),
           set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '6000', false)
"""
"""Makes the server notice within 6 seconds that the holder's machine is gone."""

_LOCK: Final = "SELECT pg_try_advisory_lock_shared({before}) AS ours, pg_try_advisory_lock({alone}) AS alone"
_UNLOCK: Final = "SELECT pg_advisory_unlock({alone})"
_TAKE: Final = """
    INSERT INTO {leases} AS held (name, epoch, holder, since, expires, locked)
    VALUES ({name}, 1, %s, clock_timestamp(), clock_timestamp() + {lasts}, %s)
    ON CONFLICT (name) DO UPDATE SET epoch = held.epoch + 1, holder = excluded.holder, since = excluded.since,
        expires = excluded.expires, locked = excluded.locked
    WHERE held.expires <= clock_timestamp() OR (held.locked AND excluded.locked)
    RETURNING epoch
"""
_RENEW: Final = """
    UPDATE {leases} AS held SET expires = clock_timestamp() + {lasts},
        locked = CASE WHEN held.locked THEN true ELSE pg_try_advisory_lock({alone}) END
    WHERE name = {name} AND epoch = %s RETURNING epoch
"""
_TAKE_CHECKPOINT: Final = """
    , raised AS (UPDATE {table} AS relay SET epoch = relay.epoch + 1 FROM taken RETURNING relay.epoch AS fence)
    SELECT taken.epoch, fence, count(fence) OVER () AS checkpoints FROM taken LEFT JOIN raised ON true
"""
_MAKE_CHECKPOINT: Final = "INSERT INTO {table} (epoch, position) VALUES (%s, 0) RETURNING epoch AS fence"
"""Makes the checkpoint of the relay where it is gone, at the beginning: all events are relayed once more."""

_COUNT: Final = "SELECT max(position) AS position, count(*) AS checkpoints FROM {table}"
_END: Final = "UPDATE {leases} SET expires = '-infinity' WHERE name = {name} AND epoch = %s"
_WHO: Final = "SELECT holder, since, locked, expires <= clock_timestamp() AS ended FROM {leases} WHERE name = {name}"


class LeaseSpec(msgspec.Struct, frozen=True):
    """The variable parts of a lease: the `name` of its row, `what` it is called in messages, and three pieces of SQL.

    `before` are the numbers of the lock that earlier releases used. `taken` reads the row that was just taken, from
    `taken`, and returns `epoch`, `fence` and the number of `checkpoints`; `moved` reads the row that was
    renewed, from `mine`, gets a position and the fence, and returns `position`.
    """

    name: str
    what: str
    before: LiteralString
    taken: LiteralString = "SELECT epoch, 0 AS fence, 1 AS checkpoints FROM taken"
    moved: LiteralString = "SELECT 0 AS position FROM mine WHERE %s >= 0 AND %s >= 0"


RELAY_LEASE: Final = LeaseSpec(
    "relay",
    "relay's checkpoint",
    "{application}, {relay}::regclass::oid::integer",
    _TAKE_CHECKPOINT,
    "UPDATE {table} AS relay SET position = greatest(position, %s) FROM mine WHERE relay.epoch = %s RETURNING position",
)


def subscription_lease(name: str) -> LeaseSpec:
    """Returns the lease of the subscription of this name."""
    before: LiteralString = "hashtextextended('redraft ' || {schema} || ' ' || {subscription}, 0)"
    return LeaseSpec(f"subscription {name}", f"subscription {name!r}", before)


class PostgresLease:
    """The row of a lease; see `LeaseRow`. Renewals use the session that took it."""

    def __init__(self, database: Database, right: LeaseSpec) -> None:
        self._database = database
        self._right = right
        self._schema = ""
        self._session: AsyncConnection | None = None
        self._epoch = 0
        self._fence = 0

    @property
    def epoch(self) -> int:
        return self._epoch

    async def take(self) -> LeaseHolder | None:
        try:
            session = self._session = self._session or await self._open()
            is_ours, is_alone = await self._try_locks(session)
            take = "WITH taken AS (" + _TAKE + ") " + self._right.taken
            row = await self._ask(session, take, this_process(), is_alone) if is_ours else None
            if row is None:
                return await self._describe_holder(session, is_ours=is_ours, is_alone=is_alone)
            self._epoch = row["epoch"]
            if row["checkpoints"] > 1:
                await self.release()
                raise self._too_many(row["checkpoints"])
            made = None if row["checkpoints"] else await self._ask(session, _MAKE_CHECKPOINT, self._epoch)
            self._fence = (made or row)["fence"]
            # A crash of the server may undo the last renewals: their events are then published again.
            await session.execute("SET synchronous_commit = off")
        except psycopg.Error as error:
            await self.release()
            raise self._database.unreadable(error) from None
        return None

    async def renew(self, position: int) -> int:
        if self._session is None or not self._epoch:
            self._raise_lost()
        renew = "WITH mine AS (" + _RENEW + ") " + self._right.moved
        try:
            row = await self._ask(self._session, renew, self._epoch, position, self._fence)
        except psycopg.Error as error:
            await self.release()
            self._raise_lost(self._database.explain(error))
        if row is None:
            await self.release()
            self._raise_lost()
        return int(row["position"])

    async def release(self) -> None:
        session, epoch = self._session, self._epoch
        self._session, self._epoch = None, 0
        if session is not None:
            with suppress(psycopg.Error):
                if epoch and not session.closed:
                    await session.execute(self._statement(_END), (epoch,))
            await session.close()

    async def close(self) -> None:
        """Does nothing: `release` closes the session."""

    async def look(self) -> tuple[LeaseHolder | None, int]:
        """Returns the holder, None when there never was one, and the checkpoint. Raises StoreError."""
        try:
            session = await self._open()
            try:
                is_ours, is_alone = await self._try_locks(session)
                held = await self._describe_holder(session, is_ours=is_ours, is_alone=is_alone)
                row = await self._ask(session, _COUNT)
            finally:
                await session.close()
        except psycopg.Error as error:
            raise self._database.unreadable(error) from None
        if row and row["checkpoints"] > 1:
            raise self._too_many(row["checkpoints"])
        return held, int(row["position"] or 0) if row else 0

    async def _open(self) -> AsyncConnection:
        if not self._schema:
            self._schema = await asyncio.to_thread(prepare, self._database)
        session = await self._database.connect_async()
        session.silence = min(SILENCE, postgres_connection.SILENCE)
        try:
            await session.execute(_HOLD)
        except BaseException:
            await session.close()
            raise
        return session

    async def _try_locks(self, session: AsyncConnection) -> tuple[bool, bool]:
        """Returns whether no older release has the lease, and whether the session of the last holder has ended."""
        row = await self._ask(session, _LOCK)
        return (row["ours"], row["alone"]) if row else (False, False)

    async def _describe_holder(self, session: AsyncConnection, *, is_ours: bool, is_alone: bool) -> LeaseHolder | None:
        if is_alone:
            await session.execute(self._statement(_UNLOCK))
        if not is_ours:
            return LeaseHolder("a coordinator of an older release")
        row = await self._ask(session, _WHO)
        return LeaseHolder(row["holder"], row["since"], row["ended"] or (row["locked"] and is_alone)) if row else None

    def _too_many(self, checkpoints: int) -> StoreError:
        """Returns the error for a table with more than one checkpoint, with the remedy."""
        remedy = f"as the owner, DELETE FROM {Identifier(self._schema).as_string()}.{RELAY} in psql"  # noqa: S608
        return StoreError(
            f"store {self._database.where}: its table {RELAY} has {checkpoints} rows, and must have one; {remedy}: "
            "the next coordinator relays all events once more"
        )

    def _raise_lost(self, why: str = "another process has it now") -> NoReturn:
        raise LeaseLost(f"{self._right.what} in {self._database.where}: {why}; this one stands by") from None

    async def _ask(self, session: AsyncConnection, statement: LiteralString, *values: object) -> DictRow | None:
        return await (await session.execute(self._statement(statement), values, prepare=True)).fetchone()

    def _statement(self, statement: LiteralString) -> Composed:
        """Returns a statement with the names of this lease."""
        table = Identifier(self._schema, RELAY)
        name, schema = Literal(self._right.name), Literal(self._schema)
        before = SQL(self._right.before).format(
            application=APPLICATION,
            relay=Literal(table.as_string()),
            schema=schema,
            subscription=Literal(self._right.name.partition(" ")[2]),
        )
        return SQL(statement).format(
            leases=Identifier(self._schema, LEASES),
            table=table,
            before=before,
            alone=SQL("hashtextextended('redraft alive ' || {} || ' ' || {}, 0)").format(schema, name),
            name=name,
            lasts=SQL("make_interval(secs => {})").format(LASTS),
        )


class PostgresSubscriptions:
    """Keeps subscriptions in the store's schema; see `SubscriptionStore`. Raises InputError for an invalid URL.

    A crash of the server may undo the last transactions: their events are then delivered again.
    """

    def __init__(self, url: str, retry: float) -> None:
        self._database = Database(url)
        self._retry = retry
        tables = PostgresTables(self._database, CREATE)
        self.where, self.transaction, self.close = tables.where, tables.transaction, tables.close

    def lease(self, name: str) -> Lease:
        return Lease(PostgresLease(self._database, subscription_lease(name)), self._retry)
