"""How a run begins that goes on from a point of another's history. Pure, as all of deciding is.

A fork's events are: that it began, naming its parent; the parent's events up to that point once more, each naming the
one it repeats; what its own plan says otherwise than the parent's at that point; and what is asked for, with that which
had no answer yet asked for again. Nothing that was answered is done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from redraft.actors.arms import Choose, first_arm
from redraft.actors.decider import Decision
from redraft.actors.evolve import evolve, fold
from redraft.actors.interpreter import GRACE, next_event
from redraft.actors.plan_paths import mapped
from redraft.actors.run_state import OpenStep, RunState
from redraft.actors.spending import NOTHING, ends_at
from redraft.events.commands import StartRun
from redraft.events.conditions import Approved
from redraft.events.domain_events import DomainEvent, LimitsChanged, RunResumed, RunStarted, StepRequested
from redraft.events.envelope import Recorded
from redraft.events.plan import Node, Plan, Repeat, Retry, Step, loops_of
from redraft.events.rules import RULES
from redraft.events.texts import ERASED
from redraft.events.usage import Usage

BY = "fork"
"""Who changes limits, or resumes, where a fork is begun with them."""


def forked(
    start: StartRun,
    past: Sequence[Recorded],
    now: datetime,
    others: Usage = NOTHING,
    choose: Choose = first_arm,
) -> Decision:
    """Returns the events that a fork begins with, and its state; `past` are its parent's events, all that it repeats.

    It follows the rules of its parent. `elapsed` goes on from where it stood: what lies between the parent's last event
    and now is not counted.
    `others` is what other runs used of a daily budget; `choose` says who does a step that chooses.
    """
    begun = past[0].data
    stood = past[-1].time - begun.at if isinstance(begun, RunStarted) else timedelta()
    rules = begun.rules if isinstance(begun, RunStarted) else RULES
    first = RunStarted(start.plan, start.brief, now - stood, start.key, start.tags, start.parent, rules)
    events: list[DomainEvent] = [first, *(event.data for event in past[1:])]
    state = fold(events)
    for event in _going_on(state, start.plan, now):
        events.append(event)
        state = evolve(state, event)
    while (following := next_event(state, now, others, choose)) is not None:
        events.append(following)
        state = evolve(state, following)
    return Decision(tuple(events), state)


def unfit(start: StartRun, past: Sequence[Recorded]) -> str:
    """Why a fork cannot begin like this, in a sentence; empty when it can."""
    parent = start.parent
    if parent is None or not past or past[-1].version != parent.version or not isinstance(past[0].data, RunStarted):
        return f"there is no event {parent.version} of run {parent.run} to fork at" if parent else "it has no parent"
    if past[0].data.brief.text == ERASED:
        return f"run {parent.run} was erased"
    if shape(start.plan) != shape(fold(event.data for event in past).plan):
        return f"its plan has other steps than run {parent.run}; change only when loops end and how steps are done"
    return ""


def shape(plan: Plan) -> Plan:
    """A plan without what a fork may change: when its loops end and what they keep, and how its steps are done."""
    return Plan("", tuple(_shape(node) for node in mapped(plan.steps, _place)))


def _place(path: str, step: Step) -> Step:
    """A step without how it is done."""
    return replace(step, actor="", timeout=1.0, retry=Retry(), options={}, version="", choose=(), queue_wait=None)


def _shape(node: Node) -> Node:
    if not isinstance(node, Repeat):
        return node
    body = tuple(_shape(each) for each in node.body)
    return replace(node, until=Approved(), max_iterations=1, keep="best", rollback_margin=0.0, body=body)


def _going_on(state: RunState, plan: Plan, now: datetime) -> Iterator[DomainEvent]:
    """What the fork does otherwise, and what was asked for and not answered, asked again."""
    if state.status != "running":
        return
    wanted = dict(loops_of(plan.steps))
    for path, loop in loops_of(state.plan.steps):
        other = wanted[path]
        if (other.until, other.max_iterations) != (loop.until, loop.max_iterations):
            yield LimitsChanged(path, BY, other.until, other.max_iterations, "as the fork was begun")
    if state.paused:
        yield RunResumed(BY, "a fork goes on")
    if state.approval is not None:
        yield replace(state.approval.request, due=now + timedelta(seconds=state.approval.node.deadline))
    for step in state.open.values():
        if step.retry_at is None:
            yield _again(state, step, now)


def _again(state: RunState, step: OpenStep, now: datetime) -> StepRequested:
    """The same request, due anew; the panel that it belongs to waits its whole time again."""
    due = ends_at(state, now + timedelta(seconds=step.step.timeout) + GRACE)
    panel = state.frames[-1].fan
    if panel is not None and panel.node.deadline is not None:
        due = min(due, now + timedelta(seconds=panel.node.deadline))
    return replace(step.request, actor=step.step.actor, due=due, queue_wait=step.step.queue_wait)
