"""`decide(state, message) -> events`: what happens to a run when a message comes. Pure: time comes with the message.

An outcome counts only for a request that is still open, at its attempt and for its draft; any other is ignored.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, assert_never

import msgspec

from redraft.actors.arms import Choose, first_arm
from redraft.actors.evolve import evolve
from redraft.actors.interpreter import GRACE, closed_panel, next_event
from redraft.actors.run_state import Fan, OpenStep, RunState
from redraft.actors.spending import NOTHING, afforded, time_is_up
from redraft.actors.steering import steered
from redraft.events.commands import (
    ApproveDraft,
    CancelRun,
    ChangeLimits,
    ConfirmStep,
    Critiqued,
    EditDraft,
    EraseRun,
    ExpireStep,
    Failed,
    Generated,
    GuideRun,
    Message,
    OutcomeMessage,
    PauseRun,
    Published,
    QuarantineRun,
    Refined,
    RejectDraft,
    ResumeRun,
    RetryStep,
    StartRun,
    SteeringMessage,
    request_id,
)
from redraft.events.content import MAX_DRAFT_BYTES, new_draft
from redraft.events.domain_events import (
    ApprovalExpired,
    BudgetReached,
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    FailureKind,
    PanelClosed,
    RunErased,
    RunQuarantined,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.errors import ContentError
from redraft.events.plan import Retry
from redraft.events.rules import RULES
from redraft.events.usage import Usage

MOST_SENDINGS: Final = 200
"""How often a request is sent before it is given up. Workers carry one that took others along out in a process of its
own, and say what came of it, so that only one that takes its worker along even so is sent as often."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What happened, and the state after it."""

    events: tuple[DomainEvent, ...]
    state: RunState


def decide(
    state: RunState,
    message: Message,
    now: datetime,
    limit: int = MAX_DRAFT_BYTES,
    others: Usage = NOTHING,
    choose: Choose = first_arm,
) -> tuple[DomainEvent, ...]:
    """The events that a message brings about at this time (UTC); none when it is late, foreign or a duplicate.

    `limit` is the largest draft, in bytes, that is accepted. `others` is what the other runs of the workflow used that
    began on the same day; only a plan with a daily budget asks for it. `choose` says who does a step that chooses among
    several actors.
    """
    return handle(state, message, now, limit, others, choose).events


def handle(
    state: RunState,
    message: Message,
    now: datetime,
    limit: int = MAX_DRAFT_BYTES,
    others: Usage = NOTHING,
    choose: Choose = first_arm,
) -> Decision:
    """As `decide`, with the state that the events make, so that nobody need fold them again."""
    return brought(state, _first(state, message, now, limit, others), now, others, choose)


def brought(
    state: RunState, first: DomainEvent | None, now: datetime, others: Usage = NOTHING, choose: Choose = first_arm
) -> Decision:
    """An event, and all that follows from it until an answer is awaited; nothing for None."""
    events: list[DomainEvent] = []
    while first is not None:
        events.append(first)
        state = evolve(state, first)
        first = next_event(state, now, others, choose)
    return Decision(tuple(events), state)


def _first(state: RunState, message: Message, now: datetime, limit: int, others: Usage) -> DomainEvent | None:
    match message:
        case StartRun(_, plan, brief, key, tags, parent):  # how a fork begins, `forking` decides
            fresh = state.status == "new" and parent is None
            return RunStarted(plan, brief, now, key, tags, rules=RULES) if fresh else None
        case EraseRun(_, by, reason):
            return RunErased(by, reason) if state.status in ("ended", "quarantined") and not state.erased else None
        case QuarantineRun(_, by, reason, key):
            return RunQuarantined(by, reason, key) if state.status not in ("new", "quarantined") else None
        case RetryStep():
            return _retried(state, message, now, others)
        case ExpireStep():
            return _expired(state, message, now)
        case ConfirmStep():
            return _lost(state, message, now)
        case Generated() | Critiqued() | Refined() | Published() | Failed():
            return _outcome(state, message, now, limit)
        case GuideRun() | ChangeLimits() | PauseRun() | ResumeRun() | CancelRun():
            return steered(state, message)
        case ApproveDraft() | RejectDraft() | EditDraft():
            return steered(state, message, limit)
        case _:
            assert_never(message)


