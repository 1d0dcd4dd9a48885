"""Decides which events a message brings about. Pure: the time is an argument.

An outcome counts only for a request that is still open, at its attempt and for its draft; any other is ignored.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, assert_never

import msgspec

from redraft.actors.deciding.budget import NOTHING, time_is_up, within_budget
from redraft.actors.deciding.declared import as_declared, why_invalid
from redraft.actors.deciding.evolve import evolve
from redraft.actors.deciding.interpreter import next_event
from redraft.actors.deciding.panels import closed_panel
from redraft.actors.deciding.requests import GRACE
from redraft.actors.deciding.reusing import NO_MEMORY, Memory, Recall, recall_nothing, verdict_again, with_key
from redraft.actors.deciding.run_values import why_refused
from redraft.actors.deciding.state import OpenStep, ParallelState, RunState
from redraft.actors.deciding.steering import steered
from redraft.actors.plans.arms import Choose, first_arm
from redraft.events.errors import ContentError
from redraft.events.messages.commands import (
    Completed,
    ConfirmStep,
    Critiqued,
    EraseRun,
    ExpireStep,
    Failed,
    Generated,
    Message,
    OutcomeMessage,
    Published,
    QuarantineRun,
    Refined,
    RetryStep,
    StartRun,
    SteeringMessage,
    StrikeLesson,
    request_id,
)
from redraft.events.messages.content import MAX_DRAFT_BYTES, new_draft
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    BudgetReached,
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    FailureKind,
    LessonStruck,
    PanelClosed,
    RunErased,
    RunQuarantined,
    RunStarted,
    StateChanged,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.lessons import Lessons
from redraft.events.messages.plan import RULES, Retry
from redraft.events.messages.usage import Usage

MAX_SENDINGS: Final = 200
"""The number of sendings after which a request fails.

Workers run one whose earlier workers vanished in a process of its own and report how that ended, so that only a request
that takes even such a worker along is sent as often.
"""


AROUND: Final = "~"
"""In place of a path: the run around a run of an item, of which that may have missed something."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The events that happened, and the state after them."""

    events: tuple[DomainEvent, ...]
    state: RunState


def handle(
    state: RunState,
    message: Message,
    now: datetime,
    limit: int = MAX_DRAFT_BYTES,
    others: Usage = NOTHING,
    choose: Choose = first_arm,
    recall: Recall = recall_nothing,
    queue_limit: timedelta | None = None,
    lessons: Lessons | None = None,
) -> Decision:
    """Returns the events that a message brings about at this time (UTC), and the state after them.

    There are none if it is late, foreign or a duplicate. `limit` is the largest draft, in bytes, that is accepted.
    `others` is the usage of the workflow's other runs that began on the same day, needed only for a plan with a daily
    budget. `choose` chooses the actor of a step that has several. `recall` has the verdicts of other runs, for a critic
    that takes these again. A request that a worker asks about is given up once it is older than `queue_limit`, if any.
    A run that begins is given these `lessons`.
    """
    memory = Memory(message.run, recall)
    first = _first_event(state, message, now, limit, others, queue_limit, lessons)
    return continue_from(state, first, now, others, choose, memory)


def continue_from(
    state: RunState,
    first: DomainEvent | None,
    now: datetime,
    others: Usage = NOTHING,
    choose: Choose = first_arm,
    memory: Memory = NO_MEMORY,
) -> Decision:
    """Returns an event and all that follows from it until an answer is awaited; no events for None."""
    events: list[DomainEvent] = []
    while first is not None:
        events.append(first)
        state = evolve(state, first)
        again = verdict_again(state, first, memory) if type(first) is StepRequested and first.reused else None
        first = again or next_event(state, now, others, choose, memory)
    return Decision(tuple(events), state)


