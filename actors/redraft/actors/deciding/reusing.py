"""Takes the verdict of a critic again, for a draft whose text it has judged in this run before. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from redraft.actors.deciding.state import RunState
from redraft.actors.plans.paths import step_key
from redraft.events.messages.domain_events import DraftCritiqued, StepRequested
from redraft.events.messages.plan import Step
from redraft.events.messages.reuse import verdict_key

MAX_KEPT: Final = 64
"""The number of verdicts of a run that can be taken again, the latest; for older ones the critic is asked."""


def with_reuse(state: RunState, step: Step, request: StepRequested) -> StepRequested:
    """Returns the request with the key of its verdict, and with the event that has this verdict already, if one has."""
    if request.draft is None:
        return request
    place = step_key(request.path)
    key = verdict_key(place, step, state.brief, request.draft, state.media_type, request.outputs)
    known = state.verdicts.get(key)
    return replace(request, verdict_key=key, reused=0 if known is None else known[0])


def verdict_again(state: RunState, request: StepRequested) -> DraftCritiqued | None:
    """Returns the verdict that a request takes again, about its own draft; None if it takes none."""
    known = state.verdicts.get(request.verdict_key)
    if not request.reused or known is None or request.draft is None:
        return None
    return DraftCritiqued(request.path, request.attempt, request.draft, known[1], reused=known[0])


def keep_verdict(state: RunState, event: DraftCritiqued, request: StepRequested) -> RunState:
    """Returns the state that knows this verdict by the key of its request, unless it was itself taken again."""
    if event.reused:
        return state
    kept = {**state.verdicts, request.verdict_key: (state.version, event.critique)}
    return replace(state, verdicts=dict(list(kept.items())[-MAX_KEPT:]))
