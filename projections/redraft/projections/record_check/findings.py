"""What a checker of records says: each finding is one fault, with its place."""

from __future__ import annotations

import msgspec

from redraft.events.envelope import Recorded


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fault: a short stable `code`, a sentence that says it, and where it is.

    `version` is that of the event in its run, `position` its place in the log (0: not known).
    """

    code: str
    told: str
    run: str
    version: int
    position: int = 0


class Deviates(Exception):
    """An event is not what the plan and the events before it call for."""

    def __init__(self, code: str, event: Recorded, told: str) -> None:
        super().__init__(told)
        self.finding = found(code, event, told)


def found(code: str, event: Recorded, told: str) -> Finding:
    """A finding at this event."""
    where = f"event {event.version} of run {event.run} ({event.name})"
    return Finding(code, f"{where}: {told}", event.run, event.version, event.position)
