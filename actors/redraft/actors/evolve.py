"""How each event changes the state of its run. Pure: recovery folds these, and runs nobody's code again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never

from msgspec.structs import replace

from redraft.actors.approval import expire, requested
from redraft.actors.arms import resolved
from redraft.actors.barred import barred, barring
from redraft.actors.candidates import better, judged_as, judgement_of_draft, remember
from redraft.actors.credit import accepted, took_part
from redraft.actors.fans import candidate_of, member_of, stopped_by_gate, weights_of
from redraft.actors.judgement import join, judgement_of
from redraft.actors.oscillation import noted, watched
from redraft.actors.results import begun_anew, entered, left, outputs, with_result
from redraft.actors.run_state import (
    Candidate,
    Failure,
    Fan,
    Frame,
    OpenStep,
    RunState,
    after_critics,
    closing_body,
    is_critic,
    standing_at,
    wanted,
    with_top,
)
from redraft.actors.spending import largest, told
from redraft.actors.steering import steer
from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    ChoicesCredited,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LimitsChanged,
    LoopClosing,
    LoopEnded,
    PanelClosed,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.plan import Approve, Parallel, Repeat, Step
from redraft.events.rules import known

Answer: TypeAlias = DraftGenerated | DraftRefined | DraftCritiqued | DraftPublished | StepFailed | VerdictLate

LATE: Final = 64
"""How many late verdicts are awaited, the latest; those of others are ignored."""


def fold(events: Iterable[DomainEvent], state: RunState = RunState()) -> RunState:  # noqa: B008 - frozen
    """The state after these events. A run that was set aside is not folded: what its events say may make no sense.

    Raises UnknownRules for a run that began under rules of a later release.
    """
    happened = tuple(events)
    if any(isinstance(event, RunQuarantined) for event in happened):
        return _set_aside(replace(state, version=state.version + len(happened)), happened)
    for event in happened:
        state = evolve(state, event)
    return state


def evolve(state: RunState, event: DomainEvent) -> RunState:
    """The state after this event."""
    state = replace(state, version=state.version + 1)
    match event:
        case RunStarted():
            return _started(state, event)
        case IterationStarted():
            return _iteration_started(state, event)
        case StepRequested():
            return _requested(state, event)
        case DraftGenerated() | DraftRefined():
            return _drafted(state, event)
        case DraftCritiqued():
            return _critiqued(state, event)
        case DraftPublished():
            return _answered(_spent(state, event), event.path)
        case StepFailed():
            return _failed(state, event)
        case LoopClosing():
            return _closing(state, event)
        case LoopEnded():
            return _loop_ended(state, event)
        case PanelClosed():
            top = state.frames[-1]
            return _panel_over(state, top, top.fan) if top.fan else state
        case VerdictLate():
            state = _spent(state, event)
            return replace(state, late={path: each for path, each in state.late.items() if path != event.path})
        case BudgetReached():
            failure = Failure(told(event), outcome="over_budget")
            return with_top(replace(state, open={}, failure=failure), replace(state.frames[-1], fan=None))
        case ChoicesCredited():
            return replace(state, picks=())
        case RunEnded():
            return replace(state, status="ended", open={}, frames=(), approval=None, late={})
        case RunGuided() | LimitsChanged() | RunPaused() | RunResumed() | RunCancelled():
            return steer(state, event)
        case RunErased():
            return replace(state, erased=True)
        case RunQuarantined():
            return _set_aside(state)
        case ApprovalRequested():
            return requested(state, event)
        case ApprovalExpired():
            return expire(state, event)
        case DraftApproved() | DraftRejected() | DraftEdited():
            return steer(state, event)
        case _:
            assert_never(event)


def _set_aside(state: RunState, happened: Iterable[DomainEvent] = ()) -> RunState:
    """The state of a run about which no more is decided, whatever else these events say."""
    for event in happened:
        match event:
            case RunStarted(plan, brief, at):
                state = replace(state, plan=plan, brief=brief, started=at)
            case RunErased():
                state = replace(state, erased=True)
            case _:
                pass
    return replace(state, status="quarantined", open={}, frames=(), approval=None, late={}, picks=(), failure=None)


def _started(state: RunState, event: RunStarted) -> RunState:
    return replace(
        state,
        status="running",
        plan=event.plan,
        brief=event.brief,
        started=event.at,
        frames=(Frame(event.plan.steps),),
        inherited=event.parent.version if event.parent else 0,
        rules=known(event.rules),
    )


def _iteration_started(state: RunState, event: IterationStarted) -> RunState:
    outermost = event.path.count("/") == 0
    state = replace(state, iterations=state.iterations + outermost)
    top = state.frames[-1]
    if event.iteration > 1:
        return with_top(state, replace(top, iteration=event.iteration, index=0, due="nothing"))
    top = standing_at(top, event.path)
    node = top.body[top.index]
    assert isinstance(node, Repeat)  # noqa: S101 - only a loop's event names a loop
    loop = entered(state, Frame(node.body, event.path, node, iteration=1))
    if watched(loop) and state.current:
        loop = noted(loop, state.current.ref, 0)
    top = replace(top, due="nothing", judged=() if top.node is None else top.judged)
    return replace(state, frames=(*state.frames[:-1], top, loop))


def _requested(state: RunState, event: StepRequested) -> RunState:
    top = state.frames[-1]
    known = state.open.get(event.path)
    if known is not None:
        state = replace(state, open={**state.open, event.path: OpenStep(known.step, event)})
        anew = top.fan is not None and top.fan.until is not None and event.attempt == known.attempt
        return with_top(state, replace(top, fan=replace(top.fan, until=event.due))) if top.fan and anew else state
    if not top.fan:
        top = standing_at(top, event.path)
    node = top.fan.node if top.fan else top.body[top.index]
    match node:
        case Parallel():
            fan = top.fan or Fan(node)
            step = node.judge if fan.judging and node.judge else node.steps[min(fan.requested, len(node.steps) - 1)]
            until = fan.until or (event.due if node.deadline else None)
            top = replace(top, fan=replace(fan, requested=fan.requested + 1, until=until), due="nothing")
        case Step():
            step = node
            top = replace(top, due="nothing")
        case Repeat() | Approve():
            return state
        case _:
            assert_never(node)
    asked = OpenStep(step if event.choice is None else resolved(step, event.choice, event.actor), event)
    state = with_top(replace(state, open={**state.open, event.path: asked}), top)
    return begun_anew(state) if step.role == "generator" and state.rules >= 2 else state


def _drafted(state: RunState, event: DraftGenerated | DraftRefined) -> RunState:
    top = state.frames[-1]
    asked = state.open.get(event.path)
    if asked is not None and asked.request.choice is not None:
        state = took_part(state, asked)
    state = _heeded(state, event.path) if state.advice else state
    state = replace(_spent(state, event), drafts=event.draft.version, media_type=event.draft.media_type)
    ref = event.draft.ref
    if top.fan:
        number = len(top.fan.candidates) + 1
        fan = replace(top.fan, candidates=(*top.fan.candidates, ref), answered=(*top.fan.answered, number))
        return _fan_answered(_closed(state, event.path), replace(top, fan=fan))
    unchanged = isinstance(event, DraftRefined) and event.draft.sha256 == event.before.sha256
    judgement = judgement_of_draft(state, event.before) if isinstance(event, DraftRefined) and unchanged else None
    leaving = isinstance(event, DraftRefined) and event.exit
    state = replace(state, current=Candidate(ref, judgement))
    if watched(top):
        top = noted(top, event.draft, event.before.version if isinstance(event, DraftRefined) else 0)
    return _answered(with_top(state, replace(top, heard=(), exit=leaving)), event.path)


def _heeded(state: RunState, path: str) -> RunState:
    """Advice that went with a request is heeded once a draft has come of it."""
    asked = state.open.get(path)
    told = asked.request.advice if asked else ()
    return replace(state, advice=tuple(each for each in state.advice if each not in told)) if told else state


def _critiqued(state: RunState, event: DraftCritiqued) -> RunState:
    top = state.frames[-1]
    state = _spent(state, event)
    asked = state.open.get(event.path)
    if asked is not None and asked.request.choice is not None:
        state = took_part(state, asked)
    judgement = judgement_of(state.version, event.critique, gate=asked is not None and asked.step.gate)
    state = barring(state, event, judgement)
    if top.fan:
        number = candidate_of(top.fan, event) if top.fan.judging else member_of(top.fan, asked) if asked else 0
        fan = replace(top.fan, heard=(*top.fan.heard, (number, judgement)))
        return _fan_answered(_closed(state, event.path), replace(top, fan=fan))
    heard = (*top.heard, judgement)
    top = replace(top, heard=heard, index=after_critics(top.body, top.index, join(heard)))
    return _settled(with_top(_closed(state, event.path), top))


def _settled(state: RunState) -> RunState:
    """Once the last critic in a row has spoken, what they said together becomes the draft's judgement."""
    top = state.frames[-1]
    if state.current is None or (top.index < len(top.body) and is_critic(top.body[top.index])):
        return state
    judged = judged_as(state, state.current.ref, join(top.heard))
    state = replace(state, current=judged, best=better(state, state.best, judged))
    if top.review is not None:
        outer = remember(state, state.frames[-2], judged)
        return replace(state, frames=(*state.frames[:-2], outer))
    return with_top(state, replace(remember(state, top, judged), heard=(), due="judged"))


