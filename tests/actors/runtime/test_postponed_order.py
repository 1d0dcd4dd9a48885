"""Messages of a run that was postponed are handled in the order in which they came."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

import pytest

from redraft.actors.runtime.coordinating import coordinator as timing
from redraft.actors.runtime.coordinating.coordinator import Coordinator
from redraft.actors.runtime.coordinating.decisions import DecidedBatch, Incoming, Settled, discard, postpone
from redraft.actors.runtime.coordinating.deferring import SpendingUnread
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, BusMessage
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import Generated
from redraft.events.messages.envelope import Origin

numbers = count()


def said(text: str) -> BusMessage:
    name, body = encode_message(Generated("r", "write", 1, text))
    return BusMessage(name, body, Origin(str(next(numbers)), "test"), "r")


class Slow:
    """A handler that postpones all until `is_readable`; deciding on `first`, and recording it, go on when they may."""

    authority, limit, log, ignored = None, 10**6, None, 0

    def __init__(self) -> None:
        self.is_readable = False
        self.order: list[str] = []
        self.deciding, self.may_decide = asyncio.Event(), asyncio.Event()
        self.recording, self.may_record = asyncio.Event(), asyncio.Event()

    def forget(self) -> None:
        pass

    async def decide(self, incoming: Sequence[Incoming]) -> DecidedBatch:
        if not self.is_readable:
            return DecidedBatch([postpone(each, SpendingUnread("locked")) for each in incoming], None)
        texts = [each.message.text for each in incoming]
        if "first" in texts:
            self.deciding.set()
            await self.may_decide.wait()
        self.order += texts
        return DecidedBatch([discard(each) for each in incoming], None)

    async def settle(self, batch: DecidedBatch, previous: asyncio.Task[None] | None) -> Sequence[Settled]:
        if any(each.incoming.message.text == "first" for each in batch.decided):
            self.recording.set()
            await self.may_record.wait()
        return [Settled(each.incoming) for each in batch.decided]


async def taken(bus: LocalBus) -> None:
    """Returns once nothing waits in the inbox."""
    while (depth := await bus.queue(INBOX)) is not None and depth.waiting:  # noqa: ASYNC110
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_comes_while_a_postponed_message_is_decided_and_recorded_follows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timing, "PAUSES", (0.001,))
    handler = Slow()
    async with LocalBus() as bus, asyncio.timeout(60):
        coordinator = Coordinator(handler, bus, outlasts=lambda error: True)
        task = asyncio.create_task(coordinator.run())
        await bus.publish(INBOX, [said("first")])
        await taken(bus)
        handler.is_readable = True
        await handler.deciding.wait()
        await bus.publish(INBOX, [said("second")])
        await taken(bus)
        handler.may_decide.set()
        await handler.recording.wait()
        await bus.publish(INBOX, [said("third")])
        await taken(bus)
        handler.may_record.set()
        while len(handler.order) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0)
        coordinator.drain()
        await task
    assert handler.order == ["first", "second", "third"]
