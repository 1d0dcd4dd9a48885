"""People decide on drafts, and make drafts of their own. An approval is of one draft, by its hash: another voids it."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from msgspec.structs import replace

from redraft.actors.barred import overruled
from redraft.actors.run_state import (
    Approval,
    Candidate,
    Frame,
    RunState,
    closing_body,
    is_critic,
    prefix,
    standing_at,
    with_top,
)
from redraft.events.commands import ApproveDraft, EditDraft, RejectDraft
from redraft.events.content import DraftRef, new_draft
from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DraftApproved,
    DraftEdited,
    DraftRejected,
)
from redraft.events.errors import ContentError
from redraft.events.plan import Approve, Repeat

PeoplesWord: TypeAlias = ApproveDraft | RejectDraft | EditDraft
Decided: TypeAlias = DraftApproved | DraftRejected | DraftEdited


def decided(state: RunState, message: PeoplesWord, limit: int) -> Decided | None:
    """What a person's decision brings about; None when it is not asked for, or not of the draft that is waited for."""
    if fault_of(state, message, limit):
        return None
    by, reason, key = message.by, message.reason, message.key
    path = state.approval.request.path if state.approval else ""
    match message:
        case ApproveDraft(draft=draft):
            return DraftApproved(path, draft, by, reason, key, _is_enough(state))
        case RejectDraft(draft=draft):
            return DraftRejected(path, draft, by, reason, key)
        case EditDraft(before=before, text=text):
            return DraftEdited(new_draft(state.drafts + 1, text, state.media_type, limit), before, by, reason, key)
        case _:
            assert_never(message)


def _is_enough(state: RunState) -> bool:
    return state.approval is not None and len(state.approval.by) + 1 >= state.approval.node.quorum


def fault_of(state: RunState, message: PeoplesWord, limit: int) -> str:
    """Why a person's decision means nothing now, and the remedy; empty when it counts."""
    if isinstance(message, EditDraft):
        return _fault_of_edit(state, message, limit)
    waiting = state.approval
    if waiting is None:
        return "nobody is asked to decide on a draft now"
    if message.draft != waiting.request.draft:
        return f"draft {message.draft.version} is not waited for; draft {waiting.request.draft.version} is"
    if waiting.node.approvers and message.by not in waiting.node.approvers:
        return f"{message.by} is not asked; it is for {', '.join(waiting.node.approvers)} to decide (--by NAME)"
    if isinstance(message, ApproveDraft) and message.by in waiting.by:
        return f"{message.by} has approved it already; {waiting.node.quorum} people have to"
    return ""


def _fault_of_edit(state: RunState, message: EditDraft, limit: int) -> str:
    current = state.current
    if current is None or state.failure or not 1 <= message.before.version <= state.drafts:
        return "there is no draft yet that could be edited"
    try:
        made = new_draft(state.drafts + 1, message.text, state.media_type, limit)
    except ContentError as error:
        return str(error)
    if made.sha256 == current.ref.sha256:
        return f"the text is that of draft {current.ref.version}; change it first"
    top = state.frames[-1]
    fits = _review(state, top) is not None if state.approval else top.node is not None and not top.closing
    return "" if fits else "an edit is taken up in a loop, or while people are asked to approve; it is neither now"


def requested(state: RunState, event: ApprovalRequested) -> RunState:
    """People are asked from here on."""
    top = state.frames[-1]
    top = standing_at(top, event.path)
    node = top.body[top.index]
    assert isinstance(node, Approve)  # noqa: S101 - only such a node's event asks people
    return with_top(replace(state, approval=Approval(node, event)), replace(top, due="nothing"))


def approve(state: RunState, event: DraftApproved) -> RunState:
    """One more person approved."""
    waiting = state.approval
    if waiting is None:
        return state
    if event.granted:
        return _granted(overruled(state, event.draft), event.draft, by_people=True)
    return replace(state, approval=replace(waiting, by=(*waiting.by, event.by)))


def expire(state: RunState, event: ApprovalExpired) -> RunState:
    """Nobody decided in time."""
    what = f"nobody decided on draft {event.draft.version} in time"
    match event.then:
        case "approve":
            return _granted(state, event.draft, by_people=state.rules < 2)
        case "reject":
            return _refused(state, event.draft, what)
        case "fail":
            return replace(state, approval=None, refused=("failed", f"{event.path}: {what}"))
        case _:
            assert_never(event.then)


def reject(state: RunState, event: DraftRejected) -> RunState:
    """A person rejected the draft; what was said is advice for the next refinement."""
    told = f": {event.reason}" if event.reason.strip() else ""
    state = _refused(state, event.draft, f"{event.by} rejected draft {event.draft.version}{told}")
    return replace(state, advice=(*state.advice, state.version)) if told else state


def edit(state: RunState, event: DraftEdited) -> RunState:
    """A person's draft is the current one. Critics look at it at once while people are asked, else in the next pass."""
    top = replace(state.frames[-1], fan=None, heard=(), due="nothing", exit=False)
    number = state.edits + 1
    review = _review(state, top) if state.approval else None
    frames = (*state.frames[:-1], top if review else replace(top, index=len(top.body)), *([review] if review else ()))
    return replace(
        state,
        drafts=event.draft.version,
        current=Candidate(event.draft.ref),
        open={},
        approval=None,
        frames=frames,
        edits=number,
    )


def _review(state: RunState, top: Frame) -> Frame | None:
    """The critics that came before the approval, as they look at a person's draft; None when there are none."""
    label = f"[edit{state.edits + 1}]"
    before = top.body[: top.index]
    for node in reversed(before):
        if isinstance(node, Repeat) and closing_body(node):
            return Frame(closing_body(node), f"{prefix(top)}{node.name}{label}/", review="")
    critics = tuple(node for node in before if is_critic(node))
    return Frame(critics, prefix(top), review=label) if critics else None


def _granted(state: RunState, draft: DraftRef, *, by_people: bool) -> RunState:
    """The run goes on with this draft. What people rejected once they alone can approve."""
    top = state.frames[-1]
    top = replace(top, index=top.index + 1, due="approved" if top.node else "nothing")
    rejected = tuple(each for each in state.rejected if not by_people or each != draft.sha256)
    return with_top(replace(state, approval=None, approved=draft, rejected=rejected), top)


def _refused(state: RunState, draft: DraftRef, why: str) -> RunState:
    """The draft can be accepted no more, nor can it be the best one. Without another pass the run is to end."""
    top = state.frames[-1]
    later = any(isinstance(node, Approve) for node in top.body[top.index + 1 :])
    last = top.node is None or (top.iteration >= top.node.max_iterations and not later)
    frames = tuple(replace(each, best=_unless(each.best, draft)) for each in state.frames)
    current = state.current
    if current and current.judgement:
        current = replace(current, judgement=replace(current.judgement, score=0.0, approved=False))
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
