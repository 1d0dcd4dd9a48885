"""The inbox and its partitions on the server: which of them a message goes to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from redraft.events.bus.port import INBOX, BusMessage, inbox_queue, inbox_queues, reply_queue
from redraft.events.errors import BusUnusable
from redraft.events.rabbit.fast_publish import Outgoing
from redraft.events.rabbit.topology import Names, Topology

AGAIN: Final = 2.0
"""Seconds until a partition that was there with other settings is looked at again."""


class PartitionedInbox:
    """Chooses among the inbox and those of its partitions that are there.

    Only `prepare`, which coordinators call, makes partitions: a message for one that is not there goes to the inbox, as
    with a sender that has been told of too many, and so does one for a partition that is there with other settings.
    """

    def __init__(self, topology: Topology, names: Names, partitions: int) -> None:
        self._topology = topology
        self._key = names.key(INBOX)
        self._partitions = partitions
        self._there: dict[str, None] = {INBOX: None}
        self._again: dict[str, float] = {}

    async def prepare(self) -> None:
        """Makes the inbox and all partitions but those that are there with other settings."""
        self._there |= dict.fromkeys(inbox_queues(self._partitions))
        await self.remake()

    async def remake(self) -> None:
        """Makes the inbox, and those of the partitions that were there before, where they are missing."""
        await self._each(self._topology.queue)

    async def find_queues(self, bus_messages: Sequence[BusMessage]) -> Mapping[str, Sequence[BusMessage]]:
        """Returns the messages, in their order, by the queues that they go to."""
        chosen: dict[str, list[BusMessage]] = {}
        for bus_message in bus_messages:
            queue = inbox_queue(bus_message, self._partitions)
            if queue not in self._there:
                queue = await self._look_for(queue)
            chosen.setdefault(queue, []).append(bus_message)
        return chosen

    def readdress(self, message: Outgoing) -> Outgoing:
        """Returns a message to send again: to the inbox if its partition cannot be used, or its user cannot tell."""
        if self._topology.makes and reply_queue(message.key) in self._there:
            return message
        return replace(message, key=self._key)

    async def count_waiting(self) -> int:
        """Returns the number of messages that wait in the inbox and in its partitions."""
        return sum(await self._each(self._topology.waiting))

    async def _each(self, ask: Callable[[str], Awaitable[int]]) -> list[int]:
        """Returns what each of the queues answers; a partition that is unusable is not one of them any more."""
        answers: list[int] = []
        for queue in list(self._there):
            try:
                answers.append(await ask(queue))
            except BusUnusable:
                if queue == INBOX:
                    raise
                self._there.pop(queue, None)
                self._again[queue] = _now() + AGAIN
        return answers

    async def _look_for(self, queue: str) -> str:
        """Returns a partition if it can be used, else the inbox."""
        if self._again.get(queue, 0.0) > _now():
            return INBOX
        try:
            if not await self._topology.exists(queue):
                return INBOX
            await self._topology.queue(queue)
        except BusUnusable:
            self._again[queue] = _now() + AGAIN
            return INBOX
        self._there[queue] = None
        return queue


def _now() -> float:
    return asyncio.get_running_loop().time()
