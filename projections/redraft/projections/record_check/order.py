"""The frame of a run: how it begins and ends, how passes count, what a fork repeats, what people say once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from redraft.events.domain_events import (
    ChoicesCredited,
    DraftApproved,
    DraftEdited,
    DraftRejected,
    IterationStarted,
    LimitsChanged,
    LoopEnded,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunResumed,
    RunStarted,
)
from redraft.events.envelope import Recorded
from redraft.events.plan import Repeat
from redraft.projections.record_check.findings import Finding, found
from redraft.projections.record_check.walk import places

QUARANTINED: Final = "run.quarantined."
"""How the stored name begins of the event that sets a run aside."""

ENDED: Final = "has ended"

_REMEMBERED: Final = 64
_WORDS: Final = (
    RunGuided | LimitsChanged | RunPaused | RunResumed | RunCancelled | DraftApproved | DraftRejected | DraftEdited
)


def order_faults(events: Sequence[Recorded]) -> list[Finding]:
    """Returns what is wrong with the order of a run's events, whatever was answered."""
    check = _Order(events[0].data) if events else None
    for before, event in zip((None, *events), events, strict=False):
        if check:
            check.take(before, event)
    return check.findings if check else []


def is_set_aside(events: Sequence[Recorded]) -> bool:
    """Whether somebody set the run aside."""
    return any(event.name.startswith(QUARANTINED) for event in events)


class _Order:
    def __init__(self, begun: object) -> None:
        self.findings: list[Finding] = []
        known = begun if isinstance(begun, RunStarted) else None
        self._inherited = known.parent.version if known and known.parent else 0
        self._loops: dict[str, Repeat] = places(known.plan.steps) if known else {}
        self._most: dict[str, int] = {}
        self._passes: dict[str, int] = {}
        self._keys: deque[str] = deque(maxlen=_REMEMBERED)
        self._last = ""

    def take(self, before: Recorded | None, event: Recorded) -> None:
        data = event.data
        if (before is None) != isinstance(data, RunStarted):
            self._found("beginning", event, "a run begins once, with its start")
        is_quarantine = event.name.startswith(QUARANTINED)
        may_follow = isinstance(data, RunErased) or (is_quarantine and self._last == ENDED)
        if self._last and not may_follow:
            self._found("after-end", event, f"nothing but its erasure may follow once the run {self._last}")
        if isinstance(data, RunEnded):
            self._last = ENDED
        elif is_quarantine:
            self._last = "is set aside"
        credited = before is not None and isinstance(before.data, ChoicesCredited)
        if credited and not isinstance(data, RunEnded) and event.version != self._inherited + 1:
            self._found("credits", event, "the end of the run has to follow what is credited")
        repeats = 1 < event.version <= self._inherited
        if bool(event.repeats) != repeats:
            said = "repeats an event of its parent" if repeats else "repeats no event"
            self._found("fork", event, f"it {said}, and does not say so" if repeats else f"it {said}, and says so")
        self._count(event)
        self._listen(event)

    def _count(self, event: Recorded) -> None:
        match event.data:
            case IterationStarted(path=path, iteration=number):
                if number != self._passes.get(path, 0) + 1:
                    self._found("pass", event, f"pass {number} follows {self._passes.get(path, 0)} of {path}")
                place = "/".join(part.partition("[")[0] for part in path.split("/"))
                loop = self._loops.get(place)
                most = self._most.get(place, loop.max_iterations if loop else 0)
                if number > most and event.version > self._inherited:
                    self._found("pass", event, f"{path} may have {most} passes")
                self._passes[path] = number
            case LoopEnded(path=path, iterations=number) if number != self._passes.get(path, 0):
                self._found("pass", event, f"{self._passes.get(path, 0)} passes of {path} had begun")
            case LimitsChanged(path=path, max_iterations=most) if most is not None:
                self._most[path] = most
            case _:
                pass

    def _listen(self, event: Recorded) -> None:
        if not isinstance(event.data, _WORDS) or not event.data.key:
            return
        if event.data.key in self._keys:
            self._found("word-twice", event, f"it was heard before, by its key {event.data.key}")
        self._keys.append(event.data.key)

    def _found(self, code: str, event: Recorded, told: str) -> None:
        self.findings.append(found(code, event, told))
