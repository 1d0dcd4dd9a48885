"""Applies events to the state of their run. Pure: recovery folds events, and calls no actor again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from msgspec.structs import replace

from redraft.actors.deciding.budget import add_usage, describe_reached
from redraft.actors.deciding.candidates import (
    add_bars,
    better_of,
    end_loop,
    forget_older_drafts,
    judgement_of_draft,
    remember,
    why_barred,
    with_judgement,
)
from redraft.actors.deciding.closing import begin_closing
from redraft.actors.deciding.credit import record_pick
from redraft.actors.deciding.declared import judgement_of
from redraft.actors.deciding.excusing import excuse, is_excused, with_other_draft
from redraft.actors.deciding.items import end_item, enter_item
from redraft.actors.deciding.iterations import begin_iteration
from redraft.actors.deciding.judgement import join, join_panel
from redraft.actors.deciding.policy import looks_for_oscillation, with_made_draft
from redraft.actors.deciding.reusing import keep_verdict
from redraft.actors.deciding.rows import pass_step, settle_judgement
from redraft.actors.deciding.run_values import (
    Changing,
    check_again,
    first_values,
    follow_loop,
    may_change,
    with_changes,
)
from redraft.actors.deciding.set_aside import is_erased, set_aside
from redraft.actors.deciding.skipping import note_skipped
from redraft.actors.deciding.state import (
    CRITICS_DECIDE,
    Candidate,
    Failure,
    Frame,
    OpenStep,
    ParallelState,
    RunState,
    after_critics,
    close_all,
    close_step,
    counts_for,
    frame_at,
    needs_judges,
    number_of,
    stopped_by_gate,
    weights_of,
    with_top,
    without,
)
from redraft.actors.deciding.steering import expire, request_approval, steer
from redraft.actors.plans.arms import resolve_arm
from redraft.actors.plans.endings import with_questions
from redraft.actors.plans.paths import has_critics, required_answers
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    ChoicesCredited,
    CriticSkipped,
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    IterationStarted,
    LessonStruck,
    LoopClosing,
    LoopEnded,
    PanelClosed,
    RunEnded,
    RunErased,
    RunQuarantined,
    RunStarted,
    StateChanged,
    Steered,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.plan import Parallel, Step, known
from redraft.events.messages.redaction import ERASED

MAX_LATE: Final = 64
"""The number of late verdicts that are awaited, the latest; others are ignored."""


def fold(events: Iterable[DomainEvent], state: RunState = RunState()) -> RunState:  # noqa: B008 - frozen
    """Returns the state after these events. A run that was set aside is not folded, as its events may be inconsistent,
    nor one that was erased, as what they say is gone.

    Raises UnknownRules for a run that began under rules of a later release.
    """
    happened = tuple(events)
    if any(isinstance(event, RunQuarantined) for event in happened):
        return set_aside(replace(state, version=state.version + len(happened)), happened)
    if is_erased(happened):
        return replace(set_aside(replace(state, version=state.version + len(happened)), happened), status="ended")
    for event in happened:
        state = evolve(state, event)
    return state


def evolve(state: RunState, event: DomainEvent) -> RunState:
    """Returns the state after this event."""
    state = replace(state, version=state.version + 1)
    match event:  # the most frequent first: a class of msgspec's takes ten times as long to say no as to say yes
        case StepRequested():
            return _apply_request(state, event)
        case IterationStarted():
            return begin_iteration(state, event)
        case DraftCritiqued() | DraftRefined() | DraftGenerated() | DraftPublished() | StateChanged():
            return _apply_changes(state, event) if may_change(state, event) else _apply_answer(state, event)
        case RunStarted():
            return _apply_start(state, event)
        case StepFailed():
            return _apply_failure(state, event)
        case LoopClosing():
            return begin_closing(state, event)
        case LoopEnded():
            return follow_loop(end_loop(state, event), state.frames[-1])
        case CriticSkipped():
            return _apply_skip(state)
        case PanelClosed():
            top = state.frames[-1]
            return _close_panel(state, top, top.parallel) if top.parallel else state
        case VerdictLate():
            state = add_usage(state, event)
            return replace(state, late={path: each for path, each in state.late.items() if path != event.path})
        case BudgetReached():
            failure = Failure(describe_reached(event), outcome="over_budget")
            top = replace(state.frames[-1], parallel=None, each=None)
            return with_top(replace(state, open={}, failure=failure), top)
        case ChoicesCredited():
            return replace(state, picks=())
        case RunEnded():
            return replace(state, status="ended", open={}, frames=(), approval=None, late={})
        case RunErased():
            return replace(state, erased=True)
        case LessonStruck(lesson=lesson, withdrawn=back):
            return replace(state, struck=state.struck - {lesson} if back else state.struck | {lesson})
        case RunQuarantined():
            return set_aside(state)
        case ApprovalRequested():
            return request_approval(state, event)
        case ApprovalExpired():
            return expire(state, event)
        case _ if isinstance(event, Steered):
            return steer(state, event)
        case _:
            assert_never(event)


def _apply_start(state: RunState, event: RunStarted) -> RunState:
    return replace(
        state,
        status="running",
        plan=event.plan,
        brief=event.brief,
        started=event.at,
        frames=(Frame(with_questions(event.plan.steps)),),
        inherited=event.parent.version if event.parent else 0,
        rules=known(event.rules),
        values=first_values(event.plan, event.brief),
        of=event.of,
    )


def _apply_request(state: RunState, event: StepRequested) -> RunState:
    known = state.open.get(event.path)
    if known is not None:
        return _apply_repeated_request(state, event, known)
    top = state.frames[-1]
    if not top.parallel:
        top = frame_at(top, event.path)
    node = top.parallel.node if top.parallel else top.body[top.index]
    if event.role == "run":
        if (entered := enter_item(state, event)) is None:
            return state
        step, top = entered
    elif isinstance(node, Step):
        step, top = node, replace(top, due="nothing")
    elif isinstance(node, Parallel):
        step, top = _request_in_parallel(top, node, event)
    else:
        return state
    opened = OpenStep(step if event.choice is None else resolve_arm(step, event.choice, event.actor), event)
    state = replace(state, open={**state.open, event.path: opened}, frames=(*state.frames[:-1], top))
    return forget_older_drafts(state) if step.role == "generator" and state.rules >= 2 else state


def _apply_repeated_request(state: RunState, event: StepRequested, known: OpenStep) -> RunState:
    """Returns the state after a retry, or after a fork repeats an open request, which restarts its panel's deadline."""
    state = replace(state, open={**state.open, event.path: OpenStep(known.step, event)})
    top = state.frames[-1]
    if top.parallel is None or top.parallel.until is None or event.attempt != known.attempt:
        return state
    return with_top(state, replace(top, parallel=replace(top.parallel, until=event.due)))


