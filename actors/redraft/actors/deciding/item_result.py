"""The answer that a run of an item gives with its end. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.salvage import draft_to_salvage
from redraft.actors.deciding.state import RunState
from redraft.events.messages.commands import Failed, Generated
from redraft.events.messages.domain_events import DomainEvent, DraftMade, ItemOf, RunEnded


def result_of(events: Sequence[DomainEvent], of: ItemOf, run: str) -> Generated | Failed:
    """Returns the answer that a run of an item gives with its end, the last of its events.

    That is its draft if its plan came to its end, or if it failed and its plan says to go on with the best draft.
    """
    *before, ended = events
    assert isinstance(ended, RunEnded)  # noqa: S101 - the caller sees to it
    state = fold(before)
    made = next((each.draft for each in before if isinstance(each, DraftMade) and each.draft.ref == ended.draft), None)
    if made is not None and _gives_draft(state, ended):
        return Generated(of.run, of.path, 1, made.text, made.media_type, state.usage)
    said = f"run {run} ended {ended.outcome}: {ended.reason}"
    return Failed(of.run, of.path, 1, "error", said, retryable=False, usage=state.usage)


def _gives_draft(state: RunState, ended: RunEnded) -> bool:
    """Returns whether the draft with which a run ended is one to go on with; `state` is that before its end."""
    if state.failure is not None:
        best = draft_to_salvage(state)
        return state.plan.on_failure == "publish_best" and not state.failure.publishing and best is not None
    through = ended.outcome == "accepted" or state.loop == (ended.outcome, ended.reason)
    return through and len(state.frames) == 1
