"""Durable subscriptions: the position of each name in the log, and the events that its handler failed on.

Positions lie in the store's database, or in a file beside it, never among the events. The process that serves a name
holds its lease; each takeover, and each `redraft subscriptions reset`, begins a new epoch, and nothing can be moved in
an old one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

import msgspec

from redraft.events.errors import InputError, LeaseLost
from redraft.events.store.event_store import Threads, thread
from redraft.events.store.lease import LeaseHolder

_T = TypeVar("_T")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LONGEST: Final = 500
"""The most characters of an error that are kept."""

POLL: Final = 0.5
"""Seconds between looks for requests of people, see `Subscriptions`."""

CREATE: Final = (
    """CREATE TABLE IF NOT EXISTS redraft_subscriptions (
        name text PRIMARY KEY, position bigint NOT NULL, epoch bigint NOT NULL, wants text NOT NULL,
        target text NOT NULL, created double precision NOT NULL, moved double precision NOT NULL, failing text
    )""",
    """CREATE TABLE IF NOT EXISTS redraft_set_aside (
        subscription text NOT NULL, position bigint NOT NULL, id text NOT NULL, run text NOT NULL,
        version bigint NOT NULL, event text NOT NULL, attempts bigint NOT NULL, error text NOT NULL,
        parked_at double precision NOT NULL, retry bigint NOT NULL, PRIMARY KEY (subscription, position)
    )""",
)
"""Creates the tables, in any database: the state of each name, and its parked events."""


class Failing(msgspec.Struct, frozen=True):
    """The event that a handler is retrying: the failures so far, the last error, the time of the next attempt (UTC)."""

    position: int
    attempts: int
    error: str
    retry_at: datetime


class Subscription(msgspec.Struct, frozen=True):
    """A name, and the position up to which every event was handled, parked or skipped.

    `wants` is the filter as JSON, `target` describes the receiver for people; `parked` is the number of parked events.
    Times are UTC; `moved` is the time of the last change of the position.
    """

    name: str
    position: int
    epoch: int
    wants: str
    target: str
    created: datetime
    moved: datetime
    failing: Failing | None = None
    parked: int = 0


class ParkedEvent(msgspec.Struct, frozen=True):
    """An event that a name's handler could not take; `parked_at` is UTC.

    `retry`: a person requested one more attempt, and the process that serves the name has not made it yet.
    """

    subscription: str
    position: int
    id: str
    run: str
    version: int
    event: str
    attempts: int
    error: str
    parked_at: datetime
    retry: bool = False


Execute: TypeAlias = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]
"""Executes one statement, with `?` for each of its values, and returns its rows."""


class NameLease(Protocol):
    """The lease of a name, whose holder is the one process that serves it; see `Lease`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exception: object) -> None: ...

    async def acquire(self, waits: Callable[[LeaseHolder], None] | None = None) -> object: ...

    async def keep(self) -> None: ...

    async def release(self) -> None: ...


class SubscriptionStore(Protocol):
    """The storage of subscriptions; `where` names it in messages. Its calls block: they belong on a thread."""

    where: str

    def transaction(self) -> AbstractContextManager[Execute]:
        """Runs the block in one exclusive write transaction. Raises StoreError."""

    def lease(self, name: str) -> NameLease:
        """Returns the lease of a name, not yet acquired."""

    def close(self) -> None: ...


_ALL: Final = """
    SELECT name, position, epoch, wants, target, created, moved, failing,
           (SELECT count(*) FROM redraft_set_aside WHERE subscription = name)
    FROM redraft_subscriptions
"""
_TAKE: Final = """
    INSERT INTO redraft_subscriptions VALUES (?, ?, 1, ?, ?, ?, ?, NULL)
    ON CONFLICT (name) DO UPDATE SET epoch = redraft_subscriptions.epoch + 1, wants = excluded.wants,
        target = excluded.target
"""
_PARK: Final = """
    INSERT INTO redraft_set_aside VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)
    ON CONFLICT (subscription, position) DO UPDATE SET attempts = excluded.attempts, error = excluded.error,
        parked_at = excluded.parked_at, retry = 0
"""


