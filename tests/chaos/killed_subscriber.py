"""A subscriber that is killed again and again while others write: `redraft subscribe examples/exactly_once.py:note`."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.app.cli_calls import environment
from tests.app.subscribers import beginning, new_events, passes
from tests.appending import append_to
from tests.processes import started

from redraft.events.backends import open_store, open_subscriptions
from redraft.events.store.event_store import EventStore

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "exactly_once.py"
WRITERS: Final = 8
DEADLINE: Final = 60.0


class Subscriber:
    """The process, and the database of its own that its effects lie in."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._place = folder / "subscriber.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._notes = folder / "notes.db"

    def start(self) -> None:
        command = ("subscribe", f"{EXAMPLE}:note", "--name", "notes", "--store", self._url)
        there = environment(self._folder, {"NOTES": str(self._notes)})
        self._process = started(*command, folder=self._folder, environment=there, log=self._place)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self._log()[-2000:]
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def position(self) -> int:
        """How far its effects go."""
        if not self._notes.exists():
            return 0
        with closing(sqlite3.connect(self._notes)) as notes:
            try:
                return int(notes.execute("SELECT position FROM progress").fetchone()[0])
            except (sqlite3.OperationalError, TypeError):
                return 0

    def effects(self) -> list[tuple[int, str, str, str]]:
        """In the order in which it had them."""
        with closing(sqlite3.connect(self._notes)) as notes:
            return notes.execute("SELECT position, id, run, event FROM notes ORDER BY number").fetchall()

    async def beyond(self, position: int) -> None:
        """Waits until its effects have come so far."""
        await self._until(lambda: self.position() >= position)

    async def says(self, event: str) -> None:
        """Waits for a line of its log."""
        await self._until(lambda: f'"event":"{event}"' in self._log().replace(": ", ":"))

    async def _until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, self._log()[-2000:]
            await asyncio.sleep(0.01)

    def _log(self) -> str:
        return self._place.read_text()


async def _saved(url: str) -> int:
    """The position that is kept of it; 0 before there is one."""
    async with open_subscriptions(url) as names:
        return next((each.position for each in await names.all() if each.name == "notes"), 0)


async def write(url: str, number: int, events: int, allowed: asyncio.Semaphore) -> None:
    """One of the writers, with a store of its own: short runs, an event an append."""
    async with open_store(url) as store:
        for count in range(events):
            await allowed.acquire()
            await _append(store, f"w{number}-{count // 20}", count % 20)


async def _append(store: EventStore, run: str, version: int) -> None:
    told = passes(version, version) if version else [beginning()]
    await append_to(store, run, version, new_events(run, told, version))


async def killed_while_they_write(
    url: str, folder: Path, events: int, kills: int, tell: Callable[[str], None], seed: int
) -> int:
    """The effects are exactly the events of the log, in its order. Gives how many events came again after a kill."""
    chance = random.Random(seed)
    allowed = asyncio.Semaphore(0)
    subscriber = Subscriber(folder, url)
    began, again = time.monotonic(), list[int]()
    async with open_store(url) as store, asyncio.TaskGroup() as group:
        for number in range(WRITERS):
            group.create_task(write(url, number, events // WRITERS, allowed))
        try:
            for _ in range(kills):
                before = subscriber.position()
                for _ in range(events // kills):
                    allowed.release()
                subscriber.start()
                if chance.random() < 0.8:  # else it is killed wherever its start has come to
                    await subscriber.beyond(before + chance.randrange(1, max(2, events // kills)))
                await asyncio.sleep(chance.random() * 0.3)
                subscriber.kill()
                again.append(subscriber.position() - await _saved(url))
            for _ in range(events):
                allowed.release()
            subscriber.start()
            await subscriber.beyond(events)
        finally:
            subscriber.stop()
        log = [event async for batch in store.tail(0, follow=False) for event in batch]
    assert [event.position for event in log] == list(range(1, events + 1))
    assert subscriber.effects() == [(event.position, event.id, event.run, event.name) for event in log]
    assert min(again) >= 0, "a position is saved after the effects"
    took = f"{events} events of {WRITERS} writers, {len(again)} kills, {time.monotonic() - began:.0f} s"
    twice = f"{sum(again)} came again after {sum(map(bool, again))} of the kills"
    tell(f"{took}: every effect once, in order; {twice}")
    return sum(again)