def _request_in_parallel(top: Frame, node: Parallel, event: StepRequested) -> tuple[Step, Frame]:
    """Returns the step of a Parallel node that is requested, a member or its judge, and the frame after that."""
    parallel = top.parallel or ParallelState(node)
    member = node.steps[min(parallel.requested, len(node.steps) - 1)]
    step = node.judge if parallel.judging and node.judge else member
    until = parallel.until or (event.due if node.deadline else None)
    parallel = replace(parallel, requested=parallel.requested + 1, until=until)
    return step, replace(top, parallel=parallel, due="nothing")


def _apply_changes(state: RunState, event: Changing) -> RunState:
    """Returns the state after an answer that may have changed its values, or after a fork's own change of them."""
    state = with_changes(state, event)
    if not event.path:
        return state
    state = _apply_answer(state, event)
    return check_again(state) if event.state else state


def _apply_answer(state: RunState, event: Changing) -> RunState:
    match event:
        case DraftCritiqued():
            return _apply_critique(state, event)
        case DraftRefined() | DraftGenerated():
            return _apply_draft(state, event)
        case DraftPublished():
            return _answer_step(add_usage(state, event), event.path)
        case StateChanged():
            return _apply_step(add_usage(state, event), event)
        case _:
            assert_never(event)


def _apply_step(state: RunState, event: StateChanged) -> RunState:
    """Returns the state after a free step answered: its place in a parallel, or the next place, is reached."""
    together = state.frames[-1].parallel is not None
    return _answer_step(state, event.path) if together else pass_step(close_step(state, event.path))