def _first_event(
    state: RunState,
    message: Message,
    now: datetime,
    limit: int,
    others: Usage,
    queue_limit: timedelta | None,
    lessons: Lessons | None,
) -> DomainEvent | None:
    match message:
        case Critiqued() | Refined() | Generated() | Published() | Completed() | Failed():
            return _outcome(state, message, now, limit)
        case StartRun(_, plan, brief, key, tags, parent, files, of=of):  # how a fork begins, `forking` decides
            fresh = state.status == "new" and parent is None
            given = None if plan.lessons is None else lessons
            return RunStarted(plan, brief, now, key, tags, None, RULES, files, given, of) if fresh else None
        case EraseRun(_, by, reason):
            return RunErased(by, reason) if state.status in ("ended", "quarantined") and not state.erased else None
        case QuarantineRun(_, by, reason, key):
            return RunQuarantined(by, reason, key) if state.status not in ("new", "quarantined") else None
        case StrikeLesson():
            return _strike(state, message)
        case RetryStep():
            return _retry_step(state, message, now, others)
        case ExpireStep():
            return _expire(state, message, now)
        case ConfirmStep():
            return _confirm_step(state, message, now, queue_limit)
        case _ if isinstance(message, SteeringMessage):
            return steered(state, message, limit)
        case _:
            assert_never(message)


def _strike(state: RunState, message: StrikeLesson) -> LessonStruck | None:
    """Returns the event of a lesson that is struck out, or given again; None where that is so already."""
    if state.status != "ended" or state.erased or (message.lesson in state.struck) != message.withdrawn:
        return None
    said = message.by, message.reason, message.withdrawn, message.key
    return LessonStruck(message.lesson, state.plan.name, *said)


def _outcome(state: RunState, message: OutcomeMessage, now: datetime, limit: int) -> DomainEvent | None:
    open_step = state.open.get(message.path)
    if open_step is None and message.path in state.late:
        return _late_verdict(state.late[message.path], message, state.rules)
    if open_step is None or open_step.request.attempt != message.attempt or open_step.retry_at is not None:
        return None
    try:
        return _event_for_outcome(state, open_step, message, now, limit)
    except ContentError as error:
        return _step_failed(state, message, open_step, "invalid", str(error), now)


def _late_verdict(open_step: OpenStep, message: OutcomeMessage, rules: int) -> VerdictLate | None:
    """Returns the event for a late verdict of a panel's critic; None for any other late outcome."""
    if not isinstance(message, Critiqued) or (message.attempt, message.draft) != (open_step.attempt, open_step.draft):
        return None
    if why_invalid(open_step.step, message.critique):
        return None
    critique = as_declared(open_step.step, message.critique, rules)
    return VerdictLate(message.path, message.attempt, message.draft, critique, message.usage)


def _event_for_outcome(
    state: RunState, open_step: OpenStep, message: OutcomeMessage, now: datetime, limit: int
) -> DomainEvent | None:
    role, asked, path, attempt = open_step.step.role, open_step.request.draft, message.path, message.attempt
    values = {} if isinstance(message, Failed) else message.state
    if values and (refused := why_refused(state, open_step, path, values)):
        return _step_failed(state, message, open_step, "invalid", refused, now, retryable=False)
    match message:
        case Critiqued(draft=ref, critique=critique, usage=usage) if role == "critic" and ref == asked:
            if fault := why_invalid(open_step.step, critique):
                return _step_failed(state, message, open_step, "invalid", fault, now, retryable=state.rules < 3)
            critique = as_declared(open_step.step, critique, state.rules)
            return DraftCritiqued(path, attempt, ref, critique, usage, state=values, hermetic=message.hermetic)
        case Refined(text=text, changes=changes, exit=leaving, usage=usage, declined=declined) if (
            role == "refiner" and asked
        ):
            draft = new_draft(state.drafts + 1, text, state.media_type, limit)
            edited = (message.edits, message.refusals, message.saved_tokens, values)
            return DraftRefined(path, attempt, asked, draft, changes, leaving, usage, declined, *edited)
        case Generated(text=text, media_type=media_type, usage=usage) if role in ("generator", "run"):
            draft = new_draft(state.drafts + 1, text, media_type, limit)
            return DraftGenerated(path, attempt, draft, usage, values)
        case Published(draft=ref, receipt=receipt, usage=usage) if role == "publisher" and ref == asked:
            return DraftPublished(path, attempt, ref, receipt, usage, values)
        case Completed(usage=usage) if role == "step":
            return StateChanged(path, attempt, values, usage)
        case Failed(kind=kind, message=fault, retryable=retryable):
            return _step_failed(state, message, open_step, kind, fault, now, retryable=retryable)
        case Generated() | Refined() | Critiqued() | Published() | Completed():
            return None
        case _:
            assert_never(message)


