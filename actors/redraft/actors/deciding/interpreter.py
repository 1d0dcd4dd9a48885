"""Decides what a run does next by its plan, one event at a time, until it awaits an answer or has ended. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, assert_never

from msgspec.structs import replace

from redraft.actors.conditions.reading import critics_of
from redraft.actors.conditions.values import asks_critics
from redraft.actors.deciding.budget import NOTHING, ends_at, time_is_up, within_budget
from redraft.actors.deciding.candidates import (
    beyond_people,
    describe_failed_gate,
    draft_to_keep,
    finished_drafts,
    judged_before,
    why_barred,
    why_nothing_leaves,
    why_withheld,
)
from redraft.actors.deciding.closing import nodes_to_close, question_due
from redraft.actors.deciding.credit import credits_or_end
from redraft.actors.deciding.facts import Facts, Verdict, says_of_draft_left, verdict
from redraft.actors.deciding.items import request_next_item, with_slice
from redraft.actors.deciding.judgement import Judgement
from redraft.actors.deciding.panels import limit_due, next_of_parallel
from redraft.actors.deciding.requests import make_request
from redraft.actors.deciding.reusing import NO_MEMORY, Memory, with_reuse
from redraft.actors.deciding.run_values import is_unfinished, visible_values
from redraft.actors.deciding.salvage import draft_to_salvage, left_on_failure
from redraft.actors.deciding.skipping import skip
from redraft.actors.deciding.state import (
    INNER_LOOPS_FIRST,
    Candidate,
    Failure,
    Frame,
    RunState,
    failed_a_gate,
    is_publisher,
    needs_judges,
    prefix,
    waits_for_own_critics,
)
from redraft.actors.plans.arms import Choose, choose_actor, first_arm
from redraft.actors.plans.endings import ENDS, ending_of, is_question
from redraft.actors.plans.items import items_in
from redraft.actors.plans.paths import asks_people
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DomainEvent,
    IterationStarted,
    LoopClosing,
    LoopEnded,
    Outcome,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.plan import Approve, Each, Node, Parallel, Repeat, Step
from redraft.events.messages.scales import Scale
from redraft.events.messages.usage import Usage

_UNJUDGED: Final = Verdict("plateaued", "the refiner had nothing more to change")
_LEFT: Final = Verdict("exhausted", "the refiner left")
_LEFT_ACCEPTED: Final = Verdict("accepted", "the refiner left, and nothing stands against its draft")


def next_event(
    state: RunState,
    now: datetime,
    others: Usage = NOTHING,
    choose: Choose = first_arm,
    memory: Memory = NO_MEMORY,
) -> DomainEvent | None:
    """Returns the event that happens next, or None when nothing does until an answer comes.

    `others` is the usage of the workflow's other runs that began on the same day, for a plan with a daily budget.
    `choose` chooses the actor of a step that has several. `memory` has the verdicts that a critic may take again.
    """
    following = _decide_next(state, now)
    if type(following) is not StepRequested:
        return credits_or_end(state, following) if state.picks and isinstance(following, RunEnded) else following
    if not following.actor:
        following = choose_actor(state.plan, following, choose)
    if following.verdict_key:
        following = with_reuse(state, following, memory)
    if following.reused is not None or (state.plan.budget is None and state.plan.daily is None):
        return following
    if following.role == "run":
        return with_slice(state, following, now, others)
    return within_budget(state, following, now, others)


def _decide_next(state: RunState, now: datetime) -> DomainEvent | None:
    if state.status != "running":
        return None
    if state.cancelled is not None:
        return _end_run(state, Verdict("cancelled", state.cancelled), state.best or state.current)
    if state.paused:
        return _end_paused(state, now)
    if state.refused:
        return _end_run(state, Verdict(*state.refused), state.best or state.current)
    top = state.frames[-1]
    if state.failure:
        return _after_failure(state, top, now)
    return _next_of_frame(state, top, now)


def _next_of_frame(state: RunState, top: Frame, now: datetime) -> DomainEvent | None:
    """Returns the next event of a run that goes on; None while an answer or an approval is awaited."""
    if top.parallel:
        return next_of_parallel(state, top, top.parallel, now)
    if top.each is not None:
        return request_next_item(state, top, top.each.node, now)
    if state.open or state.approval:
        return None
    if (question := question_due(top)) is not None:
        return _enter(state, top, question, now)
    if top.node is not None and (ended := _end_loop_if_met(state, top, top.node, now)) is not None:
        return ended
    return _next_of_body(state, top, now)


def _next_of_body(state: RunState, top: Frame, now: datetime) -> DomainEvent:
    """Enters the next node; skips people who need not be asked, publishers that may not have the draft, and lists
    without items.
    """
    for place in range(top.index, len(top.body)):
        node = top.body[place]
        if type(node) is Each:
            items, fault = items_in(state.values, node.over)
            if fault:
                return _end_run(
                    state, Verdict("failed", f"{prefix(top)}{node.name}: {fault}"), state.best or state.current
                )
            if not items:
                continue
        if isinstance(node, Step) and node.role != "publisher":
            path = f"{prefix(top)}{node.name}{top.review or ''}"
            return skip(state, top, node, path) or make_request(state, node, path, now)
        if isinstance(node, Approve) and (is_question(node) or _would_go_on(state, top, now)):
            continue
        if is_publisher(node) and (reason := why_withheld(state, top, place)):
            if top.node is not None:
                continue
            return _end_run(state, Verdict("rejected", reason), state.current)
        return _enter(state, top, node, now)
    return _after_body(state, top)


def _enter(state: RunState, top: Frame, node: Node, now: datetime) -> DomainEvent:
    path = f"{prefix(top)}{node.name}{top.review or ''}"
    match node:
        case Step():
            return make_request(state, node, path, now)
        case Parallel():
            step = node.steps[0]
            return limit_due(make_request(state, step, f"{path}/{step.name}", now), node, now)
        case Repeat():
            return IterationStarted(path, 1)
        case Approve():
            due = ends_at(state, now + timedelta(seconds=node.deadline))
            draft = state.current.ref if state.current else DraftRef(0, "")
            return ApprovalRequested(path, draft, due, node.approvers, node.quorum)
        case Each():
            asked = request_next_item(state, top, node, now)
            assert asked is not None  # noqa: S101 - there are items, and nothing is under way
            return asked
        case _:
            assert_never(node)


def _would_go_on(state: RunState, top: Frame, now: datetime) -> bool:
    """Returns whether the loop would go on even if people approved the draft: then they need not be asked."""
    facts, current = facts_of(state, top, now), state.current
    if top.node is None or facts is None or current is None:
        return False
    if beyond_people(state, current):
        return True
    approved = replace(facts, judgement=replace(facts.judgement, approved=True))
    met = verdict(top.node.until, approved, own_word=False)
    return met is None or met.outcome != "accepted"


def _end_loop_if_met(state: RunState, top: Frame, loop: Repeat, now: datetime) -> DomainEvent | None:
    """Returns the end of the loop if its condition holds; None if it goes on.

    The condition is checked when critics or free steps have answered, the run's state has changed, or an inner loop has
    ended, never on an old score. By rules 6 a loop with critics of its own waits for them; values of the state alone
    end no loop whose draft is unfinished, and by rules 9 neither does the end of an inner loop, nor a judge's choice.
    """
    if top.closing:
        return _end_closed_loop(state, top, loop, now, Verdict(*top.closing)) if top.index == len(top.body) else None
    if top.exit:
        return _close_or_end_loop(state, top, loop, now, _LEFT if state.rules >= 3 else _UNJUDGED)
    if top.swung and loop.on_oscillation in ENDS:
        return _close_or_end_loop(state, top, loop, now, Verdict("oscillating", top.swung))
    if top.due == "nothing" or (_may_be_unfinished(state, top) and is_unfinished(state, top, loop)):
        return None
    if waits_for_own_critics(state, top, loop) or (facts := facts_of(state, top, now)) is None:
        return None
    met = verdict(loop.until, facts, own_word=top.due == "judged" and not asks_people(loop))
    return _end_loop(state, top, met) if met else None


def _may_be_unfinished(state: RunState, top: Frame) -> bool:
    return top.due == "state" or (top.due == "output" and state.rules >= INNER_LOOPS_FIRST)


def _after_body(state: RunState, top: Frame) -> DomainEvent:
    if top.node is None:
        return _end_plan(state)
    if top.iteration < top.node.max_iterations:
        return IterationStarted(top.path, top.iteration + 1)
    limit = top.node.max_iterations
    over = Verdict("exhausted", f"the limit of {limit} iteration{'s'[: limit > 1]} was reached")
    return _close_or_end_loop(state, top, top.node, None, over)


def _close_or_end_loop(state: RunState, top: Frame, loop: Repeat, now: datetime | None, why: Verdict) -> DomainEvent:
    """Ends a loop that no draft has satisfied, once all that has to look at its last draft has done so."""
    if nodes_to_close(state, top, loop):
        return LoopClosing(top.path, why.outcome, why.reason)
    if now is not None and why == _LEFT:
        return _end_left_loop(state, top, loop, now)
    return _end_loop(state, top, why)


def _end_left_loop(state: RunState, top: Frame, loop: Repeat, now: datetime) -> LoopEnded | RunEnded:
    """Ends a loop that its refiner left, with the draft it left with; a draft that may not go on ends the run."""
    facts = facts_of(state, top, now)
    met = verdict(loop.until, facts, own_word=not asks_people(loop)) if facts else None
    if met and met.outcome == "accepted":
        return _end_loop(state, top, met)
    current = state.current
    if why_barred(state, current) or (asks_people(loop) and (current is None or state.approved != current.ref)):
        return _end_run(state, _LEFT, current)
    against = says_of_draft_left(loop.until, facts) is False
    if against and ending_of(loop, _LEFT.outcome) == "fail":
        return _end_run(state, _LEFT, current)
    return _end_loop_with(top, _LEFT if against else _LEFT_ACCEPTED, current)


def _end_closed_loop(state: RunState, top: Frame, loop: Repeat, now: datetime, why: Verdict) -> LoopEnded | RunEnded:
    if top.exit:
        return _end_left_loop(state, top, loop, now)
    facts = facts_of(state, top, now)
    met = verdict(loop.until, facts, own_word=not asks_people(loop)) if facts else None
    return _end_loop(state, top, met if met and met.outcome == "accepted" else why)


def facts_of(state: RunState, top: Frame, now: datetime) -> Facts | None:
    """Returns the measured facts for a condition about the current draft; None until its critics have answered."""
    current = state.current
    if state.started is None:
        return None
    if current is None or current.judgement is None or current.judgement.failed:
        return _facts_without_critics(state, top, now)
    said = current.judgement
    approved = _approval_of(state, top, current, said.approved)
    return Facts(
        said if approved is said.approved else replace(said, approved=approved),
        current.ref.sha256,
        len(finished_drafts(state, top)),
        (now - state.started).total_seconds(),
        state.usage.tokens,
        state.usage.cost,
        top.peaks,
        top.seen[:-1],
        top.tracks,
        critics_of(top.body if top.node is None else top.node.body),
        state.rules,
        judged_before(top, current) if said.measures else None,
        visible_values(state, top),
    )


def _facts_without_critics(state: RunState, top: Frame, now: datetime) -> Facts | None:
    """Returns the facts for a condition that asks nothing of critics; None if it does, or the loop has some."""
    if top.node is None or needs_judges(state, top.node) or asks_critics(top.node.until) or state.started is None:
        return None
    elapsed, used = (now - state.started).total_seconds(), state.usage
    outputs, values = len(finished_drafts(state, top)), visible_values(state, top)
    approved = None if state.current is None else _approval_of(state, top, state.current, None)
    said = Judgement(0.0, 0, approved, (), scored=False)
    return Facts(said, "", outputs, elapsed, used.tokens, used.cost, (), (), rules=state.rules, values=values)


def _approval_of(state: RunState, top: Frame, draft: Candidate, verdict: bool | None) -> bool | None:
    """Returns whether a draft is approved: False if it is barred; people decide if the loop asks them, else critics."""
    no = verdict is False if state.rules < 2 else bool(why_barred(state, draft))
    if no:
        return False
    if asks_people(top.node):
        return True if state.approved == draft.ref else None
    return verdict or None


def _end_loop(state: RunState, top: Frame, why: Verdict) -> LoopEnded | RunEnded:
    """Returns the end of a loop: the draft that met the condition leaves, else the best one, or the last by `keep`.

    A barred draft never leaves, nor, if people decide, one that they did not approve: then the run ends instead, and so
    it does if the plan says `fail` for this end.
    """
    if why.outcome != "accepted" and (reason := why_nothing_leaves(state, top)):
        return _end_run(state, Verdict("rejected", reason), draft_to_keep(state, top))
    if why.outcome != "accepted" and asks_people(top.node):
        return _end_run(state, why, state.best or state.current)
    best = draft_to_keep(state, top)
    chosen = state.current if why.outcome == "accepted" or best is None else best
    if top.node is not None and ending_of(top.node, why.outcome) == "fail":
        return _end_run(state, why, chosen)
    return _end_loop_with(top, why, chosen)


def _end_loop_with(top: Frame, why: Verdict, chosen: Candidate | None) -> LoopEnded:
    if chosen is None:
        return LoopEnded(top.path, why.outcome, why.reason, top.iteration, DraftRef(0, ""))
    return LoopEnded(top.path, why.outcome, why.reason, top.iteration, chosen.ref, *_score_of(chosen))


def _end_plan(state: RunState) -> RunEnded:
    """Returns the end of the run after its last node: as its last loop ended, but never with a barred draft."""
    why = Verdict(*(state.loop or ("accepted", "every step is done")))
    if why.outcome == "accepted" and failed_a_gate(state.current):
        why = Verdict("rejected", describe_failed_gate(state.current))
    if reason := why_barred(state, state.current):
        why = Verdict("rejected", reason)
    return _end_run(state, why, state.current)


def _end_run(state: RunState, why: Verdict, chosen: Candidate | None) -> RunEnded:
    return RunEnded(why.outcome, why.reason, state.iterations, chosen.ref if chosen else None, *_score_of(chosen))


def _score_of(draft: Candidate | None) -> tuple[float | None, Scale | None]:
    """Returns a draft's score, and the scale on which it is shown; None where there is none."""
    if draft is None or draft.judgement is None or not draft.judgement.scored:
        return None, None
    return draft.judgement.score, draft.judgement.scale


