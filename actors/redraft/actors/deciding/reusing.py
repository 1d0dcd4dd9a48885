"""Takes the verdict of a critic again, for what it was given before in this run or in another. Pure.

What other runs recorded is an argument: the caller passes a `Recall`, and looks verdicts up beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from redraft.actors.deciding.state import RunState
from redraft.actors.plans.paths import step_at, step_key
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import DraftCritiqued, EventRef, StepRequested
from redraft.events.messages.plan import Step
from redraft.events.messages.reuse import twins_before, verdict_key

MAX_KEPT: Final = 64
"""The number of verdicts of a run that its state keeps, the latest."""


class Earlier(msgspec.Struct, frozen=True, gc=False):
    """A recorded verdict: its event, and a copy of its critique."""

    event: EventRef
    critique: Critique


class Recall(Protocol):
    """Returns the verdict that another run recorded under a request's key, if any; for the same request the same."""

    def __call__(self, request: StepRequested, /) -> Earlier | None: ...


def recall_nothing(request: StepRequested) -> None:
    """Returns no verdict; the default where no other run is looked at."""


class Memory(msgspec.Struct, frozen=True, gc=False):
    """The name of the run that is decided, and the verdicts of other runs."""

    run: str = ""
    recall: Recall = recall_nothing


NO_MEMORY: Final = Memory()


def with_key(state: RunState, step: Step, request: StepRequested) -> StepRequested:
    """Returns the request of a critic whose verdicts are taken again with the key of its verdict."""
    if request.draft is None:
        return request
    twins = twins_before(state.plan.steps, step_key(request.path))
    given = (request.draft, state.media_type, request.outputs)
    key = verdict_key(step, twins, state.brief, *given, state.values)
    return replace(request, verdict_key=key)


def with_reuse(state: RunState, request: StepRequested, memory: Memory) -> StepRequested:
    """Returns the request with the event that has its verdict already, if one has."""
    known = _known(state, request, memory)
    return request if known is None else replace(request, reused=known.event)


def verdict_again(state: RunState, request: StepRequested, memory: Memory) -> DraftCritiqued | None:
    """Returns the verdict that a request takes again, about its own draft; None if it takes none."""
    if request.reused is None or request.draft is None:
        return None
    known = _known(state, request, memory)
    if known is None:
        return None
    return DraftCritiqued(request.path, request.attempt, request.draft, known.critique, reused=known.event)


def _known(state: RunState, request: StepRequested, memory: Memory) -> Earlier | None:
    """Returns the verdict for a request: of its own run, or else, where its plan says `always`, of another."""
    if (own := state.verdicts.get(request.verdict_key)) is not None:
        return Earlier(EventRef(memory.run, own[0]), own[1])
    step = step_at(state.plan.steps, step_key(request.path))
    return memory.recall(request) if step.reuse == "always" else None


def keep_verdict(state: RunState, event: DraftCritiqued, request: StepRequested) -> RunState:
    """Returns the state that knows this verdict by the key of its request.

    Not one that was itself taken again, nor one that came with changes of the run's state.
    """
    if event.reused is not None or event.state:
        return state
    kept = {**state.verdicts, request.verdict_key: (state.version, event.critique)}
    return replace(state, verdicts=dict(list(kept.items())[-MAX_KEPT:]))


def recall_as_recorded(events: Iterable[object]) -> Recall:
    """Returns a `Recall` that takes from other runs what the recorded run took from them.

    A request as recorded takes what it took then. Another one takes what was first said under its key: nothing where a
    worker said it, whose answer then comes first here too.
    """
    requests: dict[str, StepRequested] = {}
    taken: dict[tuple[str, int, str], Earlier | None] = {}
    first: dict[str, Earlier | None] = {}
    for event in events:
        if isinstance(event, StepRequested) and event.verdict_key:
            requests[event.path] = event
            taken[_identity(event)] = None
        elif isinstance(event, DraftCritiqued) and (asked := requests.get(event.path)) is not None:
            earlier = None if event.reused is None else Earlier(event.reused, event.critique)
            taken[_identity(asked)] = earlier
            first.setdefault(asked.verdict_key, earlier)

    def recall(request: StepRequested) -> Earlier | None:
        return taken.get(_identity(request), first.get(request.verdict_key))

    return recall


def _identity(request: StepRequested) -> tuple[str, int, str]:
    return request.path, request.attempt, request.verdict_key