def _fan_answered(state: RunState, top: Frame) -> RunState:
    """Ends a Parallel node, or goes on to its judge, once enough of its steps have answered."""
    fan = top.fan
    if fan is None:
        return state
    role = fan.node.steps[0].role
    enough = len(fan.node.steps) - fan.failed if fan.node.deadline else wanted(fan.node)
    if fan.judging:
        if len(fan.heard) < len(fan.candidates):
            return with_top(state, top)
        return _fan_judged(state, top, fan)
    if role == "critic" and (len(fan.heard) >= enough or stopped_by_gate(fan)):
        return _panel_over(state, top, fan)
    if role in ("generator", "refiner") and len(fan.candidates) >= enough:
        fan = replace(fan, judging=True, requested=0)
        return with_top(_all_closed(state), replace(top, fan=fan))
    if role == "publisher" and len(fan.answered) >= enough:
        return with_top(_all_closed(state), replace(top, fan=None, index=top.index + 1))
    return with_top(state, top)


def _panel_over(state: RunState, top: Frame, fan: Fan) -> RunState:
    """Joins what the critics of a panel said; critics that have not answered are late from here on."""
    joined = join([each for _, each in fan.heard], fan.node.combine, weights_of(fan))
    top = replace(top, fan=None, heard=(*top.heard, joined), index=after_critics(top.body, top.index, joined))
    if state.open:
        late = {**state.late, **state.open}
        state = replace(state, open={}, late=dict(list(late.items())[-LATE:]))
    return _settled(with_top(state, top))


