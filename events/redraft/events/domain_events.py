"""What can have happened. These are the only things that are ever stored, and all that state is made of.

A path names a step and keeps the hierarchy: `Chapters[2]/ChapterRefinement[1]/CritiqueChapter`. Where an event has
`attempt`, it is the number (from 1) of the try of that step.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from redraft.events.conditions import Condition
from redraft.events.content import Brief, Critique, Draft, DraftRef, Receipt
from redraft.events.plan import OnDeadline, Plan, Role
from redraft.events.tags import Tags
from redraft.events.usage import Usage

Outcome: TypeAlias = Literal[
    "accepted",
    "exhausted",
    "plateaued",
    "oscillating",
    "over_budget",
    "timed_out",
    "rejected",
    "cancelled",
    "failed",
]
FailureKind: TypeAlias = Literal["error", "invalid", "timeout", "lost", "unserved"]


class Parent(msgspec.Struct, frozen=True, gc=False):
    """The run that a fork came from, and the version (from 1) up to which the fork repeats its events."""

    run: str
    version: int


class RunStarted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A run of this plan began for this brief; `at` is the time (UTC) that `elapsed` counts from.

    A fork names its `parent`. Its events 2 to `parent.version` are the parent's once more. `rules` is the version of
    those by which the run is decided and folded for ever, whatever later releases do.
    """

    plan: Plan
    brief: Brief
    at: datetime
    key: str = ""
    tags: Tags = ()
    parent: Parent | None = None
    rules: int = 1


class IterationStarted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pass (from 1) of a loop's body began. `path` is the loop's, without this pass: `Chapters[2]/Refinement`."""

    path: str
    iteration: int


class Tally(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """In how many runs an arm of a choice was credited with a success, and with a failure."""

    arm: str
    successes: int = 0
    failures: int = 0


class Choice(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The arm that a step was given to, and what was known then of each, in the order of the plan."""

    arm: str
    known: tuple[Tally, ...] = ()


