"""What a run does next, by its plan: one event at a time, until an answer is awaited or the run has ended. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, assert_never

from msgspec.structs import replace

from redraft.actors.arms import Choose, first_arm, given_to
from redraft.actors.barred import barred, beyond_people
from redraft.actors.credit import credited
from redraft.actors.judgement import Facts, Verdict, verdict
from redraft.actors.leaving import (
    finished,
    kept,
    left_on_failure,
    not_passed,
    nothing_is_left,
    refined_again,
    salvaged,
    withheld,
)
from redraft.actors.run_state import (
    Candidate,
    Fan,
    Frame,
    RunState,
    asks_people,
    closing_body,
    failed_a_gate,
    gates_of,
    is_publisher,
    prefix,
    wanted,
)
from redraft.actors.spending import NOTHING, afforded, ends_at, time_is_up
from redraft.events.content import DraftRef
from redraft.events.domain_events import (
    ApprovalRequested,
    DomainEvent,
    IterationStarted,
    LoopClosing,
    LoopEnded,
    Outcome,
    PanelClosed,
    RunEnded,
    StepRequested,
)
from redraft.events.plan import Approve, Node, Parallel, Repeat, Step
from redraft.events.usage import Usage

GRACE: Final = timedelta(hours=1)
"""How long after its timeout an answer is awaited, and longer where its request is known to wait in its queue."""

_UNJUDGED: Final = Verdict("plateaued", "the refiner had nothing more to change")


def next_event(
    state: RunState, now: datetime, others: Usage = NOTHING, choose: Choose = first_arm
) -> DomainEvent | None:
    """Returns the event that happens next, or None when nothing does until an answer comes.

    `others` is what the other runs of the workflow used that began on the same day, for a plan with a daily budget.
    `choose` says who does a step that chooses.
    """
    following = _following(state, now)
    if not isinstance(following, StepRequested):
        return credited(state, following) if state.picks and isinstance(following, RunEnded) else following
    if not following.actor:
        following = given_to(state.plan, following, choose)
    if state.plan.budget is None and state.plan.daily is None:
        return following
    return afforded(state, following, now, others)


def _following(state: RunState, now: datetime) -> DomainEvent | None:
    if state.status != "running":
        return None
    if state.cancelled is not None:
        return _cancelled(state, state.cancelled)
    if state.paused:
        return _stopped(state, now)
    if state.refused:
        return _ended(state, Verdict(*state.refused), state.best or state.current)
    top = state.frames[-1]
    if state.failure:
        return _after_failure(state, top, now)
    if top.fan:
        return _next_of_fan(state, top, top.fan, now)
    if state.open or state.approval:
        return None
    if top.node is not None:
        ended = _loop_decision(state, top, top.node, now)
        if ended is not None:
            return ended
    return _next_of_body(state, top, now)


def _next_of_body(state: RunState, top: Frame, now: datetime) -> DomainEvent:
    """The next node is entered, but for people who need not be asked, and publishers who may not have the draft."""
    for place in range(top.index, len(top.body)):
        node = top.body[place]
        if isinstance(node, Step) and node.role != "publisher":
            return _request(state, node, f"{prefix(top)}{node.name}{top.review or ''}", now)
        if isinstance(node, Approve) and _would_go_on(state, top, now):
            continue
        if is_publisher(node) and (reason := withheld(state, top, place)):
            if top.node is not None:
                continue
            return _ended(state, Verdict("rejected", reason), state.current)
        return _enter(state, top, node, now)
    return _after_body(state, top)


def _enter(state: RunState, top: Frame, node: Node, now: datetime) -> DomainEvent:
    path = f"{prefix(top)}{node.name}{top.review or ''}"
    match node:
        case Step():
            return _request(state, node, path, now)
        case Parallel():
            step = node.steps[0]
            return _in_time(_request(state, step, f"{path}/{step.name}", now), node, now)
        case Repeat():
            return IterationStarted(path, 1)
        case Approve():
            due = ends_at(state, now + timedelta(seconds=node.deadline))
            draft = state.current.ref if state.current else DraftRef(0, "")
            return ApprovalRequested(path, draft, due, node.approvers, node.quorum)
        case _:
            assert_never(node)


def _would_go_on(state: RunState, top: Frame, now: datetime) -> bool:
    """Whether the loop would go on even if people approved the draft: then they need not be asked."""
    facts, current = facts_of(state, top, now), state.current
    if top.node is None or facts is None or current is None:
        return False
    if beyond_people(state, current):
        return True
    approved = replace(facts, judgement=replace(facts.judgement, approved=True))
    met = verdict(top.node.until, approved, own_word=False)
    return met is None or met.outcome != "accepted"


def _next_of_fan(state: RunState, top: Frame, fan: Fan, now: datetime) -> DomainEvent | None:
    inside = f"{prefix(top)}{fan.node.name}{top.review or ''}/"
    if fan.judging and fan.node.judge:
        if fan.requested == len(fan.candidates):
            return None
        path = f"{inside}{fan.node.judge.name}[{fan.requested + 1}]"
        asked = _request(state, fan.node.judge, path, now, fan.candidates[fan.requested])
        return replace(asked, beside=fan.candidates)
    if fan.requested == len(fan.node.steps):
        return closed_panel(state, inside[:-1], now)
    if fan.requested == gates_of(fan.node) > len(fan.heard):
        return None
    step = fan.node.steps[fan.requested]
    return _in_time(_request(state, step, inside + step.name, now), fan.node, now, fan.until)


def _in_time(asked: StepRequested, node: Parallel, now: datetime, until: datetime | None = None) -> StepRequested:
    """The request, due at the panel's deadline if it has one."""
    if node.deadline is None:
        return asked
    return replace(asked, due=min(asked.due, until or now + timedelta(seconds=node.deadline)))


