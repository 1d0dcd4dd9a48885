"""The queue of the inbox that answers go to: one for all partitions of one coordinator, so that they share messages."""

from __future__ import annotations

from redraft.events.bus.port import partition_of, partition_queue
from redraft.events.shares import Turn


class AnswerRoutes:
    """Follows the turns of a coordinator, and routes answers to whom each partition belongs by the latest of them.

    An answer that is under way while a partition changes hands arrives at its former holder, which decides on it: the
    log refuses it, and it is decided on again, if another coordinator has gone on with the run.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._joint: tuple[int, ...] = ()

    def follow(self, turn: Turn) -> None:
        self._joint = turn.joint

    def key(self, run: str) -> str:
        """Returns the routing key of outcomes of a run, such as `inbox.7`; empty when the inbox has no partitions."""
        if not self._partitions:
            return ""
        return partition_queue(self._target(partition_of(run, self._partitions))).removeprefix("redraft.")

    def queues(self, run: str) -> frozenset[str]:
        """Returns the queues of the inbox in which answers of a run may wait, as far as that is known here."""
        if not self._partitions:
            return frozenset()
        own = partition_of(run, self._partitions)
        return frozenset({partition_queue(own), partition_queue(self._target(own))})

    def _target(self, partition: int) -> int:
        return self._joint[partition] if partition < len(self._joint) else partition
