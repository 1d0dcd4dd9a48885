"""Steering of a running run by people: advice, limits, pauses, approvals, edits, cancellation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, assert_never

from msgspec.structs import replace

from redraft.actors.deciding.candidates import overruled, rejected
from redraft.actors.deciding.policy import with_limits, with_plan
from redraft.actors.deciding.state import (
    EDITS_ARE_OUTPUTS,
    INNER_LOOPS_FIRST,
    Approval,
    Candidate,
    Due,
    Frame,
    RunState,
    frame_at,
    needs_judges,
    prefix,
    with_top,
)
from redraft.actors.plans.endings import is_question
from redraft.actors.plans.paths import (
    closing_body,
    find_loop,
    has_critics,
    is_critic,
    judges_itself,
    steps_right_before,
)
from redraft.events.errors import ContentError, PlanError
from redraft.events.messages.commands import (
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
from redraft.events.messages.content import MAX_DRAFT_BYTES, DraftRef, new_draft
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
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
from redraft.events.messages.plan import Approve, Node, Repeat, loops_of, steps_of

PersonsDecision: TypeAlias = ApproveDraft | RejectDraft | EditDraft


def _is_enough(state: RunState) -> bool:
    return state.approval is not None and len(state.approval.by) + 1 >= state.approval.node.quorum


def why_void(state: RunState, message: PersonsDecision, limit: int) -> str:
    """Returns why a person's decision has no effect now, and the remedy; empty when it counts."""
    if isinstance(message, EditDraft):
        return _fault_of_edit(state, message, limit)
    waiting = state.approval
    if waiting is None:
        return "nobody is asked to decide on a draft now"
    asked, step = waiting.request.draft.version, waiting.request.path
    if message.draft != waiting.request.draft:
        return f"draft {message.draft.version} is not waited for; draft {asked} is"
    if message.step and message.step != step:
        return f"{message.step} asks no more; {step} does, also about draft {asked}"
    if not message.step and state.approved == message.draft:
        return f"draft {asked} was approved before, and {step} asks about it, too; name this step"
    if told := not_asked(waiting, message.by):
        return told
    if isinstance(message, ApproveDraft) and message.by in waiting.by:
        return f"{message.by} has approved it already; {waiting.node.quorum} people have to"
    return ""


def not_asked(waiting: Approval, by: str) -> str:
    """Returns who is asked to decide, where this person is not; else nothing."""
    asked = waiting.node.approvers
    return f"{by} is not asked; it is for {', '.join(asked)} to decide" if asked and by not in asked else ""


def _fault_of_edit(state: RunState, message: EditDraft, limit: int) -> str:
    current = state.current
    if current is None or state.failure or not 1 <= message.before.version <= state.drafts:
        return "there is no draft yet that could be edited"
    if message.latest and message.before.version not in (current.ref.version, state.drafts):
        return f"draft {state.drafts} was made after draft {message.before.version}; look at it, and edit that one"
    try:
        made = new_draft(state.drafts + 1, message.text, state.media_type, limit)
    except ContentError as error:
        return str(error)
    if made.sha256 == current.ref.sha256:
        return f"the text is that of draft {current.ref.version}; change it first"
    top = state.frames[-1]
    if top.each is not None:
        return f"runs of the items of {top.each.node.name} are under way; edit the draft of one of these"
    if state.approval and state.rules >= INNER_LOOPS_FIRST and not _can_review(top.body[: top.index]):
        return "not all who judged this draft would judge an edit of it here; reject it with feedback instead"
    fits = _review(state, top) is not None if state.approval else top.node is not None and not top.closing
    if not fits:
        return "an edit is taken up in a loop, or while people are asked to approve; it is neither now"
    if not state.approval and top.node is not None and _judges_no_single_draft(state, top.node):
        return f"no critic in {top.node.name} itself would judge it; edit a draft {_where_judged(top.node)}"
    return ""


def _judges_no_single_draft(state: RunState, loop: Repeat) -> bool:
    """Returns whether a person's draft could leave a loop unjudged though its other drafts are judged.

    So it is where only loops inside it have critics, or a judge that compares several drafts is all that it has.
    """
    inside = [each for _, each in loops_of(loop.body)]
    return not has_critics(loop) and (needs_judges(state, loop) or any(map(judges_itself, inside)))