def closed_panel(state: RunState, path: str, now: datetime) -> PanelClosed | None:
    """The end of the wait for all critics of a panel, once its time is over and enough have answered."""
    fan = state.frames[-1].fan
    if fan is None or fan.until is None or now < fan.until or len(fan.heard) < wanted(fan.node):
        return None
    return PanelClosed(path, len(fan.heard), tuple(state.open))


def _request(state: RunState, step: Step, path: str, now: datetime, draft: DraftRef | None = None) -> StepRequested:
    due = now + timedelta(seconds=step.timeout) + GRACE
    refines = step.role == "refiner"
    loop = state.frames[-1]
    source = _source(state, step)
    judged = source.judgement if source and refines else None
    return StepRequested(
        path,
        step.role,
        step.actor,
        1,
        due,
        draft or (source.ref if source and step.role != "generator" else None),
        judged.critiques if judged else (),
        judged.score if judged else None,
        finished(state, *state.frames),
        state.advice if refines else (),
        loop.swings if refines else (),
        loop.heat if refines and loop.node and loop.node.on_oscillation == "raise_temperature" else 0,
        queue_wait=step.queue_wait,
    )


def _source(state: RunState, step: Step) -> Candidate | None:
    """The draft to work on: after a refinement that scored far lower, the best one again."""
    current = state.current
    if state.failure:
        return salvaged(state) if state.rules >= 2 else state.best
    top = state.frames[-1]
    if step.role != "refiner" or top.node is None or current is None or current.judgement is None:
        return current
    best = refined_again(state, top)
    if best is None or best.judgement is None:
        return current
    if current.judgement.gate == "failed" != best.judgement.gate:
        return best if top.node.rollback_margin < 1 else current
    fell = best.judgement.score - current.judgement.score
    return best if fell > top.node.rollback_margin else current


def _loop_decision(state: RunState, top: Frame, loop: Repeat, now: datetime) -> DomainEvent | None:
    """Whether the loop ends here: asked when critics have spoken or an inner loop has ended, never on an old score."""
    if top.closing:
        return _closed(state, top, loop, now, Verdict(*top.closing)) if top.index == len(top.body) else None
    if top.exit:
        return _leave(state, top, loop, now, _UNJUDGED)
    if top.swung and loop.on_oscillation == "stop":
        return _leave(state, top, loop, now, Verdict("oscillating", top.swung))
    if top.due == "nothing" or (facts := facts_of(state, top, now)) is None:
        return None
    met = verdict(loop.until, facts, own_word=top.due == "judged" and not asks_people(loop))
    return _loop_ended(state, top, met) if met else None


def _after_body(state: RunState, top: Frame) -> DomainEvent:
    if top.node is None:
        return _run_ended(state)
    if top.iteration < top.node.max_iterations:
        return IterationStarted(top.path, top.iteration + 1)
    limit = top.node.max_iterations
    over = Verdict("exhausted", f"the limit of {limit} iteration{'s'[: limit > 1]} was reached")
    return _leave(state, top, top.node, None, over)


def _leave(state: RunState, top: Frame, loop: Repeat, now: datetime | None, why: Verdict) -> DomainEvent:
    """Ends a loop that no draft has satisfied; a last draft that nobody judged is judged first."""
    unjudged = state.current is None or state.current.judgement is None
    if unjudged and closing_body(loop):
        return LoopClosing(top.path, why.outcome, why.reason)
    return _loop_ended(state, top, why)


