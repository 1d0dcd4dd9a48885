"""What a run does next, by its plan: one event at a time, until an answer is awaited or the run has ended. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, assert_never

from msgspec.structs import replace

from redraft.actors.arms import Choose, first_arm, given_to
from redraft.actors.credit import credited
from redraft.actors.judgement import Facts, Verdict, verdict
from redraft.actors.run_state import (
    Candidate,
    Fan,
    Frame,
    RunState,
    asks_people,
    closing_body,
    failed_a_gate,
    gates_of,
    prefix,
    wanted,
)
from redraft.actors.spending import NOTHING, afforded, ends_at
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
"""How long after its timeout an answer is awaited: a request may wait in its queue before a worker takes it."""

_UNJUDGED: Final = Verdict("plateaued", "the refiner had nothing more to change")


def next_event(
    state: RunState, now: datetime, others: Usage = NOTHING, choose: Choose = first_arm
) -> DomainEvent | None:
    """What happens next, or None when nothing does until an answer comes.

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
        return None
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
    for node in top.body[top.index :]:
        if isinstance(node, Approve) and _would_go_on(state, top, now):
            continue
        if _publishes(node) and _is_refused(state.current, top):
            return _ended(state, _not_passed(state.current), state.current)
        return _enter(state, top, node, now)
    return _after_body(state, top)


def _is_refused(draft: Candidate | None, top: Frame) -> bool:
    """Whether a gate outside of a loop did not pass the draft. What a loop leaves with is for the loop to say."""
    if top.node is not None or not failed_a_gate(draft):
        return False
    judges = (node for node in reversed(top.body[: top.index]) if not (isinstance(node, Approve) or _publishes(node)))
    return not isinstance(next(judges, None), Repeat)


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
    facts = facts_of(state, top, now)
    if top.node is None or facts is None:
        return False
    if facts.judgement.approved is False:
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
        tuple(ref for frame in state.frames for ref in frame.outputs),
        state.advice if refines else (),
        loop.swings if refines else (),
        loop.heat if refines and loop.node and loop.node.on_oscillation == "raise_temperature" else 0,
    )


def _source(state: RunState, step: Step) -> Candidate | None:
    """The draft to work on: after a refinement that scored far lower, the best one again."""
    current = state.current
    if state.failure:
        return state.best
    top = state.frames[-1]
    if step.role != "refiner" or top.node is None or current is None or current.judgement is None:
        return current
    best = top.best
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
    facts = facts_of(state, top, now)
    if top.due == "nothing" or facts is None:
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
    """What a condition may ask about the current draft; None until its critics have spoken."""
    current = state.current
    if current is None or current.judgement is None or state.started is None:
        return None
    judgement = current.judgement
    if asks_people(top.node) and judgement.approved is not False:
        judgement = replace(judgement, approved=True if state.approved == current.ref else None)
    return Facts(
        judgement,
        current.ref.sha256,
        len(top.outputs),
        (now - state.started).total_seconds(),
        state.usage.tokens,
        state.usage.cost,
        top.peaks,
        top.seen[:-1],
    )


def _loop_ended(state: RunState, top: Frame, why: Verdict) -> LoopEnded | RunEnded:
    """The draft that met the condition leaves; when none did, the best judged one, or the last if the plan says so.

    Nothing leaves a loop in which people decide but what they approved: else the run ends there.
    """
    if why.outcome != "accepted" and asks_people(top.node):
        return _ended(state, why, state.best or state.current)
    kept = top.last if top.node and top.node.keep == "last" else top.best
    chosen = state.current if why.outcome == "accepted" or kept is None else kept
    if chosen is None:
        return LoopEnded(top.path, why.outcome, why.reason, top.iteration, DraftRef(0, ""))
    score = chosen.judgement.score if chosen.judgement else None
    return LoopEnded(top.path, why.outcome, why.reason, top.iteration, chosen.ref, score)


def _run_ended(state: RunState) -> RunEnded:
    """The end of the plan: as the last loop ended, but never accepted with a draft that a gate did not pass."""
    why = Verdict(*(state.loop or ("accepted", "every step is done")))
    if why.outcome == "accepted" and failed_a_gate(state.current):
        why = _not_passed(state.current)
    return _ended(state, why, state.current)


def _not_passed(draft: Candidate | None) -> Verdict:
    return Verdict("rejected", f"a gate did not pass draft {draft.ref.version if draft else 0}")


def _ended(state: RunState, why: Verdict, chosen: Candidate | None) -> RunEnded:
    score = chosen.judgement.score if chosen and chosen.judgement else None
    return RunEnded(why.outcome, why.reason, state.iterations, chosen.ref if chosen else None, score)


def _cancelled(state: RunState, reason: str) -> RunEnded:
    """The end of a run that a person stops; it names the best judged draft."""
    return _ended(state, Verdict("cancelled", reason), state.best or state.current)


def _after_failure(state: RunState, top: Frame, now: datetime) -> DomainEvent | None:
    """A step failed for good: the run ends, or the best judged draft goes to what publishers the plan still has."""
    failure, best = state.failure, state.best
    if failure is None or state.open:
        return None
    reason = failure.reason
    if best is None or failure.publishing or state.plan.on_failure == "fail" or _is_held_back(state, top, best):
        return _ended(state, Verdict(failure.outcome, reason), best or state.current)
    if top.node is not None:
        score = best.judgement.score if best.judgement else None
        return LoopEnded(top.path, failure.outcome, reason, top.iteration, best.ref, score)
    if top.fan:
        return _next_of_fan(state, top, top.fan, now)
    for node in top.body[top.index :]:
        if _publishes(node):
            return _enter(state, top, node, now)
    outcome: Outcome = "exhausted" if failure.outcome == "failed" else failure.outcome
    return _ended(state, Verdict(outcome, f"{reason}; the best draft so far was published"), best)


def _is_held_back(state: RunState, top: Frame, best: Candidate) -> bool:
    """Whether people would still have had to decide on what is published, or a gate outside of loops said no."""
    if top.node is None and state.loop is None and failed_a_gate(best):
        return True
    coming = (node for frame in state.frames for node in frame.body[frame.index :])
    return any(asks_people(frame.node) for frame in state.frames) or any(
        isinstance(node, Approve) or (isinstance(node, Repeat) and asks_people(node)) for node in coming
    )


def _publishes(node: Node) -> bool:
    match node:
        case Step(role=role):
            return role == "publisher"
        case Parallel(steps=steps):
            return steps[0].role == "publisher"
        case Repeat() | Approve():
            return False
