"""Faults of what is recorded, and by whom."""

from tests.simulation.faults import Fault

RECORDING = [
    Fault(
        "state kept after a conflict",
        "actors.aggregates",
        "Aggregates.drop",
        "del self._kept[run]",
        "aggregate.void = False",
        71,
    ),
    Fault(
        "conflict taken for nothing",
        "actors.command_handler",
        "CommandHandler._sorted",
        "elif each.aggregate.void:",
        "elif False:",
        26,
    ),
    Fault(
        "acknowledged before it is recorded",
        "actors.coordinator",
        "Coordinator._settled",
        "settled = await self.handler.settle(turn, before)",
        "await inbox.ack(list(deliveries.values()))\n    settled = await self.handler.settle(turn, before)",
        144,
    ),
]