class StepRequested(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Work was asked of an actor. The request for work is itself an event: the log is the outbox.

    `draft` is what to work on; `critiques` are the versions, in this run's stream, of the critiques that a refiner is
    to meet, and `score` their joined score; `outputs` are finished drafts of the loops around. `advice` are the
    versions of what people said that a refiner is to heed, `oscillation` is what went to and fro lately; its
    temperature is raised `heat` times. `beside` are the drafts among which a judge compares, `reserved` is what is set
    aside of the budget. The answer is due by `due` (UTC), or later if the request still waits in its queue then.
    `queue_wait` is how many seconds at most the plan lets it wait while no worker serves the actor, if the plan says.
    Of a step that chooses, `choice` says why it is this actor.
    """

    path: str
    role: Role
    actor: str
    attempt: int
    due: datetime
    draft: DraftRef | None = None
    critiques: tuple[int, ...] = ()
    score: float | None = None
    outputs: tuple[DraftRef, ...] = ()
    advice: tuple[int, ...] = ()
    oscillation: tuple[str, ...] = ()
    heat: int = 0
    beside: tuple[DraftRef, ...] = ()
    reserved: Usage = Usage()
    choice: Choice | None = None
    queue_wait: float | None = None


class DraftGenerated(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    path: str
    attempt: int
    draft: Draft
    usage: Usage = Usage()


class DraftCritiqued(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A critic judged the draft of this version and hash."""

    path: str
    attempt: int
    draft: DraftRef
    critique: Critique
    usage: Usage = Usage()


class DraftRefined(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A refiner made a draft from `before`. `exit`: it has nothing more to change; `declined`: what it leaves."""

    path: str
    attempt: int
    before: DraftRef
    draft: Draft
    changes: tuple[str, ...] = ()
    exit: bool = False
    usage: Usage = Usage()
    declined: tuple[str, ...] = ()


class DraftPublished(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    path: str
    attempt: int
    draft: DraftRef
    receipt: Receipt
    usage: Usage = Usage()


class StepFailed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt failed. It is tried again at `retry_at` (UTC); None means that the step failed for good."""

    path: str
    attempt: int
    kind: FailureKind
    message: str
    retry_at: datetime | None = None
    usage: Usage = Usage()


class LoopClosing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Nobody judged a loop's last draft: its critics run once more, then it ends so unless the condition is met."""

    path: str
    outcome: Outcome
    reason: str


class LoopEnded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A loop ended after `iterations` passes: how, why, and which draft leaves it with which score (0..1)."""

    path: str
    outcome: Outcome
    reason: str
    iterations: int
    draft: DraftRef
    score: float | None = None


class RunGuided(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person gave advice for the next refinement. `by` says who, `reason` why; `key` tells a repetition apart."""

    advice: str
    by: str
    reason: str = ""
    key: str = ""


class LimitsChanged(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person changed when a loop ends, by its path in the plan. What is None stays as it was."""

    path: str
    by: str
    until: Condition | None = None
    max_iterations: int | None = None
    reason: str = ""
    key: str = ""


class RunPaused(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person stopped what would be next. What was under way is still recorded."""

    by: str
    reason: str = ""
    key: str = ""


class RunResumed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    by: str
    reason: str = ""
    key: str = ""


class RunCancelled(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person ended the run: what is under way is stopped, and RunEnded follows."""

    by: str
    reason: str = ""
    key: str = ""


class Credit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a run ended for an arm that took part in it. `step` is the path in the plan of the step that chose it."""

    step: str
    arm: str
    success: bool


class ChoicesCredited(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the end of a run, which follows, says of the arms that were chosen in it: each is credited once."""

    workflow: str
    credits: tuple[Credit, ...]


class RunEnded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a run ended: only RunErased and RunQuarantined may follow. `iterations` are passes of the outermost loops."""

    outcome: Outcome
    reason: str
    iterations: int
    draft: DraftRef | None = None
    score: float | None = None


class RunErased(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The texts of a run that has ended were made unreadable: its key was destroyed. `by` says who had it done."""

    by: str
    reason: str = ""


class RunQuarantined(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person set the run aside: its events are not folded, and nothing more is done for it. RunErased may follow."""

    by: str
    reason: str
    key: str = ""


class ApprovalRequested(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """People are asked to decide on a draft by `due` (UTC): `quorum` of `approvers`, or of anybody if it is empty."""

    path: str
    draft: DraftRef
    due: datetime
    approvers: tuple[str, ...] = ()
    quorum: int = 1


class DraftApproved(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person approved the draft of this version and hash, and no other. `granted`: no more people need to."""

    path: str
    draft: DraftRef
    by: str
    reason: str = ""
    key: str = ""
    granted: bool = False


class DraftRejected(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person rejected the draft. `reason` is the feedback for whoever refines it next."""

    path: str
    draft: DraftRef
    by: str
    reason: str = ""
    key: str = ""


class ApprovalExpired(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Too few people decided in time; `then` is what the plan says for that."""

    path: str
    draft: DraftRef
    then: OnDeadline


class DraftEdited(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person made a draft from `before`. What was waited for then, an approval too, is void."""

    draft: Draft
    before: DraftRef
    by: str
    reason: str = ""
    key: str = ""


class BudgetReached(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The next call would pass a limit of the budget: `used` and what it and open calls need, `reserved`, are too much.

    `daily`: that of all runs of the workflow that began on this day. Nothing more is asked for but to publish.
    """

    quantity: Literal["tokens", "cost", "calls", "seconds"]
    limit: float
    used: float
    reserved: float = 0.0
    daily: bool = False


class PanelClosed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Enough critics had answered when the time for the others was over; `path` is that of the panel."""

    path: str
    answered: int
    missing: tuple[str, ...] = ()


class VerdictLate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A critic's verdict that came when the panel had gone on without it: recorded, and not counted."""

    path: str
    attempt: int
    draft: DraftRef
    critique: Critique
    usage: Usage = Usage()


Steered: TypeAlias = (
    RunGuided | LimitsChanged | RunPaused | RunResumed | RunCancelled | DraftApproved | DraftRejected | DraftEdited
)
"""What people did to a run that goes on."""

DomainEvent: TypeAlias = (
    RunStarted
    | IterationStarted
    | StepRequested
    | DraftGenerated
    | DraftCritiqued
    | DraftRefined
    | DraftPublished
    | StepFailed
    | LoopClosing
    | LoopEnded
    | RunGuided
    | LimitsChanged
    | RunPaused
    | RunResumed
    | RunCancelled
    | ApprovalRequested
    | DraftApproved
    | DraftRejected
    | ApprovalExpired
    | DraftEdited
    | BudgetReached
    | PanelClosed
    | VerdictLate
    | ChoicesCredited
    | RunEnded
    | RunErased
    | RunQuarantined
)

EVENT_NAMES: dict[type[DomainEvent], str] = {
    RunStarted: "run.started.v1",
    IterationStarted: "iteration.started.v1",
    StepRequested: "step.requested.v1",
    DraftGenerated: "draft.generated.v1",
    DraftCritiqued: "draft.critiqued.v1",
    DraftRefined: "draft.refined.v1",
    DraftPublished: "draft.published.v1",
    StepFailed: "step.failed.v1",
    LoopClosing: "loop.closing.v1",
    LoopEnded: "loop.ended.v1",
    RunGuided: "run.guided.v1",
    LimitsChanged: "limits.changed.v1",
    RunPaused: "run.paused.v1",
    RunResumed: "run.resumed.v1",
    RunCancelled: "run.cancelled.v1",
    ApprovalRequested: "approval.requested.v1",
    DraftApproved: "draft.approved.v1",
    DraftRejected: "draft.rejected.v1",
    ApprovalExpired: "approval.expired.v1",
    DraftEdited: "draft.edited.v1",
    BudgetReached: "budget.reached.v1",
    PanelClosed: "panel.closed.v1",
    VerdictLate: "verdict.late.v1",
    ChoicesCredited: "choices.credited.v1",
    RunEnded: "run.ended.v1",
    RunErased: "run.erased.v1",
    RunQuarantined: "run.quarantined.v1",
}
"""The stored name of each event: ours and stable, never a Python path."""