def _outcome(state: RunState, message: OutcomeMessage, now: datetime, limit: int) -> DomainEvent | None:
    asked = state.open.get(message.path)
    if asked is None and message.path in state.late:
        return _late(state.late[message.path], message)
    if asked is None or asked.attempt != message.attempt or asked.retry_at is not None:
        return None
    try:
        return _accepted(state, asked, message, now, limit)
    except ContentError as error:
        return _failure(state, message, asked, "invalid", str(error), now)


def _late(asked: OpenStep, message: OutcomeMessage) -> VerdictLate | None:
    """A verdict that nobody waits for any more is recorded; what else is late is ignored."""
    match message:
        case Critiqued(path=path, attempt=attempt, draft=ref, critique=critique, usage=usage) if (
            attempt == asked.attempt and ref == asked.draft and 0.0 <= critique.score <= 1.0
        ):
            return VerdictLate(path, attempt, ref, critique, usage)
        case _:
            return None


def _accepted(
    state: RunState, asked: OpenStep, message: OutcomeMessage, now: datetime, limit: int
) -> DomainEvent | None:
    role, path, attempt = asked.step.role, message.path, message.attempt
    match message:
        case Generated(text=text, media_type=media_type, usage=usage) if role == "generator":
            draft = new_draft(state.drafts + 1, text, media_type, limit)
            return DraftGenerated(path, attempt, draft, usage)
        case Refined(text=text, changes=changes, exit=leaving, usage=usage, declined=declined) if (
            role == "refiner" and asked.draft
        ):
            draft = new_draft(state.drafts + 1, text, state.media_type, limit)
            return DraftRefined(path, attempt, asked.draft, draft, changes, leaving, usage, declined)
        case Critiqued(draft=ref, critique=critique, usage=usage) if role == "critic" and ref == asked.draft:
            if not 0.0 <= critique.score <= 1.0:
                fault = f"a score of {critique.score:g} is not in 0..1"
                return _failure(state, message, asked, "invalid", fault, now)
            return DraftCritiqued(path, attempt, ref, critique, usage)
        case Published(draft=ref, receipt=receipt, usage=usage) if role == "publisher" and ref == asked.draft:
            return DraftPublished(path, attempt, ref, receipt, usage)
        case Failed(kind=kind, message=fault, retryable=retryable):
            return _failure(state, message, asked, kind, fault, now, retryable=retryable)
        case Generated() | Refined() | Critiqued() | Published():
            return None
        case _:
            assert_never(message)


def _failure(
    state: RunState,
    message: OutcomeMessage | ExpireStep | ConfirmStep,
    asked: OpenStep,
    kind: FailureKind,
    fault: str,
    now: datetime,
    *,
    retryable: bool = True,
) -> StepFailed:
    retry = asked.step.retry
    again = retryable and message.attempt < retry.attempts
    wait = backoff(retry, message.attempt, request_id(message.run, message.path, message.attempt))
    usage = message.usage if not isinstance(message, ExpireStep | ConfirmStep) else Usage()
    return StepFailed(message.path, message.attempt, kind, fault, now + wait if again else None, usage)


def _retried(
    state: RunState, message: RetryStep, now: datetime, others: Usage
) -> StepRequested | BudgetReached | PanelClosed | None:
    asked = state.open.get(message.path)
    if state.paused or asked is None or asked.attempt != message.attempt:
        return None
    if asked.retry_at is None or now < asked.retry_at:
        return None
    if (closed := closed_panel(state, message.path.rpartition("/")[0], now)) is not None:
        return closed
    due = now + timedelta(seconds=asked.step.timeout) + GRACE
    fan = state.frames[-1].fan
    if fan is not None and fan.until is not None and now < fan.until:
        due = min(due, fan.until)
    again = msgspec.structs.replace(asked.request, attempt=message.attempt + 1, due=due)
    if state.plan.budget is None and state.plan.daily is None:
        return again
    return afforded(state, again, now, others)