class Subscriptions:
    """Reads and moves the subscriptions of a store. Every method raises StoreError when that cannot be done.

    `threads` makes the executor for the blocking calls, by its name. Who serves a subscription looks every `poll`
    seconds for requests of people: to move it, to retry a parked event.
    """

    def __init__(
        self, store: SubscriptionStore, clock: Callable[[], float], threads: Threads = thread, poll: float = POLL
    ) -> None:
        self.poll = poll
        self._store = store
        self._clock = clock
        self._thread = threads("redraft-subscriptions")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._store.close)
        self._thread.shutdown()

    def lease(self, name: str) -> NameLease:
        """Returns the lease of a name: acquire it before `take`. Raises InputError for an invalid name."""
        return self._store.lease(check_name(name))

    async def all(self) -> Sequence[Subscription]:
        """Returns every subscription, by name."""
        found = await self._run(lambda execute: execute(f"{_ALL} ORDER BY name", ()))
        return [_subscription(row) for row in found]

    async def get(self, name: str) -> Subscription:
        """Returns one subscription. Raises InputError when there is none of this name."""
        return await self._run(lambda execute: _require_subscription(execute, name))

    async def take(self, name: str, wants: str, target: str, start: int) -> Subscription:
        """Begins a new epoch of a name for the holder of its lease; a new name begins after the position `start`."""

        def taken(execute: Execute) -> Subscription:
            now = self._clock()
            execute(_TAKE, (check_name(name), start, wants, target, now, now))
            return _require_subscription(execute, name)

        return await self._run(taken)

    async def save(self, subscription: Subscription, position: int) -> None:
        """Moves the position up to `position`. Raises LeaseLost in an ended epoch: then nothing was moved."""
        await self._run(lambda execute: self._move(execute, subscription, position))

    async def failed(self, subscription: Subscription, failing: Failing) -> None:
        """Records that a handler will retry, and moves the position up to the event before. Raises LeaseLost."""
        failing_now = msgspec.json.encode(msgspec.structs.replace(failing, error=_shorten(failing.error))).decode()
        await self._run(lambda execute: self._move(execute, subscription, failing.position - 1, failing_now))

    async def park(self, subscription: Subscription, parked: ParkedEvent) -> None:
        """Parks an event and moves the position past it, both or neither. Raises LeaseLost."""

        *row, parked_at, _ = msgspec.structs.astuple(msgspec.structs.replace(parked, error=_shorten(parked.error)))

        def move(execute: Execute) -> None:
            self._move(execute, subscription, parked.position)
            execute(_PARK, (*row, parked_at.timestamp()))

        await self._run(move)

    async def asked_again(self, subscription: Subscription) -> Sequence[ParkedEvent]:
        """Returns the parked events that a person wants retried. Raises LeaseLost in an ended epoch."""

        def asked(execute: Execute) -> list[ParkedEvent]:
            sql = "SELECT epoch FROM redraft_subscriptions WHERE name = ?"
            _require_epoch(execute(sql, (subscription.name,)), subscription)
            return _select_parked(execute, subscription.name, "AND retry = 1")

        return await self._run(asked)

    async def still_parked(self, parked: ParkedEvent) -> None:
        """Records another failed attempt of a parked event, unless it was discarded meanwhile."""
        values = (parked.attempts, _shorten(parked.error), parked.subscription, parked.position)
        sql = "UPDATE redraft_set_aside SET attempts = ?, error = ?, retry = 0 WHERE subscription = ? AND position = ?"
        await self._run(lambda execute: execute(sql, values))

    async def parked(self, name: str) -> Sequence[ParkedEvent]:
        """Returns the parked events of a name, in the order of the log. Raises InputError for an unknown name."""

        def found(execute: Execute) -> list[ParkedEvent]:
            _require_subscription(execute, name)
            return _select_parked(execute, name)

        return await self._run(found)

    async def retry(self, parked: ParkedEvent) -> bool:
        """Asks the process that serves the name to retry this event; returns False when it is no longer parked."""
        sql = "UPDATE redraft_set_aside SET retry = 1 WHERE subscription = ? AND position = ? RETURNING position"
        return bool(await self._run(lambda execute: execute(sql, (parked.subscription, parked.position))))

    async def discard(self, parked: ParkedEvent) -> bool:
        """Removes a parked event; returns False when it is no longer parked. The event itself stays in the log."""
        sql = "DELETE FROM redraft_set_aside WHERE subscription = ? AND position = ? RETURNING position"
        return bool(await self._run(lambda execute: execute(sql, (parked.subscription, parked.position))))

    async def put(self, name: str, position: int) -> Subscription:
        """Sets the position, forwards or back, in a new epoch: the process that serves the name continues from there.

        Raises InputError for an unknown name.
        """

        def moved(execute: Execute) -> Subscription:
            sql = "UPDATE redraft_subscriptions SET position = ?, moved = ?, epoch = epoch + 1, failing = NULL"
            execute(f"{sql} WHERE name = ?", (position, self._clock(), name))
            return _require_subscription(execute, name)

        return await self._run(moved)

    async def remove(self, name: str) -> bool:
        """Deletes a name, its position and its parked events; returns False when there is none."""

        def gone(execute: Execute) -> bool:
            execute("DELETE FROM redraft_set_aside WHERE subscription = ?", (name,))
            return bool(execute("DELETE FROM redraft_subscriptions WHERE name = ? RETURNING name", (name,)))

        return await self._run(gone)

    def _move(self, execute: Execute, subscription: Subscription, position: int, failing: str | None = None) -> None:
        sql = (
            "UPDATE redraft_subscriptions SET moved = CASE WHEN position < ? THEN ? ELSE moved END, "
            "position = CASE WHEN position < ? THEN ? ELSE position END, failing = ? "
            "WHERE name = ? AND epoch = ? RETURNING epoch"
        )
        mine = subscription.name, subscription.epoch
        _require_epoch(execute(sql, (position, self._clock(), position, position, failing, *mine)), subscription)

    async def _run(self, work: Callable[[Execute], _T]) -> _T:
        def done() -> _T:
            with self._store.transaction() as execute:
                return work(execute)

        return await asyncio.get_running_loop().run_in_executor(self._thread, done)