def _step_failed(
    state: RunState,
    message: OutcomeMessage | ExpireStep | ConfirmStep,
    open_step: OpenStep,
    kind: FailureKind,
    fault: str,
    now: datetime,
    *,
    retryable: bool = True,
) -> StepFailed:
    retry = open_step.step.retry
    again = retryable and message.attempt < retry.attempts
    wait = backoff(retry, message.attempt, request_id(message.run, message.path, message.attempt))
    usage = message.usage if not isinstance(message, ExpireStep | ConfirmStep) else Usage()
    return StepFailed(message.path, message.attempt, kind, fault, now + wait if again else None, usage)


def _retry_step(
    state: RunState, message: RetryStep, now: datetime, others: Usage
) -> StepRequested | BudgetReached | PanelClosed | None:
    open_step = state.open.get(message.path)
    if state.paused or open_step is None or open_step.attempt != message.attempt:
        return None
    if open_step.retry_at is None or now < open_step.retry_at:
        return None
    if (closed := closed_panel(state, message.path.rpartition("/")[0], now)) is not None:
        return closed
    due = now + timedelta(seconds=open_step.step.timeout) + GRACE
    parallel = state.frames[-1].parallel
    if parallel is not None and parallel.until is not None and now < parallel.until:
        due = min(due, parallel.until)
    again = msgspec.structs.replace(open_step.request, attempt=message.attempt + 1, due=due)
    if again.verdict_key:
        again = with_key(state, open_step.step, again)  # the run's state may have changed meanwhile
    if state.plan.budget is None and state.plan.daily is None:
        return again
    return within_budget(state, again, now, others)


def _expire(
    state: RunState, message: ExpireStep, now: datetime
) -> StepFailed | ApprovalExpired | BudgetReached | PanelClosed | None:
    over = time_is_up(state, now)
    if over and state.status == "running" and (state.failure is None or state.paused):
        return over
    waiting = state.approval
    if waiting is not None and waiting.request.path == message.path and now >= waiting.request.due:
        return ApprovalExpired(message.path, waiting.request.draft, waiting.node.on_deadline)
    open_step = state.open.get(message.path)
    if open_step is None or open_step.attempt != message.attempt or open_step.retry_at is not None:
        return None
    return _expire_step(state, message, open_step, now)


def _expire_step(
    state: RunState, message: ExpireStep, open_step: OpenStep, now: datetime
) -> StepFailed | PanelClosed | None:
    """Returns the failure of an open step whose answer is overdue, or the end of its panel's wait."""
    if open_step.step.role == "run":
        return None
    if message.unserved > 0:
        return _expire_unserved(state, message, open_step, now)
    if now < open_step.due:
        return None
    parallel = state.frames[-1].parallel
    if parallel is not None and parallel.until is not None and open_step.due == parallel.until:
        closed = closed_panel(state, message.path.rpartition("/")[0], now)
        return closed or _expire_critic(state, message, open_step, parallel, now)
    if message.queued:
        return None
    return _step_failed(
        state, message, open_step, "timeout", f"no answer by {open_step.due:%Y-%m-%d %H:%M:%S} UTC", now
    )