def _expired(
    state: RunState, message: ExpireStep, now: datetime
) -> StepFailed | ApprovalExpired | BudgetReached | PanelClosed | None:
    over = time_is_up(state, now)
    if over and state.status == "running" and (state.failure is None or state.paused):
        return over
    waiting = state.approval
    if waiting is not None and waiting.request.path == message.path and now >= waiting.request.due:
        return ApprovalExpired(message.path, waiting.request.draft, waiting.node.on_deadline)
    asked = state.open.get(message.path)
    if asked is None or asked.attempt != message.attempt or asked.retry_at is not None:
        return None
    if message.unserved > 0:
        return _unserved(state, message, asked, now)
    if now < asked.due:
        return None
    fan = state.frames[-1].fan
    if fan is not None and fan.until is not None and asked.due == fan.until:
        return closed_panel(state, message.path.rpartition("/")[0], now) or _overdue(state, message, asked, fan, now)
    if message.queued:
        return None
    return _failure(state, message, asked, "timeout", f"no answer by {asked.due:%Y-%m-%d %H:%M:%S} UTC", now)


def _unserved(state: RunState, message: ExpireStep, asked: OpenStep, now: datetime) -> StepFailed | None:
    """A request to an actor that no worker serves is given up for good, not before the time that the plan gives it."""
    if message.unserved < (asked.request.queue_wait or 0):
        return None
    who = f"{asked.request.role} {asked.request.actor}"
    fault = f"no worker has served the {who} for {message.unserved:.0f} s"
    return _failure(state, message, asked, "unserved", fault, now, retryable=False)


def _overdue(state: RunState, message: ExpireStep, asked: OpenStep, fan: Fan, now: datetime) -> StepFailed | None:
    """A critic that a panel cannot go on without has the time of its own timeout."""
    latest = asked.due - timedelta(seconds=fan.node.deadline or 0.0) + timedelta(seconds=asked.step.timeout) + GRACE
    if now < latest or message.queued:
        return None
    return _failure(state, message, asked, "timeout", f"no answer by {latest:%Y-%m-%d %H:%M:%S} UTC", now)


def is_open(state: RunState, path: str, attempt: int) -> bool:
    """Whether this attempt was asked for and has no answer."""
    asked = state.open.get(path)
    return asked is not None and asked.attempt == attempt and asked.retry_at is None


def unwelcome(state: RunState, message: Message) -> str:
    """Why a message that brings nothing about ought to be looked at; empty for one that is only late or doubled."""
    if isinstance(message, StartRun):
        if (state.plan.name, state.brief.text) != (message.plan.name, message.brief.text):
            return f"run {message.run} has begun with another brief or workflow, key {message.key!r}; give another key"
        return ""
    return f"there is no run {message.run}" if state.status == "new" else ""


def is_early(state: RunState, message: Message) -> bool:
    """Whether a person speaks to a run whose start may still be on its way."""
    return state.status == "new" and isinstance(message, SteeringMessage)


def _lost(state: RunState, message: ConfirmStep, now: datetime) -> StepFailed | None:
    """A request that comes back again and again, as when it ends every worker that takes it, has failed."""
    asked = state.open.get(message.path)
    if asked is None or not is_open(state, message.path, message.attempt) or message.sent < MOST_SENDINGS:
        return None
    return _failure(state, message, asked, "lost", f"sent {message.sent} times, and no worker answered", now)


def backoff(retry: Retry, attempt: int, request: str) -> timedelta:
    """The wait after a failed attempt (from 1): exponential, with a jitter of 0.5..1 made from the request's id."""
    longest = min(retry.maximum, retry.initial * retry.factor ** min(attempt - 1, 64))
    jitter = 0.5 + int.from_bytes(sha256(request.encode()).digest()[:4]) / 2**33
    return timedelta(seconds=longest * jitter)
