"""What the store's tests share: logs to open stores on, and events to put in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from time import monotonic
from typing import cast

import pytest
from msgspec.structs import replace

from redraft.app.testing.faults import CALM, Faults
from redraft.app.testing.loop import Process, SimLoop
from redraft.app.testing.storage import SimDatabase
from redraft.events.backends import open_recorder
from redraft.events.encryption.keyring import MemoryKeys
from redraft.events.messages.domain_events import StepFailed
from redraft.events.messages.envelope import Origin
from redraft.events.store.event_store import EventStore, NewEvent, Threads
from redraft.events.store.group_commit import Inline
from redraft.events.store.recorder import MemoryRecorder, Opened


class Log:
    """One log. `opened` gives a way to it of its own, as another process has; `store` a store on it."""

    def __init__(self, opened: Callable[[], Opened], threads: Threads | None = None) -> None:
        self.opened = opened
        self._threads = threads

    def store(self, opened: Opened | None = None, poll: float = 0.02) -> EventStore:
        return EventStore(opened or self.opened(), poll=poll, threads=self._threads)


def memory_log(folder: Path) -> Log:
    recorder = MemoryRecorder()
    keys = MemoryKeys()
    return Log(lambda: Opened(recorder, "memory:", False, lambda: None, keys=keys))


def sqlite_log(folder: Path) -> Log:
    return Log(lambda: open_recorder(f"sqlite:///{folder}/log.db"))


def postgres_log(url: str) -> Log:
    return Log(lambda: open_recorder(url))


def postgres_thread_log(url: str) -> Log:
    """As where the event loop cannot watch a connection."""
    return Log(lambda: replace(open_recorder(url), direct=None))


class Clock:
    """What a simulated database wants of its loop, from the one that runs."""

    def time(self) -> float:
        return monotonic()

    def call_later(self, seconds: float, call: Callable[[int], None], end: int, context: object) -> None:
        asyncio.get_running_loop().call_later(seconds, call, end)


def simulated_log(folder: Path) -> Log:
    """The database of simulated histories, where nothing goes wrong."""
    database = SimDatabase(cast("SimLoop", Clock()), Faults(Random(1), CALM))
    return Log(lambda: database.opened(Process("a process")), lambda name: Inline())


LOGS = {"memory": memory_log, "sqlite": sqlite_log, "simulated": simulated_log}
SERVED = {"postgres": postgres_log, "postgres-thread": postgres_thread_log}


@pytest.fixture(params=[*LOGS, *SERVED])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    """A log of every kind there is, empty. A recorder joins the contract by its factory."""
    if request.param in SERVED:
        return SERVED[request.param](request.getfixturevalue("postgres_url"))
    return LOGS[request.param](tmp_path)


@pytest.fixture
def notes() -> Callable[..., list[NewEvent]]:
    """Makes `count` new events for a run, numbered after `after`; the same arguments make the same events."""

    def make(run: str, count: int = 1, *, after: int = 0, by: str = "test", text: str = "") -> list[NewEvent]:
        time = datetime(2026, 3, 1, 12, 0, 0, 125000, tzinfo=UTC)
        return [
            NewEvent(
                Origin(f"{run}/{by}/{n}", by, "cause", "start"),
                time,
                StepFailed("Loop[1]/judge", n, "error", text or f"note {n}"),
            )
            for n in range(after + 1, after + count + 1)
        ]

    return make
