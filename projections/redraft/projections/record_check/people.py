"""Walks approvals: who is asked, whose decision counts, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DraftApproved,
    DraftEdited,
    DraftRejected,
    Outcome,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Approve, Node, Repeat, loops_of, steps_of
from redraft.projections.record_check.chain import Deviates
from redraft.projections.record_check.nodes import walk_work
from redraft.projections.record_check.ratings import (
    Rated,
    Rating,
    closing_nodes,
    critics_of,
    is_critic,
    judges_itself,
    row_before,
)
from redraft.projections.record_check.unmet import unmet_by
from redraft.projections.record_check.walk import Edited, Frame, Over, Unclear, Walk


def walk_question(walk: Walk, frame: Frame, loop: Repeat, outcome: Outcome) -> None:
    """Walks the question about the draft of a loop that has ended so, if its plan asks people then."""
    asked = loop.ask or Approve("ask")
    question = replace(asked, name=f"{loop.name}[{asked.name}]")
    path = f"{frame.prefix}{question.name}"
    while True:
        frame.questioned = _asks(loop, outcome)
        if not _is_asked(walk, path, loop, outcome):
            break
        frame.questioned, edits = True, walk.edits
        walk_approval(walk, frame, question)
        if walk.edits == edits:
            break
    frame.questioned = False


def _asks(loop: Repeat, outcome: Outcome) -> bool:
    asks = {"plateaued": loop.on_plateau, "oscillating": loop.on_oscillation}
    asks |= dict.fromkeys(("exhausted", "over_budget", "timed_out"), loop.on_exhausted)
    return asks.get(outcome) == "ask"


def _is_asked(walk: Walk, path: str, loop: Repeat, outcome: Outcome) -> bool:
    event = walk.peek()
    if walk.repeats(event):  # its parent's plan may have said something else
        return isinstance(event.data, ApprovalRequested) and event.data.path == path
    return _asks(loop, outcome)


def walk_approval(walk: Walk, frame: Frame, node: Approve) -> None:
    """Walks the approval of the current draft; one that people edit is judged, and has to be approved again.

    Raises Over.
    """
    path = f"{frame.prefix}{node.name}"
    asked = _take_request(walk, node, path)
    walk.asking = True
    try:
        _take_decisions(walk, frame, node, asked)
    except Edited as edited:
        walk.asking = False
        _walk_review(walk, frame, edited.ref)
    finally:
        walk.asking = False


def _take_request(walk: Walk, node: Approve, path: str) -> ApprovalRequested:
    event = walk.peek()
    data = event.data
    if not isinstance(data, ApprovalRequested) or data.path != path:
        raise Deviates("approval", event, f"people should be asked at {path} now")
    draft = walk.current.ref if walk.current else DraftRef(0, "")
    if data.draft != draft:
        raise Deviates("draft", event, f"people should decide on draft {draft.version}, not on {data.draft.version}")
    if (data.approvers, data.quorum) != (node.approvers, node.quorum):
        raise Deviates("approval", event, "the people asked are not those that the plan names")
    walk.take()
    walk.top.due = ""
    return data


def _take_decisions(walk: Walk, frame: Frame, node: Approve, asked: ApprovalRequested) -> None:
    by: list[str] = []
    while True:
        event = walk.peek()
        data = event.data
        if isinstance(data, ApprovalRequested) and walk.inherited:
            if replace(data, due=asked.due) != asked:
                raise Deviates("approval", event, "a fork asks people for something else than its parent did")
            by.clear()
            walk.take()
            continue
        if not isinstance(data, DraftApproved | DraftRejected | ApprovalExpired):
            raise Deviates("order", event, f"people had to decide at {asked.path} before this")
        if data.path != asked.path or data.draft != asked.draft:
            raise Deviates("approval", event, f"draft {asked.draft.version} is what people were asked about")
        if not isinstance(data, ApprovalExpired) and node.approvers and data.by not in node.approvers:
            raise Deviates("approval", event, f"{data.by} was not asked")
        walk.take()
        match data:
            case DraftApproved():
                if _is_granted(event, data, by, node):
                    walk.overruled.add(data.draft.sha256)
                    walk.rejected.discard(data.draft.sha256)
                    return _grant(walk, frame, data.draft)
            case DraftRejected():
                said = bool(data.reason.strip())
                walk.advice = (*walk.advice, event.version) if said else walk.advice
                return _reject(walk, frame, data.draft, event)
            case ApprovalExpired():
                return _expire(walk, frame, node, data, event)


def _is_granted(event: Recorded, data: DraftApproved, by: list[str], node: Approve) -> bool:
    if data.by in by:
        raise Deviates("approval", event, f"{data.by} had approved it already")
    by.append(data.by)
    if data.granted != (len(by) >= node.quorum):
        raise Deviates("approval", event, f"{len(by)} approved, and {node.quorum} have to")
    return data.granted


def _expire(walk: Walk, frame: Frame, node: Approve, data: ApprovalExpired, event: Recorded) -> None:
    if data.then != node.on_deadline:
        raise Deviates("approval", event, f"the plan says {node.on_deadline} for that")
    match data.then:
        case "approve":
            if walk.rules < 2:
                walk.rejected.discard(data.draft.sha256)
            _grant(walk, frame, data.draft)
        case "reject":
            _reject(walk, frame, data.draft, event)
        case "fail":
            raise Over("failed", walk.best_or_current())


def _grant(walk: Walk, frame: Frame, draft: DraftRef) -> None:
    walk.approved = draft
    frame.index += not frame.questioned
    frame.due = "" if frame.loop is None else "output" if frame.questioned else "approved"


def _reject(walk: Walk, frame: Frame, draft: DraftRef, event: Recorded) -> None:
    """Bars the draft from being accepted or best. Without another iteration the run ends. Raises Over."""
    later = any(isinstance(node, Approve) for node in frame.body[frame.index + (not frame.questioned) :])
    last = frame.loop is None or (frame.iteration >= walk.max_iterations(frame) and not later)
    for each in walk.frames:
        each.best = _unless_rejected(each.best, draft)
    if walk.current and walk.current.rating:
        was = walk.current.rating
        refused = replace(was, approved=False)
        if walk.rules < 7:
            refused = Rating(0.0, was.errors, False, was.critiques, was.gate, was.scored, was.scale)
        walk.current = Rated(walk.current.ref, refused)
    walk.best = _unless_rejected(walk.best, draft)
    walk.rejected.add(draft.sha256)
    frame.index += not frame.questioned
    if last and walk.repeats(event):
        raise Unclear  # whether it was the last iteration is for its parent's plan to say
    if last:
        raise Over("rejected", walk.best_or_current())


def _unless_rejected(best: Rated | None, draft: DraftRef) -> Rated | None:
    return None if best and best.ref.sha256 == draft.sha256 else best


def _walk_review(walk: Walk, frame: Frame, ref: DraftRef) -> None:
    """Walks the critics of a person's draft, before people are asked again."""
    walk.current, walk.untold = Rated(ref), ()
    frame.exit, frame.due = False, ""
    review = _critics_before(walk, frame)
    if review is None:
        if walk.rules >= 9:
            edits = (each for each in walk.events if isinstance(each.data, DraftEdited))
            edited = next(each for each in edits if isinstance(each.data, DraftEdited) and each.data.draft.ref == ref)
            raise Deviates("edit", edited, "not all who judged the draft before would judge a person's draft here")
        raise Unclear
    walk.frames.append(review)
    while review.index < len(review.body):
        walk_work(walk, review)
    walk.frames.pop()
    frame.unmet = unmet_by(walk.current, walk.until(frame)) if frame.loop is not None else None


