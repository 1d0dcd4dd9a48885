"""The inbox and its partitions on the server: which of them a message goes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redraft.events.bus.port import INBOX, BusMessage, inbox_queue, inbox_queues
from redraft.events.rabbit.topology import Topology


class PartitionedInbox:
    """Chooses among the inbox and those of its partitions that are there.

    Only `prepare`, which coordinators call, makes partitions: a message for one that is not there goes to the inbox, as
    with a sender that has been told of too many.
    """

    def __init__(self, topology: Topology, partitions: int) -> None:
        self._topology = topology
        self._partitions = partitions
        self._there: dict[str, None] = {INBOX: None}

    async def prepare(self) -> None:
        """Makes the inbox and all partitions."""
        self._there |= dict.fromkeys(inbox_queues(self._partitions))
        await self.remake()

    async def remake(self) -> None:
        """Makes the inbox, and those of the partitions that were there before, where they are missing."""
        for queue in self._there:
            await self._topology.queue(queue)

    async def find_queues(self, bus_messages: Sequence[BusMessage]) -> Mapping[str, Sequence[BusMessage]]:
        """Returns the messages, in their order, by the queues that they go to."""
        chosen: dict[str, list[BusMessage]] = {}
        for bus_message in bus_messages:
            queue = inbox_queue(bus_message, self._partitions)
            if queue not in self._there:
                queue = await self._look_for(queue)
            chosen.setdefault(queue, []).append(bus_message)
        return chosen

    async def count_waiting(self) -> int:
        """Returns the number of messages that wait in the inbox and in its partitions."""
        return sum([await self._topology.waiting(queue) for queue in self._there])

    async def _look_for(self, queue: str) -> str:
        if not await self._topology.exists(queue):
            return INBOX
        self._there[queue] = None
        return queue
