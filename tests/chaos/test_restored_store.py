"""PostgreSQL restored from a backup while RabbitMQ goes on: what an operator does, and what everybody is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import pytest
from tests.chaos.scene import Scene

from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.deployment import open_client
from redraft.events.backends import open_store
from redraft.events.errors import BusError
from redraft.events.messages.domain_events import RunEnded, StepRequested
from redraft.events.messages.envelope import Recorded

RUNS: Final = 12
LOST: Final = 2
WITHIN: Final = 120.0
LATER: Final = 1_000
"""More events than there will be."""


def settings_of(there: Scene) -> Settings:
    return read_settings(store=there.store, bus=there.node.url, broker_prefix=there.prefix, queue_type=there.queues)


def hold(there: Scene, path: str) -> None:
    """From now on, work at paths that begin so takes until another is held; at none, where the path is empty."""
    place, written = there.folder / "hold", there.folder / "hold.new"
    written.write_text(path or "none")
    written.rename(place)


async def followed(there: Scene, seen: list[Recorded], number: int) -> None:
    """Reads so many events of the stream, by the broker alone."""
    async with open_client(settings_of(there), reads=False) as client, aclosing(client.subscribe()) as events:
        while len(seen) < number:
            seen.append(await anext(events))


async def logged(there: Scene) -> list[Recorded]:
    async with open_store(there.store) as store:
        return [event async for batch in store.tail(0, follow=False) for event in batch if isinstance(event, Recorded)]


def asked_for(events: Sequence[Recorded], path: str) -> int:
    return sum(isinstance(event.data, StepRequested) and event.data.path == path for event in events)


async def stream_told(there: Scene) -> Sequence[str]:
    """What `doctor` says of the stream of events."""
    checks = json.loads((await there.call("doctor", "--json")).out)["checks"]
    return [f"{each['level']} {each['told']}" for each in checks if each["name"] == "stream"]


async def begun(there: Scene, number: int, step: str) -> None:
    """Waits until so many runs are at a step."""
    await there.until(
        f"{number} runs at {step}", lambda: sum(line.endswith(f" {step}") for line in there.worked()) >= number, WITHIN
    )


@pytest.mark.chaos
@pytest.mark.timeout(900)
async def test_a_store_restored_from_a_backup_goes_on_and_what_was_lost_counts_nowhere(there: Scene) -> None:
    hold(there, "Loop[2]")
    first = there.start("first", "coordinator")
    there.start("worker", "worker", "loop.py")
    await there.until("it serves", lambda: bool(there.said("serving", "coordinator", "first")), WITHIN)
    submitted = await there.submit(RUNS)
    await begun(there, RUNS, "Loop[2]/judge#1")
    saved = len(await logged(there))
    backup = await asyncio.to_thread(there.cluster.back_up)
    lost = await there.submit(LOST)
    hold(there, "Loop[3]")
    await begun(there, RUNS + LOST, "Loop[3]/judge#1")
    first.terminate()
    assert await asyncio.to_thread(first.wait, WITHIN) == 0
    before = await logged(there)
    seen: list[Recorded] = []
    following = asyncio.create_task(followed(there, seen, len(before) + LATER))
    async with asyncio.timeout(WITHIN):
        while len(seen) <= saved + RUNS:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)

    await asyncio.to_thread(there.cluster.stop)
    there.cluster.restore(backup)
    await asyncio.to_thread(there.cluster.start)
    restored = await logged(there)
    assert restored == before[: len(restored)]
    assert len(restored) < len(before)
    [told] = await stream_told(there)
    assert told.startswith("fail event ")
    assert told.endswith(
        "is not in the log: was the store restored? end the coordinators, then redraft doctor --republish, then "
        "start them"
    )
    filled = await there.json("doctor", "--republish")
    assert filled == {"sent_again": RUNS, "announced_again": len(restored)}
    assert await stream_told(there) == [f"ok announced up to position {len(restored)}"]

    there.start("second", "coordinator")
    async with asyncio.timeout(WITHIN):
        while asked_for(await logged(there), "Loop[3]/judge") < RUNS:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.1)
    hold(there, "")  # only now what was asked for in the lost log is answered, while the same is asked for anew
    await there.ended(submitted, WITHIN)
    async with asyncio.timeout(WITHIN):
        with pytest.raises(BusError, match="the log was set back"):
            await following
        after = await logged(there)
        again: list[Recorded] = []
        await followed(there, again, len(after))
    assert [(each.position, each.hash) for each in again] == [(each.position, each.hash) for each in after]
    ended = {event.run: event.data.outcome for event in after if isinstance(event.data, RunEnded)}
    assert ended == dict.fromkeys(submitted, "accepted")
    assert not {event.run for event in after} & set(lost)
    reasons = [each["reason"] for each in await there.json("dead-letters", "list")]
    assert sum("the log was set back" in each for each in reasons) == RUNS, reasons
