"""Begins a run that continues from a point in another run's history. Pure.

The events of a fork are: its start, which names its parent; the parent's events up to that point once more, each naming
the one that it repeats; the changes of its own plan; and its requests, the unanswered ones of the parent first. Nothing
that was answered is done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from redraft.actors.deciding.budget import NOTHING, ends_at
from redraft.actors.deciding.decider import Decision, continue_from
from redraft.actors.deciding.evolve import evolve, fold
from redraft.actors.deciding.interpreter import next_event
from redraft.actors.deciding.requests import longest_wait
from redraft.actors.deciding.reusing import Memory, Recall, recall_nothing, verdict_again, with_key, with_reuse
from redraft.actors.deciding.state import OpenStep, RunState
from redraft.actors.plans.arms import Choose, first_arm
from redraft.actors.plans.check_state import values_misfit
from redraft.actors.plans.endings import ASK, may_ask
from redraft.actors.plans.paths import map_nodes, step_key
from redraft.events.messages.commands import StartRun
from redraft.events.messages.conditions import Approved
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DomainEvent,
    LimitsChanged,
    RunResumed,
    RunStarted,
    StateChanged,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import RULES, Node, Plan, Repeat, Retry, Step, loops_of
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.run_state import size_fault
from redraft.events.messages.usage import Usage

BY = "fork"
"""The author of changed limits and resumption at the start of a fork."""


def begin_fork(
    start: StartRun,
    past: Sequence[Recorded],
    now: datetime,
    others: Usage = NOTHING,
    choose: Choose = first_arm,
    recall: Recall = recall_nothing,
) -> Decision:
    """Returns the events that a fork begins with, and its state; `past` are its parent's events, all that it repeats.

    The fork follows the rules of its parent, and has its lessons. `elapsed` continues from the parent's last event: the
    time since then is not counted. `others` is what other runs used of a daily budget; `choose` chooses the actor of a
    step that has several; `recall` has the verdicts of other runs.
    """
    begun = past[0].data
    elapsed = past[-1].time - begun.at if isinstance(begun, RunStarted) else timedelta()
    rules = begun.rules if isinstance(begun, RunStarted) else RULES
    lessons = begun.lessons if isinstance(begun, RunStarted) else None
    given = (start.key, start.tags, start.parent, rules, start.files, lessons)
    first = RunStarted(start.plan, start.brief, now - elapsed, *given)
    events: list[DomainEvent] = [first, *(event.data for event in past[1:])]
    state, memory = fold(events), Memory(start.run, recall)
    for event in _changes_and_repeats(state, start, now, memory):
        events.append(event)
        state = evolve(state, event)
    known = _taken_again(state, memory)
    rest = continue_from(known.state, next_event(known.state, now, others, choose, memory), now, others, choose, memory)
    return Decision((*events, *known.events, *rest.events), rest.state)


def _taken_again(state: RunState, memory: Memory) -> Decision:
    """Returns the verdicts that open requests take again; a panel that one of them ends awaits none of the others."""
    events: list[DomainEvent] = []
    for path in tuple(state.open):
        verdict = verdict_again(state, state.open[path].request, memory) if path in state.open else None
        if verdict is not None:
            events.append(verdict)
            state = evolve(state, verdict)
    return Decision(tuple(events), state)


def why_unfit(start: StartRun, past: Sequence[Recorded]) -> str:
    """Returns why a fork cannot begin like this, in a sentence; empty when it can."""
    parent = start.parent
    if parent is None or not past or past[-1].version != parent.version or not isinstance(past[0].data, RunStarted):
        return f"there is no event {parent.version} of run {parent.run} to fork at" if parent else "it has no parent"
    if past[0].data.brief.text == ERASED:
        return f"run {parent.run} was erased"
    before, after = shape(fold(event.data for event in past).plan), shape(start.plan)
    if before.steps != after.steps:
        return f"its plan has other steps than run {parent.run}; change only when loops end and how steps are done"
    if before.state != after.state:
        return f"its plan has another state than run {parent.run}; change values, not what the plan says of it"
    return _why_unasked(start.plan, past) or _why_values_unfit(start, past)


def _why_unasked(plan: Plan, past: Sequence[Recorded]) -> str:
    """Returns which question at a loop's end, that a fork repeats, its plan does not ask; empty if it asks all."""
    asking = {f"{path}[{(loop.ask or ASK).name}]" for path, loop in loops_of(plan.steps) if may_ask(loop)}
    for event in past:
        if isinstance(event.data, ApprovalRequested) and event.data.path.endswith("]"):
            outer, _, question = event.data.path.rpartition("/")
            if (f"{step_key(outer)}/{question}" if outer else question) not in asking:
                return f"people were asked at {event.data.path}, and its plan asks nobody there; fork earlier"
    return ""


def _why_values_unfit(start: StartRun, past: Sequence[Recorded]) -> str:
    """Returns why the state of a run cannot be changed so by its fork; empty when it can."""
    if not start.state:
        return ""
    fault = values_misfit(start.plan.state, start.state)
    return fault or size_fault({**fold(event.data for event in past).values, **start.state})


def shape(plan: Plan) -> Plan:
    """Returns a plan without the parts that a fork may change: when loops end, what they keep, how steps are done."""
    return Plan("", map_nodes(plan.steps, _shape), state=plan.state)


def _shape(path: str, node: Node) -> Node:
    match node:
        case Step():
            node = replace(node, actor="", timeout=1.0, retry=Retry(), options={}, version="", choose=())
            # what is counted, and what is written, hangs on actor and options
            node = replace(node, queue_wait=None, measures=(), reuse=None, writes=(), about_run=False)
            return replace(node, history=None, only_issues=False, when=None if node.when is None else Approved())
        case Repeat():
            node = replace(node, until=Approved(), max_iterations=1, keep="best")
            node = replace(node, on_exhausted="publish", on_plateau="publish", ask=None)
            return replace(node, rollback_margin=0.0, rollback_top=None, rollback_of="")
        case _:
            return node


def _changes_and_repeats(state: RunState, start: StartRun, now: datetime, memory: Memory) -> Iterator[DomainEvent]:
    """Yields the changes of the fork's state and plan, and the unanswered requests of its parent again."""
    if state.status != "running":
        return
    if start.state:
        yield StateChanged("", 0, start.state, by=start.by or BY)
        state = replace(state, values={**state.values, **start.state})
    loops = dict(loops_of(start.plan.steps))
    for path, loop in loops_of(state.plan.steps):
        other = loops[path]
        if (other.until, other.max_iterations) != (loop.until, loop.max_iterations):
            yield LimitsChanged(path, BY, other.until, other.max_iterations, "as the fork was begun")
    if state.paused:
        yield RunResumed(BY, "a fork goes on")
    if state.approval is not None:
        yield replace(state.approval.request, due=now + timedelta(seconds=state.approval.node.deadline))
    for step in state.open.values():
        if step.retry_at is None:
            yield _request_again(state, step, now, memory)


def _request_again(state: RunState, step: OpenStep, now: datetime, memory: Memory) -> StepRequested:
    """Returns the same request with a new due time; its panel waits its whole time again."""
    due = ends_at(state, now + longest_wait(step.step))
    panel = state.frames[-1].parallel
    if panel is not None and panel.node.deadline is not None:
        due = min(due, now + timedelta(seconds=panel.node.deadline))
    again = replace(step.request, actor=step.step.actor, due=due, queue_wait=step.step.queue_wait)
    again = replace(again, verdict_key="", reused=None)
    return again if step.step.reuse is None else with_reuse(state, with_key(state, step.step, again), memory)
