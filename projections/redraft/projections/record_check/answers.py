"""Requests and answers of a run: each answer is to a request before it, and one of each attempt counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from redraft.events.domain_events import (
    BudgetReached,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
from redraft.projections.record_check.findings import Finding, found

Answer: TypeAlias = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished | StepFailed | VerdictLate
_OF_ROLE = {
    "generator": DraftGenerated,
    "critic": DraftCritiqued | VerdictLate,
    "refiner": DraftRefined,
    "publisher": DraftPublished,
}


def answer_faults(events: Sequence[Recorded]) -> list[Finding]:
    """Returns what is wrong with requests, attempts and answers, wherever in the plan they are."""
    check = _Answers(events)
    for event in events:
        match event.data:
            case StepRequested():
                check.asked(event, event.data)
            case DraftGenerated() | DraftCritiqued() | DraftRefined() | DraftPublished() | StepFailed() | VerdictLate():
                check.answered(event, event.data)
            case BudgetReached():
                check.void()
            case _:
                pass
    return check.findings


def misfits(data: Answer, asked: StepRequested) -> Iterator[tuple[str, str]]:
    """How an answer does not fit its request: the code of each fault, and what is told of it."""
    if not isinstance(data, StepFailed | _OF_ROLE[asked.role]):
        yield "role", f"{data.path} was asked of a {asked.role}"
    about = data.before if isinstance(data, DraftRefined) else getattr(data, "draft", None)
    if not isinstance(data, StepFailed | DraftGenerated) and about != asked.draft:
        yield "draft", f"{data.path} was asked about another draft"


class _Answers:
    def __init__(self, events: Sequence[Recorded]) -> None:
        begun = events[0].data if events else None
        parent = begun.parent if isinstance(begun, RunStarted) else None
        self.findings: list[Finding] = []
        self._rules = begun.rules if isinstance(begun, RunStarted) else 1
        self._inherited = parent.version if parent else 0
        self._requests: dict[tuple[str, int], tuple[int, StepRequested]] = {}
        self._answers: dict[tuple[str, int], tuple[int, bool]] = {}
        """The version of an attempt's answer, and whether another attempt is to follow it."""

    def asked(self, event: Recorded, data: StepRequested) -> None:
        place = data.path, data.attempt
        known = self._requests.get(place)
        again = known is not None and known[0] <= self._inherited and place not in self._answers
        if known is not None and not again:
            self._found("asked-twice", event, f"{data.path}, attempt {data.attempt}, was asked for in event {known[0]}")
        if data.attempt > 1 and not self._answers.get((data.path, data.attempt - 1), (0, False))[1]:
            self._found("attempt", event, f"attempt {data.attempt - 1} of {data.path} has not failed to be tried again")
        if data.attempt < 1:
            self._found("attempt", event, f"attempts begin with 1, not with {data.attempt}")
        self._requests[place] = event.version, data

    def void(self) -> None:
        """Nothing is waited for any more; publishers are asked anew."""
        self._requests = {place: each for place, each in self._requests.items() if each[1].role != "publisher"}
        self._answers = {place: each for place, each in self._answers.items() if place in self._requests}

    def answered(self, event: Recorded, data: Answer) -> None:
        place = data.path, data.attempt
        known = self._requests.get(place)
        if known is None:
            return self._found("unasked", event, f"attempt {data.attempt} of {data.path} was never asked for")
        waited = isinstance(data, VerdictLate) and self._answers.get(place, (0, False))[1]
        if place in self._answers and not waited:
            counted = self._answers[place][0]
            self._found("answer-twice", event, f"attempt {data.attempt} of {data.path} was answered in event {counted}")
        for code, told in misfits(data, known[1]):
            self._found(code, event, told)
        again = isinstance(data, StepFailed) and data.retry_at is not None
        self._answers[place] = event.version, again
        return None

    def _found(self, code: str, event: Recorded, told: str) -> None:
        path = getattr(event.data, "path", "")
        if self._rules < 2 and "[edit" in path and code in ("asked-twice", "answer-twice"):
            return  # other limits, given meanwhile, had critics of an edit begin anew
        self.findings.append(found(code, event, told))
