"""Keeps beside a store which workers serve actors by HTTP, so that all servers and commands can show them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeAlias, TypeVar

import msgspec

from redraft.events.messages.plan import Role
from redraft.events.small_tables import Tables, Transactions
from redraft.events.store.event_store import thread
from redraft.events.subscriptions.subscriptions import Execute

_T = TypeVar("_T")

PRESENT: Final = 90.0
"""Seconds after which somebody who asks for nothing any more, and extends no lease, is gone."""

CREATE: Final = (
    """CREATE TABLE IF NOT EXISTS redraft_http_workers (
        role text NOT NULL, actor text NOT NULL, how text NOT NULL, who text NOT NULL,
        since double precision NOT NULL, seen double precision NOT NULL, PRIMARY KEY (role, actor, how)
    )""",
)
"""Creates the table, in any database."""

_FORGET: Final = "DELETE FROM redraft_http_workers WHERE seen < ? OR seen > ?"
_NOTE: Final = (
    "INSERT INTO redraft_http_workers VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (role, actor, how) DO UPDATE SET who = excluded.who, seen = excluded.seen"
)
_ALL: Final = (
    "SELECT role, actor, who, since FROM redraft_http_workers WHERE seen >= ? AND seen <= ? "
    "ORDER BY role, actor, since, who"
)

Served: TypeAlias = tuple[Role, str]
"""An actor that somebody works for: its role and its name."""


class Presence(msgspec.Struct, frozen=True):
    """Somebody who works by HTTP: who (as events name them), and since when they have asked without a longer pause."""

    who: str
    since: datetime


class HttpWorkers:
    """The workers that serve the actors of a store by HTTP, at any of its servers. Methods raise StoreError.

    `clock` is an SQL expression: the seconds of the clock that all servers share, that of the database. `are_there`
    says without making anything whether there may be some.
    """

    def __init__(self, tables: Tables, clock: str, are_there: Callable[[], bool] = lambda: True) -> None:
        self._tables = Transactions(tables, thread("redraft-presence"))
        self._clock = f"SELECT {clock}"
        self._are_there = are_there

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._tables.close()

    async def note(self, actor: Served, how: str, who: str) -> None:
        """Notes that somebody, who is told apart by `how` it is known who they are, works for an actor now."""

        def noted(execute: Execute) -> None:
            now = self._now(execute)
            execute(_FORGET, (now - PRESENT, now + PRESENT))
            execute(_NOTE, (*actor, how, who, now, now))

        await self._tables.run(noted)

    async def present(self) -> Mapping[Served, Sequence[Presence]]:
        """Returns who works for each actor, those first who have for longest; nobody's actors are left out."""
        if not await asyncio.to_thread(self._are_there):
            return {}

        def read(execute: Execute) -> list[tuple[Any, ...]]:
            now = self._now(execute)
            return execute(_ALL, (now - PRESENT, now + PRESENT))  # later ones are of a clock that was set back since

        found: dict[Served, list[Presence]] = {}
        for role, actor, who, since in await self._tables.run(read):
            found.setdefault((role, actor), []).append(Presence(who, datetime.fromtimestamp(since, UTC)))
        return found

    def _now(self, execute: Execute) -> float:
        ((now,),) = execute(self._clock, ())
        return float(now)
