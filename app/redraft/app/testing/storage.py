"""A database that several processes share: under the shipped event store, the recorder alone is another one.

What it is asked for takes time. It fails before a commit, or after it, when the answer is lost; and it tells others of
a commit late, or never.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import Any, Self, cast
from uuid import UUID

from redraft.app.testing.faults import Faults
from redraft.app.testing.loop import Process, SimExecutor, SimLoop
from redraft.app.testing.memory import Lend, book
from redraft.events.errors import LeaseLost, StoreError
from redraft.events.lease import Held
from redraft.events.recorders import (
    ApplicationRecorder,
    MemoryRecorder,
    Notification,
    Opened,
    OperationalError,
    StoredEvent,
)
from redraft.events.run_keys import MemoryKeys
from redraft.events.store import EventStore
from redraft.events.subscription_book import Execute
from redraft.events.subscriptions import Subscriptions

SILENT = 20.0
"""Seconds after which a database lets go of what a process held that it does not hear from."""


POLL = 10.0
"""Seconds between two looks for what nobody told of. They are many in a history: each costs the search some time."""


class SimDatabase:
    """The rows, the lease of the relay, and those who listen."""

    def __init__(self, loop: SimLoop, faults: Faults, new_book: Lend = book) -> None:
        self.loop = loop
        self.faults = faults
        self._new_book = new_book
        self.rows = MemoryRecorder()
        self._keys = MemoryKeys()
        self.position = 0
        self.recorded: dict[int, float] = {}
        self.holders: dict[str, SimLease] = {}
        self._listeners: list[tuple[Process, Callable[[int], None]]] = []

    def takes(self) -> float:
        """Seconds that a call needs."""
        return self.faults.between(0.0002, 0.01)

    def store(self, process: Process) -> EventStore:
        """The shipped store, as a process opens it."""
        return EventStore(
            self.opened(process), poll=POLL, threads=lambda name: SimExecutor(self.loop, process, self.takes)
        )

    def quiet(self) -> EventStore:
        """The shipped store on the rows themselves: nothing fails, and nothing takes time."""
        return EventStore(Opened(self.rows, "simulated", False, lambda: None))

    def opened(self, process: Process) -> Opened:
        """A connection of a process."""

        async def listen(moved: Callable[[int], None]) -> None:
            mine = (process, moved)
            self._listeners.append(mine)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._listeners.remove(mine)

        recorder = cast("ApplicationRecorder", SimRecorder(self, process))
        return Opened(recorder, "simulated", True, lambda: None, listen=listen, keys=self._keys)

    @cached_property
    def book(self) -> sqlite3.Connection:
        """The tables of named subscriptions, in SQLite in memory."""
        return self._new_book()

    def subscriptions(self, process: Process) -> Subscriptions:
        """The shipped named subscriptions, as a process opens them."""
        return Subscriptions(
            SimBook(self, process),
            self.loop.time,
            threads=lambda name: SimExecutor(self.loop, process, self.takes),
        )

    def unheard(self, process: Process) -> None:
        """Takes the leases from a process that it does not hear from."""
        self.holders = {name: lease for name, lease in self.holders.items() if lease.process is not process}

    def notify(self) -> None:
        """Tells those who listen that the log has grown, each in its time, unless that gets lost."""
        end = self.rows.max_notification_id() or 0
        for process, moved in self._listeners:
            if not process.is_dead and not self.faults.happens(
                self.faults.odds.notice_lost, f"{process} is not told of event {end}"
            ):
                self.loop.call_later(self.faults.between(0, 0.2), moved, end, context=process.context)


class SimRecorder:
    """What the event store of a process sees of the database."""

    def __init__(self, database: SimDatabase, process: Process) -> None:
        self._database = database
        self._process = process

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:  # noqa: ANN401
        """As the database does it; fails before it has begun, or when all is done and nobody knows."""
        faults, first = self._database.faults, stored_events[0]
        what = f"{first.topic} of {first.originator_id}"
        if faults.happens(faults.odds.commit_fails, f"the database does not take {what} from {self._process}"):
            raise OperationalError("the connection was lost before the commit")
        positions = self._database.rows.insert_events(stored_events, **kwargs)
        self._database.recorded |= dict.fromkeys(positions or (), self._database.loop.time())
        self._database.notify()
        if faults.happens(faults.odds.answer_lost, f"{self._process} is not told that {what} was recorded"):
            raise OperationalError("the connection was lost after the commit")
        return positions

    def select_events(self, originator_id: UUID | str, **kwargs: Any) -> Sequence[Notification]:  # noqa: ANN401
        self._may_fail()
        return self._database.rows.select_events(originator_id, **kwargs)

    def select_notifications(self, *args: Any, **kwargs: Any) -> Sequence[Notification]:  # noqa: ANN401
        self._may_fail()
        return self._database.rows.select_notifications(*args, **kwargs)

    def select_after(self, position: int, limit: int, most_bytes: int) -> Sequence[Notification]:
        self._may_fail()
        return self._database.rows.select_after(position, limit, most_bytes)

    def select_by_run(self, run: str, version: int, limit: int) -> Sequence[Notification]:
        return self._database.rows.select_by_run(run, version, limit)

    def max_notification_id(self) -> int | None:
        self._may_fail()
        return self._database.rows.max_notification_id()

    def _may_fail(self) -> None:
        faults = self._database.faults
        if faults.happens(faults.odds.read_fails, f"{self._process} cannot read the database"):
            raise OperationalError("the connection was lost")


class SimBook:
    """The simulated `Book`: the named subscriptions that all processes share, on one process's connection."""

    where = "simulated"

    def __init__(self, database: SimDatabase, process: Process) -> None:
        self._database = database
        self._process = process

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Everything or nothing; it fails before it has begun, or when all is done and nobody knows."""
        faults, book = self._database.faults, self._database.book
        if faults.happens(faults.odds.book_fails, f"{self._process} cannot move its subscription"):
            raise StoreError("the connection was lost before the commit")
        book.execute("BEGIN")
        try:
            yield lambda sql, values: book.execute(sql, tuple(values)).fetchall()
            book.execute("COMMIT")
        finally:
            if book.in_transaction:
                book.rollback()
        if faults.happens(faults.odds.book_fails, f"{self._process} is not told that its subscription was moved"):
            raise StoreError("the connection was lost after the commit")

    def lease(self, name: str) -> SimLease:
        return SimLease(self._database, self._process, name)

    def close(self) -> None:
        """There is nothing to let go of."""


class SimLease:
    """The right to do what is named: to be the one relay. One who stands still too long loses it, and does not know."""

    def __init__(self, database: SimDatabase, process: Process, name: str = "the relay") -> None:
        self._database = database
        self._name = name
        self.process = process

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    async def acquire(self, waits: Callable[[Held], None] | None = None) -> int:
        """Waits until nobody else has the lease, and gives the checkpoint."""
        while self._database.holders.setdefault(self._name, self) is not self:
            await asyncio.sleep(POLL)
        return self._database.position

    async def load(self) -> int:
        self._require()
        return self._database.position

    async def keep(self) -> None:
        """Renews it: the database takes it from a process that stands still for longer than that."""
        await asyncio.get_running_loop().create_future()

    async def check(self) -> None:
        """Raises nothing: one that has lost it may be asked a moment before it learns of that."""

    async def save(self, position: int) -> None:
        """Moves the checkpoint up. Raises LeaseLost."""
        await asyncio.sleep(self._database.takes())
        self._require()
        self._database.position = max(self._database.position, position)

    async def release(self) -> None:
        if self._database.holders.get(self._name) is self:
            del self._database.holders[self._name]

    def _require(self) -> None:
        if self._database.holders.get(self._name) is not self:
            raise LeaseLost("the lease was lost")