def _apply_draft(state: RunState, event: DraftGenerated | DraftRefined) -> RunState:
    top = state.frames[-1]
    open_step = state.open.get(event.path)
    if open_step is not None and open_step.request.choice is not None:
        state = record_pick(state, open_step)
    if open_step is not None and open_step.request.advice:
        heeded = open_step.request.advice
        state = replace(state, advice=tuple(each for each in state.advice if each not in heeded))
    state = replace(add_usage(state, event), drafts=event.draft.version, media_type=event.draft.media_type)
    ref = event.draft.ref
    if top.each is not None and isinstance(event, DraftGenerated):
        return end_item(state, top, top.each, event)
    if top.parallel:
        parallel = replace(top.parallel, candidates=(*top.parallel.candidates, ref))
        return _advance_parallel(close_step(state, event.path), replace(top, parallel=parallel))
    before = event.before if isinstance(event, DraftRefined) else None
    is_same = before is not None and before.sha256 == ref.sha256 != ERASED  # what was erased may have been any text
    judgement = judgement_of_draft(state, before) if before and is_same and counts_for(state, top, before) else None
    leaving = isinstance(event, DraftRefined) and event.exit
    state = replace(with_other_draft(state), current=Candidate(ref, judgement))
    if looks_for_oscillation(top):
        top = with_made_draft(top, event.draft, before.version if before else 0)
    state = _answer_step(with_top(state, replace(top, verdicts=(), exit=leaving)), event.path)
    return state if top.node is None or needs_judges(state, top.node) else check_again(state)


def _apply_critique(state: RunState, event: DraftCritiqued) -> RunState:
    top = state.frames[-1]
    state = add_usage(state, event)
    open_step = state.open.get(event.path)
    if open_step is not None and open_step.request.choice is not None:
        state = record_pick(state, open_step)
    if open_step is not None and open_step.request.verdict_key:
        state = keep_verdict(state, event, open_step.request)
    step = open_step.step if open_step is not None else None
    gate = step is not None and step.gate
    judgement = judgement_of(state.version, event.critique, gate=gate, scored=state.rules < 3, step=step)
    state = add_bars(state, event, judgement)
    if top.parallel:
        said = (number_of(top.parallel, event, open_step), judgement)
        parallel = replace(top.parallel, verdicts=(*top.parallel.verdicts, said))
        return _advance_parallel(close_step(state, event.path), replace(top, parallel=parallel))
    verdicts = (*top.verdicts, judgement)
    top = replace(top, verdicts=verdicts, index=after_critics(top.body, top.index, join(verdicts)))
    frames = (*state.frames[:-1], top)
    return settle_judgement(replace(state, open=without(state.open, event.path), frames=frames))


def _apply_skip(state: RunState) -> RunState:
    state, top = note_skipped(state, state.frames[-1])
    return settle_judgement(state) if top.parallel is None else _advance_parallel(state, top)


def _advance_parallel(state: RunState, top: Frame) -> RunState:
    """Ends a Parallel node, or goes on to its judge, once enough of its steps have answered."""
    parallel = top.parallel
    if parallel is None:
        return state
    if parallel.judging:
        all_judged = len(parallel.verdicts) >= len(parallel.candidates)
        return _choose_candidate(state, top, parallel) if all_judged else with_top(state, top)
    role = parallel.node.steps[0].role
    enough = len(parallel.node.steps) - parallel.failed if parallel.node.deadline else required_answers(parallel.node)
    enough -= parallel.skipped
    if role == "critic" and (len(parallel.verdicts) >= enough or stopped_by_gate(parallel)):
        return _close_panel(state, top, parallel)
    if role in ("generator", "refiner") and len(parallel.candidates) >= enough:
        parallel = replace(parallel, judging=True, requested=0, wrote={})
        return with_top(close_all(state), replace(top, parallel=parallel))
    if role == "publisher" and parallel.answered >= enough:
        return with_top(close_all(state), replace(top, parallel=None, index=top.index + 1))
    if role == "step" and parallel.answered >= enough:
        return pass_step(with_top(close_all(state), top))
    return with_top(state, top)


