"""Faults of what is recorded, and by whom."""

from tests.simulation.faults import Fault

RECORDING = [
    Fault(
        "state kept after a conflict",
        "actors.aggregates",
        "Aggregates.drop",
        "self._kept.drop(run)",
        "aggregate.void = False",
        26,
    ),
    Fault(
        "conflict taken for nothing",
        "actors.command_handler",
        "CommandHandler._sorted",
        "elif each.aggregate.void:",
        "elif False:",
        1,
    ),
    Fault(
        "acknowledged before it is recorded",
        "actors.coordinator",
        "Coordinator._settled",
        "settled = await self.handler.settle(turn, before)",
        "await inbox.ack(list(deliveries.values()))\n    settled = await self.handler.settle(turn, before)",
        46,
    ),
    Fault(
        "append checked by its version alone, state kept after a conflict",
        "events.recorders",
        "MemoryRecorder._checked",
        "if (version - 1, link.previous) != tips.get(run, self._tips.get(run, (0, GENESIS))):",
        "if version - 1 != tips.get(run, self._tips.get(run, (0, GENESIS)))[0]:",
        14,
        ("actors.aggregates", "Aggregates.drop", "self._kept.drop(run)", "aggregate.void = True"),
    ),
]
