"""Who follows the log in PostgreSQL passes over no event, whoever writes, rolls back, waits, or is killed meanwhile.

This is the proof that an advisory lock may stand in for the library's lock of the whole table.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from threading import Event

import pytest
from tests.appending import append_to

from redraft.events.backends import open_recorder, open_store
from redraft.events.messages.envelope import Recorded
from redraft.events.store.event_store import EventStore, NewEvent
from redraft.events.store.recorder import Recorder

WRITER = Path(__file__).parents[1] / "postgres_writer.py"
"""A program that writes: URL NAME EVENTS WRITERS."""

DEADLINE = 150.0
"""Seconds after which a test that waits in vain fails."""

EVENTS = 15_000


async def writer(url: str, name: str, events: int, writers: int) -> Process:
    arguments = (str(WRITER), url, name, str(events), str(writers))
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE, limit=2**24)


async def lines(process: Process, most: int = sys.maxsize) -> list[str]:
    """What a writer says, up to its end or to so many lines."""
    said: list[str] = []
    assert process.stdout
    while len(said) < most and (line := await process.stdout.readline()).endswith(b"\n"):
        said.append(line.decode().strip())
    return said


async def followed(store: EventStore, done: asyncio.Event) -> list[Recorded]:
    """All that a tail gives, from the beginning of the log to its end once `done` is set."""
    events: list[Recorded] = []
    async with aclosing(store.tail(0)) as batches:
        async for batch in batches:
            events += batch
            if done.is_set() and events[-1].position == await store.head():
                break
    return events


def watched(recorder: Recorder, done: Event) -> list[int]:
    """The positions that somebody sees who asks for what follows the last as fast as possible."""
    seen = [0]
    while not done.is_set() or recorder.max_notification_id() != seen[-1]:
        seen += [row.id for row in recorder.select_notifications(seen[-1], 500, inclusive_of_start=False)]
    return seen[1:]


async def killed_in_turn(url: str) -> list[str]:
    """What writers said that were killed, one after the other."""
    said: list[str] = []
    for number in range(5):
        process = await writer(url, f"killed-{number}", 1_000_000, 2)
        said += await lines(process, 20 + 17 * number)
        process.kill()
        said += await lines(process)
        await process.wait()
    return said


@pytest.mark.check
async def test_a_reader_misses_no_event_of_eight_writers_that_fail_wait_and_are_killed(
    postgres_url: str, notes: Callable[..., list[NewEvent]]
) -> None:
    opened, done, over = open_recorder(postgres_url), asyncio.Event(), Event()
    async with open_store(postgres_url, poll=0.05) as store, asyncio.timeout(DEADLINE):
        tail = asyncio.create_task(followed(store, done))
        watch = asyncio.create_task(asyncio.to_thread(watched, opened.recorder, over))
        try:
            writers = [await writer(postgres_url, name, EVENTS // 4, 2) for name in ("a", "b", "c", "d")]
            killed = asyncio.create_task(killed_in_turn(postgres_url))
            said = [*await asyncio.gather(*(lines(each) for each in writers)), await killed]
            assert [await each.wait() for each in writers] == [0, 0, 0, 0]
        finally:
            over.set()
        done.set()
        await append_to(store, "last", 0, notes("last"))
        events = await tail
        positions = [event.position for event in events]
        assert positions == list(range(1, len(events) + 1))
        assert (await watch)[: len(events) - 1] == positions[:-1]
        recorded = [f"{event.run}:{event.version}" for event in events]
        assert len(set(recorded)) == len(recorded) > EVENTS
        assert {line for each in said for line in each} <= set(recorded)
        assert not any("lost" in event.run for event in events)
        for run in {event.run for event in events}:
            assert await store.verify(run) == sum(event.run == run for event in events)
    opened.release()
