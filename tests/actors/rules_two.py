"""What must hold for a run of rules 2, said once more without the code that decides."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from redraft.actors.plans.paths import step_key, steps_in
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    BudgetReached,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftRejected,
    LoopEnded,
    RunEnded,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.plan import Plan


class Watch:
    """What bars drafts, by hash, as the events say it."""

    def __init__(self, plan: Plan) -> None:
        self.gates = {path for path, step in steps_in(plan.steps) if step.gate}
        self.failed: set[str] = set()
        self.vetoed: set[str] = set()
        self.overruled: set[str] = set()
        self.rejected: set[str] = set()
        self.approved = ""

    def see(self, event: DomainEvent) -> None:
        match event:
            case DraftCritiqued(path=path, draft=draft, critique=said):
                if is_gate(path, self.gates):
                    if not (said.approved or (said.approved is None and said.score >= 1 and not said.errors)):
                        self.failed.add(draft.sha256)
                elif said.approved is False:
                    self.vetoed.add(draft.sha256)
            case DraftApproved(draft=draft, granted=True):
                self.overruled.add(draft.sha256)
                self.rejected.discard(draft.sha256)
                self.approved = draft.sha256
            case DraftRejected(draft=draft):
                self.rejected.add(draft.sha256)
            case ApprovalExpired(draft=draft, then=then):
                self.rejected |= {draft.sha256} if then == "reject" else set()
                self.approved = draft.sha256 if then == "approve" else self.approved
            case _:
                pass

    def barred(self, draft: DraftRef) -> bool:
        return draft.sha256 in self.failed | self.rejected | (self.vetoed - self.overruled)


def is_gate(path: str, gates: set[str]) -> bool:
    return step_key(path).rpartition("/")[2] in {each.rpartition("/")[2] for each in gates}


def check_rules_two(events: Sequence[DomainEvent]) -> None:
    """Fails where a run of these events, which has ended, broke rules 2."""
    begun, end = events[0], events[-1]
    assert isinstance(begun, RunStarted)
    assert isinstance(end, RunEnded)
    watch, over = Watch(begun.plan), ""
    for event in events:
        watch.see(event)
        match event:
            case StepRequested(role="publisher", draft=draft, outputs=outputs):
                assert draft is not None
                assert draft.version > 0
                assert not watch.barred(draft), event
                assert not any(map(watch.barred, outputs)), event
                if over:
                    assert len(outputs) == len(set(outputs))
                    assert watch.approved in ("", draft.sha256)
            case LoopEnded(draft=draft):
                assert not watch.barred(draft), event
            case StepFailed(retry_at=None):
                over = over or "failed"
            case BudgetReached():
                over = over or "over_budget"
            case _:
                pass
    assert over != "failed" or end.outcome in ("failed", "cancelled") or _tolerated(begun.plan)
    if end.outcome == "accepted":
        assert end.draft is None or not watch.barred(end.draft)


def _tolerated(plan: Plan) -> bool:
    """Whether a panel may go on without one that failed."""
    return "wait" in msgspec.json.encode(plan).decode()