def _closed(state: RunState, top: Frame, loop: Repeat, now: datetime, why: Verdict) -> LoopEnded | RunEnded:
    facts = facts_of(state, top, now)
    met = verdict(loop.until, facts, own_word=not asks_people(loop)) if facts else None
    return _loop_ended(state, top, met if met and met.outcome == "accepted" else why)


def facts_of(state: RunState, top: Frame, now: datetime) -> Facts | None:
    """Returns what a condition may ask about the current draft; None until its critics have spoken."""
    current = state.current
    if current is None or current.judgement is None or state.started is None:
        return None
    said = current.judgement
    approved = _said_of(state, top, current, said.approved)
    return Facts(
        said if approved is said.approved else replace(said, approved=approved),
        current.ref.sha256,
        len(finished(state, top)),
        (now - state.started).total_seconds(),
        state.usage.tokens,
        state.usage.cost,
        top.peaks,
        top.seen[:-1],
    )


def _said_of(state: RunState, top: Frame, draft: Candidate, verdict: bool | None) -> bool | None:
    """The verdict on a draft: no where something bars it, in a loop that asks people theirs, else that of critics."""
    no = verdict is False if state.rules < 2 else bool(barred(state, draft))
    if no:
        return False
    if asks_people(top.node):
        return True if state.approved == draft.ref else None
    return verdict or None


def _loop_ended(state: RunState, top: Frame, why: Verdict) -> LoopEnded | RunEnded:
    """The draft that met the condition leaves; when none did, the best judged one, or the last if the plan says so.

    Nothing leaves a loop in which people decide but what they approved, nor what is barred: else the run ends there.
    """
    if why.outcome != "accepted" and (reason := nothing_is_left(state, top)):
        return _ended(state, Verdict("rejected", reason), kept(state, top))
    if why.outcome != "accepted" and asks_people(top.node):
        return _ended(state, why, state.best or state.current)
    best = kept(state, top)
    chosen = state.current if why.outcome == "accepted" or best is None else best
    return _left_with(top, why, chosen)


def _left_with(top: Frame, why: Verdict, chosen: Candidate | None) -> LoopEnded:
    if chosen is None:
        return LoopEnded(top.path, why.outcome, why.reason, top.iteration, DraftRef(0, ""))
    score = chosen.judgement.score if chosen.judgement else None
    return LoopEnded(top.path, why.outcome, why.reason, top.iteration, chosen.ref, score)


def _run_ended(state: RunState) -> RunEnded:
    """The end of the plan: as the last loop ended, but never with a draft that may not be published."""
    why = Verdict(*(state.loop or ("accepted", "every step is done")))
    if why.outcome == "accepted" and failed_a_gate(state.current):
        why = Verdict("rejected", not_passed(state.current))
    if reason := barred(state, state.current):
        why = Verdict("rejected", reason)
    return _ended(state, why, state.current)


def _ended(state: RunState, why: Verdict, chosen: Candidate | None) -> RunEnded:
    score = chosen.judgement.score if chosen and chosen.judgement else None
    return RunEnded(why.outcome, why.reason, state.iterations, chosen.ref if chosen else None, score)


def _cancelled(state: RunState, reason: str) -> RunEnded:
    """The end of a run that a person stops; it names the best judged draft."""
    return _ended(state, Verdict("cancelled", reason), state.best or state.current)


def _stopped(state: RunState, now: datetime) -> RunEnded | None:
    """The end of a paused run whose wall time is over. Nothing is published then, whatever the plan says."""
    failure = state.failure
    if failure is None or failure.outcome != "over_budget" or state.open or time_is_up(state, now) is None:
        return None
    return _ended(state, Verdict(failure.outcome, failure.reason), state.best or state.current)


def _after_failure(state: RunState, top: Frame, now: datetime) -> DomainEvent | None:
    """A step failed for good: the run ends, or the best judged draft goes to what publishers the plan still has."""
    failure = state.failure
    if failure is None or state.open:
        return None
    reason, best = failure.reason, salvaged(state)
    if best is None or failure.publishing or state.plan.on_failure == "fail":
        return _ended(state, Verdict(failure.outcome, reason), state.best or state.current)
    if top.node is not None:
        return _left_with(top, Verdict(failure.outcome, reason), left_on_failure(state, top))
    if top.fan:
        return _next_of_fan(state, top, top.fan, now)
    for node in top.body[top.index :]:
        if is_publisher(node):
            return _enter(state, top, node, now)
    outcome: Outcome = "exhausted" if failure.outcome == "failed" and state.rules < 2 else failure.outcome
    return _ended(state, Verdict(outcome, f"{reason}; the best draft so far was published"), best)
