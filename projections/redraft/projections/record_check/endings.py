"""How a run ends: as its last loop did, by people, by a failure; and what is still published then."""

from __future__ import annotations

from redraft.events.domain_events import ChoicesCredited, Outcome, RunEnded
from redraft.events.plan import Approve, Repeat
from redraft.projections.record_check.barred import is_withheld, salvaged
from redraft.projections.record_check.findings import Deviates
from redraft.projections.record_check.ratings import Rated, asks_people, failed_gate, publishes
from redraft.projections.record_check.walk import Broken, Edited, Frame, Over, Unclear, Walk


def held_back(walk: Walk, frame: Frame, broken: Broken) -> bool:
    """Whether nothing may be published after a failure: by the plan, for people's sake, or for a gate's."""
    if walk.best is None or broken.publishing or walk.plan.on_failure == "fail":
        return True
    if walk.rules >= 2:
        return salvaged(walk) is None
    if frame.loop is None and walk.ended is None and failed_gate(walk.best):
        return True
    coming = [node for each in walk.frames for node in each.body[each.index :]]
    asked = any(isinstance(node, Approve) or (isinstance(node, Repeat) and asks_people(node)) for node in coming)
    return asked or any(asks_people(each.loop) for each in walk.frames)


def refused(walk: Walk, frame: Frame) -> bool:
    """Whether a gate outside of a loop did not pass the draft that would be published."""
    if walk.rules >= 2:
        return is_withheld(walk, frame)
    if frame.loop is not None or not failed_gate(walk.current):
        return False
    judges = [node for node in frame.body[: frame.index] if not (isinstance(node, Approve) or publishes(node))]
    return not (judges and isinstance(judges[-1], Repeat))


def expect_end(walk: Walk, outcome: Outcome, draft: Rated | None) -> None:
    """Takes the end of the run. Raises Deviates when it is not as it is to be."""
    try:
        event = walk.peek()
        if isinstance(event.data, ChoicesCredited):
            walk.take()
            event = walk.peek()
    except Over as over:
        expect_end(walk, over.outcome, over.draft)
        return
    except (Edited, Broken):
        raise Unclear from None
    data = event.data
    if not isinstance(data, RunEnded):
        raise Deviates("end", event, f"the run was to end here as {outcome}")
    if data.outcome != outcome:
        raise Deviates("end", event, f"the run ends as {outcome}, not as {data.outcome}")
    if data.draft != (draft.ref if draft else None):
        version = draft.ref.version if draft else 0
        raise Deviates("kept", event, f"draft {version} is the one that the run ends with")
    score = draft.rating.score if draft and draft.rating else None
    if data.score != score:
        raise Deviates("score", event, f"that draft was scored {score}, not {data.score}")
    if data.iterations != walk.iterations:
        raise Deviates("pass", event, f"{walk.iterations} passes were made, not {data.iterations}")
    walk.take()
