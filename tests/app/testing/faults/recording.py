"""Faults of what is recorded, and by whom."""

from tests.app.testing.faults import Fault

RECORDING = [
    Fault(
        "state kept after a conflict",
        "actors.runtime.coordinating.aggregates",
        "Aggregates.drop",
        "self._kept.drop(run)",
        "aggregate.void = False",
        30,
    ),
    Fault(
        "conflict taken for nothing",
        "actors.runtime.coordinating.command_handler",
        "CommandHandler._sort_results",
        "elif each.aggregate.void:",
        "elif False:",
        19,
    ),
    Fault(
        "acknowledged before it is recorded",
        "actors.runtime.coordinating.coordinator",
        "Coordinator._settle",
        "settled = await self.handler.settle(batch, previous)",
        "await inbox.ack(list(deliveries.values()))\n    settled = await self.handler.settle(batch, previous)",
        176,
    ),
    Fault(
        "append checked by its version alone, state kept after a conflict",
        "events.store.recorder",
        "MemoryRecorder._check_rules",
        "if (version - 1, link.previous) != tips.get(run, self._tips.get(run, (0, GENESIS))):",
        "if version - 1 != tips.get(run, self._tips.get(run, (0, GENESIS)))[0]:",
        31,
        ("actors.runtime.coordinating.aggregates", "Aggregates.drop", "self._kept.drop(run)", "aggregate.void = True"),
    ),
    Fault(
        "edit of words that stand there twice",
        "actors.editing.edits",
        "_placed",
        "if times != 1:",
        "if times == 0:",
        8,
    ),
]