def _where_judged(loop: Repeat) -> str:
    """Returns when a person's draft would be judged, in a loop without critics of its own."""
    names = [each.name for _, each in loops_of(loop.body) if has_critics(each)]
    return f"while {' or '.join(names)} has it, or once people are asked" if names else "once people are asked"


def request_approval(state: RunState, event: ApprovalRequested) -> RunState:
    """Returns the state in which people are asked to decide."""
    top = state.frames[-1]
    top = frame_at(top, event.path)
    node = top.body[top.index]
    assert isinstance(node, Approve)  # noqa: S101 - only such a node's event asks people
    return with_top(replace(state, approval=Approval(node, event)), replace(top, due="nothing"))


def approve(state: RunState, event: DraftApproved) -> RunState:
    """Returns the state after one more person approved."""
    waiting = state.approval
    if waiting is None:
        return state
    if event.granted:
        return _grant(overruled(state, event.draft), event.draft, by_people=True)
    return replace(state, approval=replace(waiting, by=(*waiting.by, event.by)))


def expire(state: RunState, event: ApprovalExpired) -> RunState:
    """Returns the state after an approval's deadline passed without a decision."""
    what = f"nobody decided on draft {event.draft.version} in time"
    match event.then:
        case "approve":
            return _grant(state, event.draft, by_people=state.rules < 2)
        case "reject":
            return _refuse(state, event.draft, what)
        case "fail":
            return replace(state, approval=None, refused=("failed", f"{event.path}: {what}"))
        case _:
            assert_never(event.then)


def reject(state: RunState, event: DraftRejected) -> RunState:
    """Returns the state after a person rejected the draft; the reason is advice for the next refinement."""
    reason = f": {event.reason}" if event.reason.strip() else ""
    state = _refuse(state, event.draft, f"{event.by} rejected draft {event.draft.version}{reason}")
    return replace(state, advice=(*state.advice, state.version)) if reason else state


def edit(state: RunState, event: DraftEdited) -> RunState:
    """Returns the state with a person's draft as the current one.

    Critics judge it at once while people are asked to approve, else in the next iteration. By rules 9, while they
    are asked, it also replaces the draft that it was made from among the finished drafts of loops.
    """
    top = replace(state.frames[-1], parallel=None, verdicts=(), due="nothing", exit=False)
    number = state.edits + 1
    review = _review(state, top) if state.approval else None
    frames = (*state.frames[:-1], top if review else replace(top, index=len(top.body)), *([review] if review else ()))
    if state.approval and state.rules >= EDITS_ARE_OUTPUTS:
        frames = tuple(_with_output(each, event.before, event.draft.ref) for each in frames)
    return replace(
        state,
        drafts=event.draft.version,
        current=Candidate(event.draft.ref),
        untold=(),
        open={},
        approval=None,
        frames=frames,
        edits=number,
    )


def _with_output(frame: Frame, before: DraftRef, made: DraftRef) -> Frame:
    """Returns the loop with `made` in place of `before` among its finished drafts."""
    if before not in frame.outputs:
        return frame
    return replace(frame, outputs=tuple([made if each == before else each for each in frame.outputs]))


def _review(state: RunState, top: Frame) -> Frame | None:
    """Returns the frame of the critics, and free steps beside them, that look at a person's draft; None without any."""
    label = f"[edit{state.edits + 1}]"
    before = top.body[: top.index]
    judges = _judges_before(before) if state.rules >= INNER_LOOPS_FIRST else ()
    for node in judges or reversed(before):
        if isinstance(node, Repeat) and closing_body(node):
            return Frame(closing_body(node), f"{prefix(top)}{node.name}{label}/", review="")
    critics = tuple(node for node in before if is_critic(node) or node in steps_right_before(before))
    return Frame(critics, prefix(top), review=label) if any(map(is_critic, critics)) else None


def _can_review(before: Sequence[Node]) -> bool:
    """Returns whether one look at a person's draft is by all who judged the draft that it takes the place of."""
    judges = _judges_before(before)
    loops = [each for each in judges if isinstance(each, Repeat)]
    return len(loops) + any(is_critic(each) for each in judges) <= 1 and all(map(has_critics, loops))