def _close_panel(state: RunState, top: Frame, parallel: ParallelState) -> RunState:
    """Joins the critiques of a panel; critics that have not answered are late from here on."""
    said = [each for _, each in parallel.verdicts]
    joined = join_panel(said, parallel.node.combine, weights_of(parallel), state.rules)
    top = replace(
        top, parallel=None, verdicts=(*top.verdicts, joined), index=after_critics(top.body, top.index, joined)
    )
    if state.open:
        late = {**state.late, **state.open}
        state = replace(state, open={}, late=dict(list(late.items())[-MAX_LATE:]))
    return settle_judgement(with_top(state, top))


def _choose_candidate(state: RunState, top: Frame, parallel: ParallelState) -> RunState:
    number, judgement = max(
        parallel.verdicts,
        key=lambda each: (
            not why_barred(state, Candidate(parallel.candidates[each[0]])),
            each[1].score,
            each[0] if state.rules >= 3 else -each[0],
        ),
    )
    chosen = with_judgement(state, parallel.candidates[number], judgement)
    if looks_for_oscillation(top):
        refines = parallel.node.steps[0].role == "refiner" and state.current is not None
        top = with_made_draft(top, chosen.ref, state.current.ref.version if refines and state.current else 0)
    state = replace(with_other_draft(state), current=chosen, best=better_of(state, state.best, chosen))
    if state.rules >= CRITICS_DECIDE and top.node is not None and has_critics(top.node):
        top = replace(top, parallel=None, verdicts=(), index=top.index + 1, due="output")
    else:
        top = replace(remember(state, top, chosen), parallel=None, verdicts=(), index=top.index + 1, due="judged")
    return with_top(close_all(state), top)


def _answer_step(state: RunState, path: str) -> RunState:
    top = state.frames[-1]
    if top.parallel:
        parallel = replace(top.parallel, answered=top.parallel.answered + 1)
        return _advance_parallel(close_step(state, path), replace(top, parallel=parallel))
    frames = (*state.frames[:-1], replace(top, index=top.index + 1))
    return replace(state, open=without(state.open, path), frames=frames)


def _apply_failure(state: RunState, event: StepFailed) -> RunState:
    state = add_usage(state, event)
    known = state.open.get(event.path)
    if known is None:
        return state
    if event.retry_at is not None:
        waiting = replace(known, retry_at=event.retry_at)
        return replace(state, open={**state.open, event.path: waiting})
    if known.request.choice is not None:
        state = record_pick(state, known, failed=True)
    return _fail_for_good(close_step(state, event.path), event, known)


def _fail_for_good(state: RunState, event: StepFailed, known: OpenStep) -> RunState:
    """Returns the state of a run that cannot go on, or goes on without one step of a Parallel node."""
    parallel = state.frames[-1].parallel
    if (
        parallel
        and not parallel.judging
        and len(parallel.node.steps) - parallel.failed - 1 >= required_answers(parallel.node)
    ):
        top = replace(state.frames[-1], parallel=replace(parallel, failed=parallel.failed + 1))
        return _advance_parallel(state, top) if parallel.node.deadline else with_top(state, top)
    if is_excused(state, event, known):
        return excuse(state)
    reason = f"{event.path} failed for good: {event.message}"
    failure = Failure(reason, publishing=known.step.role == "publisher")
    state = replace(state, open={}, failure=failure if failure.publishing else state.failure or failure)
    return with_top(state, replace(state.frames[-1], parallel=None, each=None))
