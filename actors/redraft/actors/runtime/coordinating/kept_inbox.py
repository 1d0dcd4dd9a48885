"""An inbox whose messages can be taken once more, where what was decided on them is void: the store was away."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from redraft.actors.runtime.coordinating.divided_inbox import TAKEN_BYTES
from redraft.events.bus.port import Consumer, Delivery
from redraft.events.messages.memory import memory_decoded


class KeptInbox:
    """Reads an inbox, and keeps each message until it is settled: at most as many as the inbox gives unsettled.

    None is given back meanwhile, so that no delivery counts: a message becomes a dead letter for what it says alone.
    """

    def __init__(self, inbox: Consumer) -> None:
        self._inbox = inbox
        self._kept: dict[int, Delivery] = {}
        self._again: deque[Delivery] = deque()

    def begin_again(self) -> None:
        """Has `take` return all messages that are not settled once more, in their order and before any other."""
        self._again = deque(self._kept.values())

    async def take(self, limit: int) -> Sequence[Delivery]:
        """Waits for a message, then returns those that wait, up to `limit`. Raises BusError."""
        if not self._again:
            taken = await self._inbox.take(limit)
            self._kept.update((each.tag, each) for each in taken)
            return taken
        again: list[Delivery] = []
        size = 0
        while self._again and len(again) < limit and size < TAKEN_BYTES:
            again.append(self._again.popleft())
            size += memory_decoded(again[-1].bus_message.body)
        return again

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledges messages whose effect is durable. Raises BusError."""
        await self._inbox.ack(deliveries)
        for each in deliveries:
            self._kept.pop(each.tag, None)

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str) -> None:
        """Gives a message back, or makes it a dead letter. Raises BusError."""
        await self._inbox.reject(delivery, requeue=requeue, reason=reason)
        self._kept.pop(delivery.tag, None)