def _judges_before(before: Sequence[Node]) -> tuple[Node, ...]:
    """Returns the critics, and the loops in which somebody judges, behind the last place where the draft changed."""
    found: list[Node] = []
    for node in reversed(before):
        loops = [each for _, each in loops_of((node,))]
        if is_critic(node) or any(map(judges_itself, loops)):
            found.append(node)
        if any(step.role in ("generator", "refiner") for _, step in steps_of((node,))):
            break
    return tuple(found)


def _grant(state: RunState, draft: DraftRef, *, by_people: bool) -> RunState:
    """Returns the state of a run that goes on with this draft.

    Once rejected, a draft can be approved only by people.
    """
    top = state.frames[-1]
    of_loop = top.index < len(top.body) and is_question(top.body[top.index])
    due: Due = "nothing" if top.node is None else "output" if of_loop else "approved"
    top = replace(top, index=top.index + 1, due=due)
    rejected = tuple(each for each in state.rejected if not by_people or each != draft.sha256)
    return with_top(replace(state, approval=None, approved=draft, rejected=rejected), top)


def _refuse(state: RunState, draft: DraftRef, why: str) -> RunState:
    """Returns the state in which the draft is rejected for good; without another iteration the run has to end."""
    top = state.frames[-1]
    later = any(isinstance(node, Approve) and not is_question(node) for node in top.body[top.index + 1 :])
    last = top.node is None or (top.iteration >= top.node.max_iterations and not later)
    frames = tuple(replace(each, best=_unless(each.best, draft)) for each in state.frames)
    current = state.current
    if current and current.judgement:
        current = replace(current, judgement=rejected(current.judgement, state.rules))
    return replace(
        state,
        approval=None,
        rejected=(*state.rejected, draft.sha256),
        current=current,
        best=_unless(state.best, draft),
        frames=(*frames[:-1], replace(frames[-1], index=top.index + 1)),
        refused=("rejected", why) if last else None,
    )


def _unless(best: Candidate | None, draft: DraftRef) -> Candidate | None:
    return None if best and best.ref.sha256 == draft.sha256 else best


REMEMBERED: Final = 64
"""The number of a run's latest steering messages whose keys are kept, to ignore duplicates."""


def steered(state: RunState, message: SteeringMessage, limit: int = MAX_DRAFT_BYTES) -> Steered | None:
    """Returns the event of a steering message.

    None if the run has ended, or the message is a duplicate or changes nothing.
    """
    if state.status != "running" or (message.key and message.key in state.steered):
        return None
    by, reason, key = message.by, message.reason, message.key
    path = state.approval.request.path if state.approval else ""
    match message:
        case GuideRun(advice=advice):
            return RunGuided(advice, by, reason, key) if advice.strip() else None
        case ChangeLimits():
            return _change_limits(state, message)
        case PauseRun():
            return None if state.paused else RunPaused(by, reason, key)
        case ResumeRun():
            return RunResumed(by, reason, key) if state.paused else None
        case CancelRun():
            return RunCancelled(by, reason, key)
        case ApproveDraft() | RejectDraft() | EditDraft() if why_void(state, message, limit):
            return None
        case ApproveDraft(draft=draft):
            return DraftApproved(path, draft, by, reason, key, _is_enough(state))
        case RejectDraft(draft=draft):
            return DraftRejected(path, draft, by, reason, key)
        case EditDraft(before=before, text=text):
            return DraftEdited(new_draft(state.drafts + 1, text, state.media_type, limit), before, by, reason, key)
        case _:
            assert_never(message)


def _change_limits(state: RunState, message: ChangeLimits) -> LimitsChanged | None:
    until, limit = message.until, message.max_iterations
    try:
        path = find_loop(state.plan, message.loop)
        with_limits(state.plan, path, until, limit)
    except PlanError:
        return None
    return LimitsChanged(path, message.by, until, limit, message.reason, message.key)


def steer(state: RunState, event: Steered) -> RunState:
    """Returns the state after a steering event."""
    if event.key:
        state = replace(state, steered=(*state.steered, event.key)[-REMEMBERED:])
    match event:
        case RunGuided():
            return replace(state, advice=(*state.advice, state.version))
        case LimitsChanged():
            return with_plan(state, with_limits(state.plan, event.path, event.until, event.max_iterations))
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
