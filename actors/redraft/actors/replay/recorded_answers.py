"""The answers of a recorded run, to be given again to the same requests.

A request gets the answer recorded at its path and attempt if it has the same draft, critiques and finished drafts, by
their texts. At another path, as in another iteration, it gets that of the same step of the plan to the same texts: a
critic's verdict on a draft holds however often it is requested, and each draft is given once. A request that was never
made in the record has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

import msgspec

from redraft.actors.deciding.state import OpenStep
from redraft.actors.plans.paths import step_key
from redraft.events.messages.commands import Critiqued, Failed, Generated, OutcomeMessage, Published, Refined
from redraft.events.messages.content import Critique, Receipt
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    StepAnswered,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded

Inputs: TypeAlias = tuple[str, str, tuple[Critique, ...], tuple[str, ...]]
"""The properties that make two requests the same.

They are the step of the plan with its chosen arm, and the texts of draft, critiques and finished drafts.
"""


class Answer(msgspec.Struct, frozen=True):
    """A recorded answer, the path of its request, how long it took, and the version of its event."""

    path: str
    outcome: StepAnswered
    took: timedelta
    number: int


class RecordedAnswers:
    """The answers of one recorded run."""

    def __init__(self, events: Sequence[Recorded]) -> None:
        self._exact: dict[tuple[str, int, Inputs], Answer] = {}
        self._alike: dict[Inputs, list[Answer]] = {}
        self._requested: set[tuple[str, Inputs]] = set()
        self._waits: dict[tuple[str, int], timedelta] = {}
        requests: dict[tuple[str, int], Recorded] = {}
        failures: dict[tuple[str, int], Recorded] = {}
        critiques: dict[int, Critique] = {}
        for event in events:
            data = event.data
            if isinstance(data, StepRequested):
                requests[data.path, data.attempt] = event
                self._requested.add((data.path, inputs(data, critiques)))
                if (failed := failures.get((data.path, data.attempt - 1))) is not None:
                    self._waits[data.path, data.attempt - 1] = event.time - failed.time
            elif isinstance(data, StepAnswered):
                self._add(event, data, requests.get((data.path, data.attempt)), critiques)
            if isinstance(data, StepFailed):
                failures[data.path, data.attempt] = event
            if isinstance(data, DraftCritiqued):
                critiques[event.version] = data.critique

    def _add(
        self, event: Recorded, outcome: StepAnswered, request: Recorded | None, critiques: Mapping[int, Critique]
    ) -> None:
        if request is None or not isinstance(request.data, StepRequested):
            return
        same = inputs(request.data, critiques)
        answer = Answer(outcome.path, outcome, event.time - request.time, event.version)
        self._exact[outcome.path, outcome.attempt, same] = answer
        if isinstance(outcome, DraftCritiqued | DraftRefined):
            self._alike.setdefault(same, []).append(answer)

    def find(self, step: OpenStep, critiques: Mapping[int, Critique]) -> Answer | None:
        """Returns the answer to this request; `critiques` by their versions in its own stream.

        Publishing decides nothing: if it was not requested in the record, it is taken to succeed at once.
        """
        request = step.request
        same = inputs(request, critiques)
        if (exact := self._exact.get((request.path, request.attempt, same))) is not None:
            return exact
        if (request.path, same) in self._requested:
            return None
        if step.step.role == "publisher" and request.draft is not None:
            published = DraftPublished(request.path, request.attempt, request.draft, Receipt("nowhere"))
            return Answer(request.path, published, timedelta(), 0)
        return next(iter(self._alike.get(same, ())), None)

    def wait(self, answer: Answer) -> timedelta | None:
        """Returns how long after this failed attempt the next one was requested; None when it was not."""
        return self._waits.get((answer.path, answer.outcome.attempt))

    def use(self, step: OpenStep, answer: Answer, critiques: Mapping[int, Critique]) -> None:
        """Removes a draft that is given now."""
        outcome = answer.outcome
        if isinstance(outcome, DraftRefined):
            same = inputs(step.request, critiques)
            self._exact.pop((outcome.path, outcome.attempt, same), None)
            self._alike[same].remove(answer)


def inputs(request: StepRequested, critiques: Mapping[int, Critique]) -> Inputs:
    key = step_key(request.path)
    return (
        key if request.choice is None else f"{key} {request.choice.arm}",
        request.draft.sha256 if request.draft else "",
        tuple(critiques[version] for version in request.critiques if version in critiques),
        tuple(ref.sha256 for ref in request.outputs),
    )


def as_message(run: str, step: OpenStep, answer: Answer) -> OutcomeMessage | None:
    """Returns the recorded answer as a worker's message in answer to this request."""
    path, attempt, draft = step.request.path, step.attempt, step.draft
    match answer.outcome:
        case DraftGenerated(draft=made, usage=usage):
            return Generated(run, path, attempt, made.text, made.media_type, usage)
        case DraftRefined(draft=made, changes=changes, exit=leaving, usage=usage):
            return Refined(run, path, attempt, made.text, changes, leaving, usage)
        case DraftCritiqued(critique=critique, usage=usage) if draft is not None:
            return Critiqued(run, path, attempt, draft, critique, usage)
        case DraftPublished(receipt=receipt, usage=usage) if draft is not None:
            return Published(run, path, attempt, draft, receipt, usage)
        case StepFailed(kind=kind, message=said, retry_at=again, usage=usage):
            return Failed(run, path, attempt, kind, said, again is not None, usage)
        case _:
            return None