def _who_judged(before: Sequence[Node]) -> list[Node]:
    """Returns the critics, and the loops with critics or a judge, behind the last place at which the draft changed."""
    found: list[Node] = []
    for node in reversed(before):
        if is_critic(node) or any(judges_itself(each) for _, each in loops_of((node,))):
            found.append(node)
        if any(step.role in ("generator", "refiner") for _, step in steps_of((node,))):
            break
    return found


def _critics_before(walk: Walk, frame: Frame) -> Frame | None:
    """Returns the critics of the last loop before the approval, else those before it in its own body.

    Free steps beside them look at the draft too.
    """
    label = f"[edit{walk.edits}]"
    before = frame.body[: frame.index]
    said = _who_judged(before) if walk.rules >= 9 else []
    inside = [node for node in said if isinstance(node, Repeat)]
    if len(inside) + any(map(is_critic, said)) > 1 or not all(map(critics_of, inside)):
        return None
    for node in said or reversed(before):
        if isinstance(node, Repeat) and closing_nodes(node):
            return Frame(closing_nodes(node), f"{frame.prefix}{node.name}{label}/", review="")
    near = row_before(before, len(before))
    critics = tuple(node for node in before if is_critic(node) or node in near)
    return Frame(critics, frame.prefix, review=label) if any(map(is_critic, critics)) else None
