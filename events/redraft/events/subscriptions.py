"""The subscriptions of a store, for the event loop: see `subscription_book` for what they are and where they lie."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeVar

import msgspec

from redraft.events.errors import InputError, LeaseLost
from redraft.events.store import Threads, thread
from redraft.events.subscription_book import (
    Book,
    Execute,
    Failing,
    NameLease,
    ParkedEvent,
    Subscription,
    checked_name,
    open_book,
)

__all__ = ["Failing", "ParkedEvent", "Subscription", "Subscriptions", "open_subscriptions"]

_T = TypeVar("_T")

_LONGEST: Final = 500
"""How many characters of an error are kept."""

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


def open_subscriptions(url: str, *, clock: Callable[[], float] = time.time) -> Subscriptions:
    """The subscriptions of the store that a URL names: `sqlite:///path` or `postgresql://…`.

    `clock` gives seconds since 1970. Raises InputError for any other URL; StoreError, when it is first used, if the
    place cannot be reached.
    """
    return Subscriptions(open_book(url), clock)


class Subscriptions:
    """Reads and moves the subscriptions of a store. Every method raises StoreError when that cannot be done.

    `threads` makes what the calls of the book run in, by its name.
    """

    def __init__(self, book: Book, clock: Callable[[], float], threads: Threads = thread) -> None:
        self._book = book
        self._clock = clock
        self._thread = threads("redraft-subscriptions")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._book.close)
        self._thread.shutdown()

    def lease(self, name: str) -> NameLease:
        """The right to serve a name: acquire it before `take`. Raises InputError for what can be no name."""
        return self._book.lease(checked_name(name))

    async def all(self) -> Sequence[Subscription]:
        """Every subscription, by name."""
        found = await self._do(lambda execute: execute(f"{_ALL} ORDER BY name", ()))
        return [_subscription(row) for row in found]

    async def get(self, name: str) -> Subscription:
        """One of them. Raises InputError when there is none of this name."""
        return await self._do(lambda execute: _one(execute, name))

    async def take(self, name: str, wants: str, target: str, start: int) -> Subscription:
        """Begins a new epoch of a name for whoever holds its lease; a new name begins after the position `start`."""
        checked_name(name)

        def taken(execute: Execute) -> Subscription:
            now = self._clock()
            execute(_TAKE, (name, start, wants, target, now, now))
            return _one(execute, name)

        return await self._do(taken)

    async def save(self, subscription: Subscription, position: int) -> None:
        """Moves the position up to here. Raises LeaseLost in an epoch that is over: then nothing was moved."""
        await self._do(lambda execute: self._move(execute, subscription, position))

    async def failed(self, subscription: Subscription, failing: Failing) -> None:
        """Keeps that a handler is tried again, and moves the position up to the event before. Raises LeaseLost."""
        told = msgspec.json.encode(msgspec.structs.replace(failing, error=_short(failing.error))).decode()
        await self._do(lambda execute: self._move(execute, subscription, failing.position - 1, told))

    async def park(self, subscription: Subscription, parked: ParkedEvent) -> None:
        """Sets an event aside and moves the position past it, both or neither. Raises LeaseLost."""

        def move(execute: Execute) -> None:
            self._move(execute, subscription, parked.position)
            execute(_PARK, _parked_row(parked))

        await self._do(move)

    async def asked_again(self, subscription: Subscription) -> Sequence[ParkedEvent]:
        """The parked events that somebody asked to be tried once more. Raises LeaseLost in an epoch that is over."""

        def asked(execute: Execute) -> list[ParkedEvent]:
            sql = "SELECT epoch FROM redraft_subscriptions WHERE name = ?"
            _require_epoch(execute(sql, (subscription.name,)), subscription)
            return _parked(execute, subscription.name, "AND retry = 1")

        return await self._do(asked)

    async def still_parked(self, parked: ParkedEvent) -> None:
        """Keeps what came of trying a parked event again, unless it was discarded meanwhile."""
        values = (parked.attempts, _short(parked.error), parked.subscription, parked.position)
        sql = "UPDATE redraft_set_aside SET attempts = ?, error = ?, retry = 0 WHERE subscription = ? AND position = ?"
        await self._do(lambda execute: execute(sql, values))

    async def parked(self, name: str) -> Sequence[ParkedEvent]:
        """The events that were set aside for a name, in the order of the log. Raises InputError for an unknown name."""

        def found(execute: Execute) -> list[ParkedEvent]:
            _one(execute, name)
            return _parked(execute, name)

        return await self._do(found)

    async def retry(self, parked: ParkedEvent) -> bool:
        """Asks the process that serves the name to try this event once more; False when it is parked no longer."""
        sql = "UPDATE redraft_set_aside SET retry = 1 WHERE subscription = ? AND position = ? RETURNING position"
        return bool(await self._do(lambda execute: execute(sql, (parked.subscription, parked.position))))

    async def discard(self, parked: ParkedEvent) -> bool:
        """Takes a parked event away; False when it is parked no longer. The event itself stays in the log."""
        sql = "DELETE FROM redraft_set_aside WHERE subscription = ? AND position = ? RETURNING position"
        return bool(await self._do(lambda execute: execute(sql, (parked.subscription, parked.position))))

    async def put(self, name: str, position: int) -> Subscription:
        """Sets the position, forwards or back, and begins a new epoch: whoever serves the name goes on from there.

        Raises InputError for an unknown name.
        """

        def moved(execute: Execute) -> Subscription:
            sql = "UPDATE redraft_subscriptions SET position = ?, moved = ?, epoch = epoch + 1, failing = NULL"
            execute(f"{sql} WHERE name = ?", (position, self._clock(), name))
            return _one(execute, name)

        return await self._do(moved)

    async def remove(self, name: str) -> bool:
        """Forgets a name, its position and what is parked for it; False when there is none. A new one begins anew."""

        def gone(execute: Execute) -> bool:
            execute("DELETE FROM redraft_set_aside WHERE subscription = ?", (name,))
            return bool(execute("DELETE FROM redraft_subscriptions WHERE name = ? RETURNING name", (name,)))

        return await self._do(gone)

    def _move(self, execute: Execute, subscription: Subscription, position: int, failing: str | None = None) -> None:
        sql = (
            "UPDATE redraft_subscriptions SET moved = CASE WHEN position < ? THEN ? ELSE moved END, "
            "position = CASE WHEN position < ? THEN ? ELSE position END, failing = ? "
            "WHERE name = ? AND epoch = ? RETURNING epoch"
        )
        mine = subscription.name, subscription.epoch
        _require_epoch(execute(sql, (position, self._clock(), position, position, failing, *mine)), subscription)

    async def _do(self, work: Callable[[Execute], _T]) -> _T:
        def done() -> _T:
            with self._book.transaction() as execute:
                return work(execute)

        return await asyncio.get_running_loop().run_in_executor(self._thread, done)


def _one(execute: Execute, name: str) -> Subscription:
    found = execute(f"{_ALL} WHERE name = ?", (name,))
    if not found:
        raise InputError(f"no subscription is named {name!r}; `redraft subscriptions list` shows those that there are")
    return _subscription(found[0])


def _require_epoch(found: Sequence[tuple[Any, ...]], subscription: Subscription) -> None:
    if not found or found[0][0] != subscription.epoch:
        raise LeaseLost(
            f"subscription {subscription.name!r} was moved or removed, or another process serves it now; this one "
            "begins again where it is"
        )


def _parked(execute: Execute, name: str, rest: str = "") -> list[ParkedEvent]:
    columns = "subscription, position, id, run, version, event, attempts, error, parked_at, retry"
    sql = f"SELECT {columns} FROM redraft_set_aside WHERE subscription = ? {rest} ORDER BY position"  # noqa: S608
    rows = execute(sql, (name,))
    return [_parked_event(row) for row in rows]


def _parked_event(row: tuple[Any, ...]) -> ParkedEvent:
    name, position, event_id, run, version, event, attempts, error, at, retry = row
    return ParkedEvent(name, position, event_id, run, version, event, attempts, error, _time(at), bool(retry))


def _parked_row(parked: ParkedEvent) -> tuple[object, ...]:
    return (
        parked.subscription,
        parked.position,
        parked.id,
        parked.run,
        parked.version,
        parked.event,
        parked.attempts,
        _short(parked.error),
        parked.parked_at.timestamp(),
    )


def _subscription(row: tuple[Any, ...]) -> Subscription:
    name, position, epoch, wants, target, created, moved, failing, parked = row
    told = msgspec.json.decode(failing, type=Failing) if failing else None
    return Subscription(name, position, epoch, wants, target, _time(created), _time(moved), told, parked)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _short(text: str) -> str:
    """One line that every database takes."""
    return " ".join(text.replace("\0", " ").split())[:_LONGEST]