def _fan_judged(state: RunState, top: Frame, fan: Fan) -> RunState:
    number, judgement = max(
        fan.heard, key=lambda each: (not barred(state, Candidate(fan.candidates[each[0]])), each[1].score, -each[0])
    )
    chosen = judged_as(state, fan.candidates[number], judgement)
    if watched(top):
        refines = fan.node.steps[0].role == "refiner" and state.current is not None
        top = noted(top, chosen.ref, state.current.ref.version if refines and state.current else 0)
    state = replace(state, current=chosen, best=better(state, state.best, chosen))
    top = replace(remember(state, top, chosen), fan=None, heard=(), index=top.index + 1, due="judged")
    return with_top(_all_closed(state), top)


def _answered(state: RunState, path: str) -> RunState:
    state = _closed(state, path)
    top = state.frames[-1]
    if top.fan:
        fan = replace(top.fan, answered=(*top.fan.answered, len(top.fan.answered) + 1))
        return _fan_answered(state, replace(top, fan=fan))
    return with_top(state, replace(top, index=top.index + 1))


def _failed(state: RunState, event: StepFailed) -> RunState:
    state = _spent(state, event)
    known = state.open.get(event.path)
    if known is None:
        return state
    if event.retry_at is not None:
        waiting = replace(known, retry_at=event.retry_at)
        return replace(state, open={**state.open, event.path: waiting})
    if known.request.choice is not None:
        state = took_part(state, known, failed=True)
    state = _closed(state, event.path)
    fan = state.frames[-1].fan
    if fan and not fan.judging and len(fan.node.steps) - fan.failed - 1 >= wanted(fan.node):
        top = replace(state.frames[-1], fan=replace(fan, failed=fan.failed + 1))
        return _fan_answered(state, top) if fan.node.deadline else with_top(state, top)
    reason = f"{event.path} failed for good: {event.message}"
    failure = Failure(reason, publishing=known.step.role == "publisher")
    state = replace(state, open={}, failure=failure if failure.publishing else state.failure or failure)
    return with_top(state, replace(state.frames[-1], fan=None))


def _closing(state: RunState, event: LoopClosing) -> RunState:
    top = state.frames[-1]
    body = closing_body(top.node) if top.node else ()
    closing = (event.outcome, event.reason)
    return with_top(state, replace(top, body=body, index=0, closing=closing, due="nothing", exit=False))


def _loop_ended(state: RunState, event: LoopEnded) -> RunState:
    leaving, outer = state.frames[-1], state.frames[-2]
    chosen = left(state, leaving, event)
    if state.picks and event.outcome == "accepted":
        state = accepted(state, chosen)
    outer = replace(
        outer,
        index=outer.index + 1,
        outputs=outputs(state, leaving, outer, event),
        due="output" if outer.node else "nothing",
        heard=(),
    )
    if state.rules >= 2:
        outer = with_result(outer, chosen)
    loop = (event.outcome, event.reason) if outer.node is None else state.loop
    return replace(state, frames=(*state.frames[:-2], outer), open={}, current=chosen, loop=loop)


def _spent(state: RunState, event: Answer) -> RunState:
    if event.usage.is_nothing:
        return state
    state = replace(state, usage=state.usage + event.usage)
    asked = state.open.get(event.path) or state.late.get(event.path)
    if asked is None or (state.plan.budget is None and state.plan.daily is None):
        return state
    who = f"{asked.step.role} {asked.step.actor}"
    return replace(state, used={**state.used, who: largest(state.used.get(who), event.usage)})


def _closed(state: RunState, path: str) -> RunState:
    return replace(state, open={each: step for each, step in state.open.items() if each != path})


def _all_closed(state: RunState) -> RunState:
    return replace(state, open={}) if state.open else state