def _end_paused(state: RunState, now: datetime) -> RunEnded | None:
    """Returns the end of a paused run whose wall time is over, without publishing; None while it goes on."""
    failure = state.failure
    if failure is None or failure.outcome != "over_budget" or state.open or time_is_up(state, now) is None:
        return None
    return _end_run(state, Verdict(failure.outcome, failure.reason), state.best or state.current)


def _after_failure(state: RunState, top: Frame, now: datetime) -> DomainEvent | None:
    """Returns the next event after a step failed for good: the run ends, or its best draft goes to publishers."""
    failure = state.failure
    if failure is None or state.open:
        return None
    best = draft_to_salvage(state)
    if best is None or failure.publishing or state.plan.on_failure == "fail":
        return _end_run(state, Verdict(failure.outcome, failure.reason), state.best or state.current)
    if top.node is not None:
        return _end_loop_with(top, Verdict(failure.outcome, failure.reason), left_on_failure(state, top))
    if top.parallel:
        return next_of_parallel(state, top, top.parallel, now)
    return _publish_salvaged(state, top, failure, best, now)


def _publish_salvaged(state: RunState, top: Frame, failure: Failure, best: Candidate, now: datetime) -> DomainEvent:
    """Returns the request to the plan's next publisher; the end of the run when none is left."""
    for node in top.body[top.index :]:
        if is_publisher(node):
            return _enter(state, top, node, now)
    outcome: Outcome = "exhausted" if failure.outcome == "failed" and state.rules < 2 else failure.outcome
    return _end_run(state, Verdict(outcome, f"{failure.reason}; the best draft so far was published"), best)
