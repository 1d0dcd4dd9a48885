"""The answers of a recorded run, to be given again to the same requests.

A request gets the answer recorded at its path and attempt if it has the same draft, critiques and finished drafts, by
their texts, and the run the same state. At another path, as in another iteration, it gets that of the same step of the
plan to the same texts and state: a critic's verdict on a draft, or what a free step changes, holds however often it is
requested, and each draft is given once. A request that was never made in the record has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import TypeAlias

import msgspec

from redraft.actors.deciding.run_values import Changing, first_values
from redraft.actors.deciding.state import OpenStep
from redraft.actors.plans.paths import step_key
from redraft.events.messages.commands import Completed, Critiqued, Failed, Generated, OutcomeMessage, Published, Refined
from redraft.events.messages.content import Critique, Receipt
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    RunStarted,
    StateChanged,
    StepAnswered,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.run_state import Values

Inputs: TypeAlias = tuple[str, str, tuple[Critique, ...], tuple[str, ...], str]
"""The properties that make two requests the same.

They are the step of the plan with its chosen arm, the texts of draft, critiques and finished drafts, and the state.
"""


class Answer(msgspec.Struct, frozen=True):
    """A recorded answer, the path of its request, how long it took, and the version of its event."""

    path: str
    outcome: StepAnswered | VerdictLate
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
        asked: dict[tuple[str, int], Inputs] = {}
        values: Values = {}
        for event in events:
            data = event.data
            if isinstance(data, StepRequested):
                requests[data.path, data.attempt] = event
                same = asked[data.path, data.attempt] = inputs(data, critiques, values)
                self._requested.add((data.path, same))
                if (failed := failures.get((data.path, data.attempt - 1))) is not None:
                    self._waits[data.path, data.attempt - 1] = event.time - failed.time
            elif isinstance(data, StepAnswered | VerdictLate):
                self._add(event, data, requests.get((data.path, data.attempt)), asked)
            if isinstance(data, StepFailed):
                failures[data.path, data.attempt] = event
            if isinstance(data, DraftCritiqued):
                critiques[event.version] = data.critique
            if isinstance(data, RunStarted):
                values = first_values(data.plan, data.brief)
            elif isinstance(data, Changing) and data.state:
                values = {**values, **data.state}

    def _add(
        self,
        event: Recorded,
        outcome: StepAnswered | VerdictLate,
        request: Recorded | None,
        asked: Mapping[tuple[str, int], Inputs],
    ) -> None:
        if request is None:
            return
        same = asked[outcome.path, outcome.attempt]
        answer = Answer(outcome.path, outcome, event.time - request.time, event.version)
        self._exact[outcome.path, outcome.attempt, same] = answer
        if isinstance(outcome, DraftCritiqued | VerdictLate | DraftRefined | StateChanged):
            self._alike.setdefault(same, []).append(answer)

    def find(self, step: OpenStep, same: Inputs) -> Answer | None:
        """Returns the answer to the request of a step, by its inputs.

        Publishing decides nothing: if it was not requested in the record, it is taken to succeed at once.
        """
        request = step.request
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

    def use(self, answer: Answer, same: Inputs) -> None:
        """Removes a draft that is given now."""
        outcome = answer.outcome
        if isinstance(outcome, DraftRefined):
            self._exact.pop((outcome.path, outcome.attempt, same), None)
            self._alike[same].remove(answer)


def inputs(request: StepRequested, critiques: Mapping[int, Critique], values: Values) -> Inputs:
    """Returns the inputs of a request: `critiques` are by their versions in its stream, `values` those of its state."""
    key = step_key(request.path)
    return (
        key if request.choice is None else f"{key} {request.choice.arm}",
        request.draft.sha256 if request.draft else "",
        tuple(critiques[version] for version in request.critiques if version in critiques),
        tuple(ref.sha256 for ref in request.outputs),
        sha256(msgspec.json.encode(values, order="sorted")).hexdigest() if values else "",
    )


def as_message(run: str, step: OpenStep, answer: Answer) -> OutcomeMessage | None:
    """Returns the recorded answer as a worker's message in answer to this request."""
    path, attempt, draft = step.request.path, step.attempt, step.draft
    match answer.outcome:
        case DraftGenerated(draft=made, usage=usage, state=values):
            return Generated(run, path, attempt, made.text, made.media_type, usage, values)
        case DraftRefined(draft=made, changes=changes, exit=leaving, usage=usage, state=values):
            return Refined(run, path, attempt, made.text, changes, leaving, usage, state=values)
        case DraftCritiqued(critique=critique, usage=usage, state=values, hermetic=hermetic) if draft is not None:
            return Critiqued(run, path, attempt, draft, critique, usage, values, hermetic)
        case VerdictLate(critique=critique, usage=usage) if draft is not None:
            return Critiqued(run, path, attempt, draft, critique, usage)
        case DraftPublished(receipt=receipt, usage=usage, state=values) if draft is not None:
            return Published(run, path, attempt, draft, receipt, usage, values)
        case StateChanged(state=values, usage=usage):
            return Completed(run, path, attempt, values, usage)
        case StepFailed(kind=kind, message=said, retry_at=again, usage=usage):
            return Failed(run, path, attempt, kind, said, again is not None, usage)
        case _:
            return None
