"""A simulated database that several processes share: the shipped event store on a simulated recorder.

Calls take time. A commit fails before it is made, or after it, when the answer is lost; and other processes are
notified late, or never.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import cache, cached_property, partial
from typing import Any, Final, Self
from uuid import UUID

from redraft.actors.runtime.coordinating.sharing import Share
from redraft.app.testing.faults import Faults
from redraft.app.testing.loop import Process, SimExecutor, SimLoop
from redraft.events.encryption.keyring import MemoryKeys
from redraft.events.errors import LeaseLost, StoreError
from redraft.events.shares import CREATE as SHARE_TABLES
from redraft.events.shares import Shares, Turn
from redraft.events.store.event_store import EventStore
from redraft.events.store.lease import LeaseHolder
from redraft.events.store.recorder import (
    LogRow,
    MemoryRecorder,
    Notification,
    Opened,
    OperationalError,
    Place,
    StoredEvent,
)
from redraft.events.subscriptions.subscriptions import CREATE, Execute, Subscriptions
from redraft.projections.backends import FOLLOWED
from redraft.projections.engine.positions import Positions
from redraft.projections.engine.writer import Writer
from redraft.projections.sqlite.storage import SQLITE_TABLES, SqliteSession, SqliteStorage, open_memory


@cache
def _views_template() -> bytes:
    connection = open_memory()
    Writer(SqliteSession(connection), SqliteStorage(None), FOLLOWED)
    return connection.serialize()


def new_views() -> sqlite3.Connection:
    """Returns a database in memory with the tables of `FOLLOWED`, copied: to make them takes long."""
    connection = open_memory()
    connection.deserialize(_views_template())
    return connection


SILENT = 20.0
"""Seconds after which a database takes leases from a silent process."""

POLL = 10.0
"""Seconds between two polls: for missed notifications, for the share of a coordinator, for requests of people to a
subscription. The interval is longer than in real deployments, as each poll slows a history down."""

SHARES_LAST: Final = 4 * POLL
"""Seconds until the leases of a coordinator's share expire, counted from its last turn."""


RELAY = "the relay"
"""The name of the lease that a relay holds."""


class SimDatabase:
    """The rows, the leases, and the listeners."""

    def __init__(self, loop: SimLoop, faults: Faults) -> None:
        self.loop = loop
        self.faults = faults
        self.rows = MemoryRecorder()
        self._keys = MemoryKeys()
        self.position = 0
        self.recorded: dict[int, float] = {}
        self.holders: dict[str, SimLease] = {}
        self.relays: list[tuple[float, int]] = []
        self._listeners: list[tuple[Process, Callable[[int], None]]] = []

    def takes(self) -> float:
        """Returns how many seconds a call takes."""
        return self.faults.between(0.0002, 0.01)

    def store(self, process: Process) -> EventStore:
        """Returns the shipped store, as a process opens it."""
        return EventStore(self.opened(process), poll=POLL, threads=partial(self._thread, process))

    def quiet(self) -> EventStore:
        """Returns the shipped store on the rows themselves: nothing fails, and nothing takes time."""
        return EventStore(Opened(self.rows, "simulated", False, lambda: None))

    def opened(self, process: Process) -> Opened:
        """Returns the connection of a process."""

        async def listen(moved: Callable[[int], None]) -> None:
            mine = (process, moved)
            self._listeners.append(mine)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._listeners.remove(mine)

        recorder = SimRecorder(self, process)
        return Opened(recorder, "simulated", True, lambda: None, listen=listen, keys=self._keys)

    @cached_property
    def tables(self) -> sqlite3.Connection:
        """The read models that all coordinators share, in SQLite in memory: each transaction of a process is whole."""
        return new_views()

    def projected(self) -> int:
        """Returns the position up to which the shared read models count the log, as they say themselves."""
        with closing(self.tables.cursor()) as cursor:
            return min((each.position for each in Positions(SQLITE_TABLES).checkpoints(cursor).values()), default=0)

    def left_aside(self) -> set[str]:
        """Returns the runs that the shared read models leave to a newer release."""
        with closing(self.tables.cursor()) as cursor:
            return {each.run for each in Positions(SQLITE_TABLES).aside(cursor)}

    @property
    def relaying(self) -> Process | None:
        """The process that holds the relay's lease; None when nobody does."""
        lease = self.holders.get(RELAY)
        return lease.process if lease else None

    @cached_property
    def book(self) -> sqlite3.Connection:
        """The tables of named subscriptions and of coordinators' shares, in SQLite in memory."""
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.create_function("simulated_seconds", 0, self.loop.time)
        for table in (*CREATE, *SHARE_TABLES):
            connection.execute(table)
        return connection

    def share(self, process: Process, me: str, partitions: int, turned: Callable[[Turn], None]) -> Share:
        """Returns the shipped share of a coordinator, known as `me`, as its process opens it."""
        threads = partial(self._thread, process)
        leases = Shares(SimBook(self, process), "simulated_seconds()", threads=threads, lasts=SHARES_LAST)
        return Share(me, partitions, leases, turned=turned, pause=POLL)

    def _thread(self, process: Process, _: str) -> SimExecutor:
        return SimExecutor(self.loop, process, self.takes)

    def subscriptions(self, process: Process) -> Subscriptions:
        """Returns the shipped named subscriptions, as a process opens them."""
        return Subscriptions(SimBook(self, process), self.loop.time, partial(self._thread, process), poll=POLL)

    def unheard(self, process: Process) -> None:
        """Takes the leases from a silent process."""
        self.holders = {name: lease for name, lease in self.holders.items() if lease.process is not process}

    def relayed(self, rules: int, since: float, until: float) -> float:
        """For how many seconds between two times the relay was one that knows these rules."""
        ends = [*(began for began, _ in self.relays[1:]), until]
        return sum(
            max(0.0, min(end, until) - max(began, since))
            for (began, known), end in zip(self.relays, ends, strict=True)
            if known >= rules
        )

    def held_up(self, rules: int, since: float, until: float) -> timedelta:
        """For how long between two times an older release than these rules relayed, and so kept the time, of all."""
        return timedelta(seconds=max(0.0, until - max(since, self._first_relay()) - self.relayed(rules, since, until)))

    def _first_relay(self) -> float:
        return self.relays[0][0] if self.relays else 0.0

    def notify(self) -> None:
        """Notifies the listeners that the log has grown, each after a delay, unless the notification is lost."""
        end = self.rows.max_notification_id() or 0
        for process, moved in self._listeners:
            if not process.is_dead and not self.faults.happens(
                self.faults.odds.notice_lost, f"{process} is not told of event {end}"
            ):
                self.loop.call_later(self.faults.between(0, 0.2), moved, end, context=process.context)


