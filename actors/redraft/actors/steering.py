"""What people do to a run that goes on: advice, other limits, a pause, an end. Pure, as all of deciding is."""

from __future__ import annotations

from typing import Final, assert_never

from msgspec.structs import replace

from redraft.actors.approval import approve, decided, edit, reject
from redraft.actors.limits import loop_path, replanned, with_limits
from redraft.actors.run_state import RunState
from redraft.events.commands import (
    ApproveDraft,
    CancelRun,
    ChangeLimits,
    EditDraft,
    GuideRun,
    PauseRun,
    RejectDraft,
    ResumeRun,
    SteeringMessage,
)
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.domain_events import (
    DraftApproved,
    DraftEdited,
    DraftRejected,
    LimitsChanged,
    RunCancelled,
    RunGuided,
    RunPaused,
    RunResumed,
    Steered,
)
from redraft.events.errors import PlanError

REMEMBERED: Final = 64
"""How many of a run's latest steering messages are known by their keys, should one come again."""


def steered(state: RunState, message: SteeringMessage, limit: int = MAX_DRAFT_BYTES) -> Steered | None:
    """What a person's word brings about; None when the run has ended, or the word was heard or says nothing new."""
    if state.status != "running" or (message.key and message.key in state.steered):
        return None
    by, reason, key = message.by, message.reason, message.key
    match message:
        case GuideRun(advice=advice):
            return RunGuided(advice, by, reason, key) if advice.strip() else None
        case ChangeLimits():
            return _limited(state, message)
        case PauseRun():
            return None if state.paused else RunPaused(by, reason, key)
        case ResumeRun():
            return RunResumed(by, reason, key) if state.paused else None
        case CancelRun():
            return RunCancelled(by, reason, key)
        case ApproveDraft() | RejectDraft() | EditDraft():
            return decided(state, message, limit)
        case _:
            assert_never(message)


def _limited(state: RunState, message: ChangeLimits) -> LimitsChanged | None:
    until, most = message.until, message.max_iterations
    try:
        path = loop_path(state.plan, message.loop)
        with_limits(state.plan, path, until, most)
    except PlanError:
        return None
    return LimitsChanged(path, message.by, until, most, message.reason, message.key)


def steer(state: RunState, event: Steered) -> RunState:
    """The state after a person's word."""
    if event.key:
        state = replace(state, steered=(*state.steered, event.key)[-REMEMBERED:])
    match event:
        case RunGuided():
            return replace(state, advice=(*state.advice, state.version))
        case LimitsChanged():
            return replanned(state, with_limits(state.plan, event.path, event.until, event.max_iterations))
        case RunPaused():
            return replace(state, paused=True)
        case RunResumed():
            return replace(state, paused=False)
        case RunCancelled():
            return replace(state, cancelled=event.reason or f"cancelled by {event.by or 'a person'}")
        case DraftApproved():
            return approve(state, event)
        case DraftRejected():
            return reject(state, event)
        case DraftEdited():
            return edit(state, event)
        case _:
            assert_never(event)