def _expire_unserved(state: RunState, message: ExpireStep, open_step: OpenStep, now: datetime) -> StepFailed | None:
    """Returns the failure of a request whose actor no worker serves.

    None before the time that its plan allows, and while the run is paused: the time of a pause does not count.
    """
    if state.paused or message.unserved < (open_step.request.queue_wait or 0):
        return None
    who = f"{open_step.request.role} {open_step.request.actor}"
    fault = f"no worker has served the {who} for {message.unserved:.0f} s"
    return _step_failed(state, message, open_step, "unserved", fault, now, retryable=False)


def _expire_critic(
    state: RunState, message: ExpireStep, open_step: OpenStep, parallel: ParallelState, now: datetime
) -> StepFailed | None:
    """Returns the failure of a critic that its panel cannot close without, once its own timeout has passed too."""
    deadline, timeout = parallel.node.deadline or 0.0, open_step.step.timeout
    latest = open_step.due - timedelta(seconds=deadline) + timedelta(seconds=timeout) + GRACE
    if now < latest or message.queued:
        return None
    return _step_failed(state, message, open_step, "timeout", f"no answer by {latest:%Y-%m-%d %H:%M:%S} UTC", now)


def is_open(state: RunState, path: str, attempt: int) -> bool:
    """Returns whether this attempt was requested and has no answer."""
    open_step = state.open.get(path)
    return open_step is not None and open_step.attempt == attempt and open_step.retry_at is None


def place_to_look_after(state: RunState, path: str) -> str:
    """Returns what to look after when the timer at this path is over: a run of an item, or `AROUND` such a run.

    Empty for nothing.
    """
    asked = state.open.get(path)
    if asked is not None:
        return path if asked.step.role == "run" else ""
    return AROUND if not path and state.of is not None and state.status == "running" else ""


def why_unwelcome(state: RunState, message: Message) -> str:
    """Returns why a message without effect should be refused; empty for one that is only late or doubled."""
    if isinstance(message, StartRun):
        if not state.erased and (state.plan.name, state.brief.text) != (message.plan.name, message.brief.text):
            return f"run {message.run} has begun with another brief or workflow, key {message.key!r}; give another key"
        return ""
    return f"there is no run {message.run}" if state.status == "new" else ""


def is_early(state: RunState, message: Message) -> bool:
    """Returns whether this is a steering message to a run whose start may still be on its way."""
    return state.status == "new" and isinstance(message, SteeringMessage)


def _confirm_step(
    state: RunState, message: ConfirmStep, now: datetime, queue_limit: timedelta | None
) -> StepFailed | None:
    """Returns the failure of a request that waited too long, or was sent too often.

    One that ends every worker that takes it is sent so often.
    """
    open_step = state.open.get(message.path)
    if open_step is None or not is_open(state, message.path, message.attempt):
        return None
    if message.sent >= MAX_SENDINGS:
        return _step_failed(
            state, message, open_step, "lost", f"sent {message.sent} times, and no worker answered", now
        )
    if queue_limit is not None and now >= _asked_at(state, open_step) + queue_limit:
        fault = f"it waited in its queue for {queue_limit.total_seconds():.0f} s or longer"
        return _step_failed(state, message, open_step, "timeout", fault, now)
    return None


def _asked_at(state: RunState, open_step: OpenStep) -> datetime:
    """Returns when a request was made; when it falls due, if the deadline of its panel says when that is."""
    parallel = state.frames[-1].parallel
    if parallel is not None and parallel.until == open_step.due:
        return open_step.due
    return open_step.due - timedelta(seconds=open_step.step.timeout) - GRACE


def backoff(retry: Retry, attempt: int, request: str) -> timedelta:
    """Returns the wait after a failed attempt (from 1).

    It grows exponentially, with a jitter of 0.5..1 made from the request's id.
    """
    longest = min(retry.maximum, retry.initial * retry.factor ** min(attempt - 1, 64))
    jitter = 0.5 + int.from_bytes(sha256(request.encode()).digest()[:4]) / 2**33
    return timedelta(seconds=longest * jitter)