class SimRecorder:
    """The recorder of one process's event store."""

    def __init__(self, database: SimDatabase, process: Process) -> None:
        self._database = database
        self._process = process

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:  # noqa: ANN401
        """Inserts events; may fail before the commit, or after it, when the answer is lost."""
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

    def select_after(self, position: int, limit: int, max_bytes: int) -> Sequence[LogRow]:
        self._may_fail()
        return self._database.rows.select_after(position, limit, max_bytes)

    def select_by_run(self, after: Place, limit: int) -> tuple[Sequence[LogRow], Place]:
        return self._database.rows.select_by_run(after, limit)

    def max_notification_id(self) -> int | None:
        self._may_fail()
        return self._database.rows.max_notification_id()

    def _may_fail(self) -> None:
        faults = self._database.faults
        if faults.happens(faults.odds.read_fails, f"{self._process} cannot read the database"):
            raise OperationalError("the connection was lost")


class SimBook:
    """The simulated small tables that all processes share, on one process's connection."""

    where = "simulated"

    def __init__(self, database: SimDatabase, process: Process) -> None:
        self._database = database
        self._process = process

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Runs a transaction; it may fail before it begins, or after the commit, when the answer is lost."""
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
        """Does nothing: there is nothing to release."""


class SimLease:
    """A named lease, such as that of the relay. A process that stalls too long loses it without noticing."""

    def __init__(self, database: SimDatabase, process: Process, name: str = RELAY) -> None:
        self._database = database
        self._name = name
        self.process = process

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.release()

    async def acquire(self, waits: Callable[[LeaseHolder], None] | None = None) -> int:
        """Waits until the lease is free, takes it, and returns the checkpoint."""
        while self._database.holders.setdefault(self._name, self) is not self:
            await asyncio.sleep(POLL)
        if self._name == RELAY:
            self._database.relays.append((self._database.loop.time(), self.process.rules))
        return self._database.position

    async def keep(self) -> None:
        """Raises LeaseLost a while after the database took the lease from its process, which had stalled for long."""
        while True:
            await asyncio.sleep(POLL)
            self._require()

    async def check(self) -> None:
        """Raises nothing: a holder may be asked just before it learns that it has lost the lease."""

    async def save(self, position: int) -> None:
        """Raises the checkpoint. Raises LeaseLost."""
        await asyncio.sleep(self._database.takes())
        self._require()
        self._database.position = max(self._database.position, position)

    async def release(self) -> None:
        if self._database.holders.get(self._name) is self:
            del self._database.holders[self._name]

    def _require(self) -> None:
        if self._database.holders.get(self._name) is not self:
            raise LeaseLost("the lease was lost")