def _require_subscription(execute: Execute, name: str) -> Subscription:
    found = execute(f"{_ALL} WHERE name = ?", (name,))
    if not found:
        raise InputError(f"no subscription is named {name!r}; `redraft subscriptions list` shows those that there are")
    return _subscription(found[0])


def _require_epoch(found: Sequence[tuple[Any, ...]], subscription: Subscription) -> None:
    if not found or found[0][0] != subscription.epoch:
        raise LeaseLost(
            f"subscription {subscription.name!r} was moved or removed, or another process serves it now; this process "
            "starts again from its stored position"
        )


def _select_parked(execute: Execute, name: str, rest: str = "") -> list[ParkedEvent]:
    columns = "subscription, position, id, run, version, event, attempts, error, parked_at, retry"
    sql = f"SELECT {columns} FROM redraft_set_aside WHERE subscription = ? {rest} ORDER BY position"  # noqa: S608
    return [_parked_event(row) for row in execute(sql, (name,))]


def _parked_event(row: tuple[Any, ...]) -> ParkedEvent:
    name, position, event_id, run, version, event, attempts, error, at, retry = row
    return ParkedEvent(name, position, event_id, run, version, event, attempts, error, _time(at), bool(retry))


def _subscription(row: tuple[Any, ...]) -> Subscription:
    name, position, epoch, wants, target, created, moved, failing, parked = row
    failing_now = msgspec.json.decode(failing, type=Failing) if failing else None
    return Subscription(name, position, epoch, wants, target, _time(created), _time(moved), failing_now, parked)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _shorten(text: str) -> str:
    """Returns the text as one line that every database accepts: what is no Unicode in it becomes its escape."""
    line = " ".join(text.replace("\0", " ").split())[:_LONGEST]
    return line.encode(errors="backslashreplace").decode()[:_LONGEST]


def check_name(name: str) -> str:
    """Returns the name of a subscription. Raises InputError for an invalid one."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a subscription: give up to 100 ASCII letters, digits, '-', '_' and '.', "
            "such as search-index"
        )
    return name
