"""The domain events: all that is ever stored. A `path` identifies a step, `attempt` counts its attempts from 1."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from redraft.events.messages.after_end import LessonStruck as LessonStruck
from redraft.events.messages.after_end import RunErased as RunErased
from redraft.events.messages.after_end import RunQuarantined as RunQuarantined
from redraft.events.messages.conditions import Condition
from redraft.events.messages.content import Brief, Critique, Draft, DraftRef, Edit, Files, Receipt, Refusal
from redraft.events.messages.lessons import Lessons
from redraft.events.messages.plan import OnDeadline, Plan, Role
from redraft.events.messages.references import EventRef as EventRef
from redraft.events.messages.references import ItemOf as ItemOf
from redraft.events.messages.references import Parent as Parent
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import Scale
from redraft.events.messages.tags import Tags
from redraft.events.messages.usage import Usage

Outcome: TypeAlias = Literal[
    "accepted", "exhausted", "plateaued", "oscillating", "over_budget", "timed_out", "rejected", "cancelled", "failed"
]
FailureKind: TypeAlias = Literal["error", "invalid", "timeout", "lost", "unserved"]


class RunStarted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A run of this plan began for this brief; `elapsed` counts from `at` (UTC). Its `rules` say how to decide it. The
    events 2 to `parent.version` of a fork repeat its parent's. `files` are those that its functions came from.
    `lessons` are those that it was given, if its plan asks for them; a fork has its parent's. `of` is the item of
    another run that it works on, if any.
    """

    plan: Plan
    brief: Brief
    at: datetime
    key: str = ""
    tags: Tags = ()
    parent: Parent | None = None
    rules: int = 1
    files: Files = Files()
    lessons: Lessons | None = None
    of: ItemOf | None = None


class IterationStarted(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An iteration (from 1) of a body began. `path` is its loop, without this iteration: `Chapters[2]/Refinement`."""

    path: str
    iteration: int


class Tally(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The number of runs in which an arm of a choice was credited with a success, and with a failure."""

    arm: str
    successes: int = 0
    failures: int = 0


class Choice(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The arm chosen for a step, and the known tallies of all arms, in the order of the plan."""

    arm: str
    known: tuple[Tally, ...] = ()


class StepRequested(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An actor was asked for work: the log is the outbox.

    `draft` is the draft to work on; `outputs` are finished drafts of the enclosing loops, `beside` those that a
    judge compares. For a refiner, `critiques` and `advice` are the versions of the events with them, those of
    failures that it is to mend too; `score` is the joined score (0..1), to be shown on `scale`; `oscillation`
    describes recent oscillation, and the temperature is raised `heat` times. `reserved` is its part of the budget.
    The answer is due by `due` (UTC), or later if the request still waits in its queue then, at most `queue_wait`
    seconds without a worker. `choice` explains how the actor was chosen. `verdict_key` is the hash of what a critic
    is given whose verdicts are taken again; if an event of this or another run has the verdict (`reused`), nobody
    is asked, and a copy of that verdict follows. With the role `run` a run of its own was asked for, for an item of
    an Each, and `reserved` is its budget; it has no deadline: at `due` it is looked after.
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
    scale: Scale | None = None
    verdict_key: str = ""
    reused: EventRef | None = None


class DraftGenerated(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A generator wrote a draft. `state` are the values of the run's state that an answer changed."""

    path: str
    attempt: int
    draft: Draft
    usage: Usage = Usage()
    state: Values = {}


class DraftCritiqued(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A critic judged the draft of this version and hash; `reused` is the event of which this repeats the verdict.

    With `hermetic` False the critic looked at more than it was given: no other run takes its verdict.
    """

    path: str
    attempt: int
    draft: DraftRef
    critique: Critique
    usage: Usage = Usage()
    reused: EventRef | None = None
    state: Values = {}
    hermetic: bool = True


class DraftRefined(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A refiner made a draft from `before`, by its `edits` alone if it gave any. `exit`: nothing is left to change."""

    path: str
    attempt: int
    before: DraftRef
    draft: Draft
    changes: tuple[str, ...] = ()
    exit: bool = False
    usage: Usage = Usage()
    declined: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    saved_tokens: int = 0
    state: Values = {}


class CriticSkipped(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A critic was not asked about this draft: its condition does not hold, for this `reason`, empty in old records."""

    path: str
    actor: str
    draft: DraftRef
    reason: str = ""


class DraftPublished(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A publisher published the draft of this version and hash; `receipt` says where it is."""

    path: str
    attempt: int
    draft: DraftRef
    receipt: Receipt
    usage: Usage = Usage()
    state: Values = {}


class StateChanged(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A free step answered. The changes that a fork was begun with have no path, and `by` names their author."""

    path: str
    attempt: int
    state: Values = {}
    usage: Usage = Usage()
    by: str = ""


class StepFailed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An attempt failed. The next attempt starts at `retry_at` (UTC); None means that the step failed for good."""

    path: str
    attempt: int
    kind: FailureKind
    message: str
    retry_at: datetime | None = None
    usage: Usage = Usage()


class LoopClosing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The loop's last draft is looked at once more; then it ends with this outcome, unless the condition is met."""

    path: str
    outcome: Outcome
    reason: str


class LoopEnded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A loop ended after `iterations` iterations, with this draft and score (0..1), which is shown on `scale`."""

    path: str
    outcome: Outcome
    reason: str
    iterations: int
    draft: DraftRef
    score: float | None = None
    scale: Scale | None = None


class RunGuided(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person (`by`) gave advice for the next refinement. `key` detects repetitions."""

    advice: str
    by: str
    reason: str = ""
    key: str = ""


class LimitsChanged(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person changed when a loop ends, by its path in the plan. None leaves a value as it was."""

    path: str
    by: str
    until: Condition | None = None
    max_iterations: int | None = None
    reason: str = ""
    key: str = ""


class RunPaused(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person paused the run: no further step starts. Outcomes of running steps are still recorded."""

    by: str
    reason: str = ""
    key: str = ""


class RunResumed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person resumed a paused run."""

    by: str
    reason: str = ""
    key: str = ""


class RunCancelled(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person cancelled the run: running steps are stopped, and RunEnded follows."""

    by: str
    reason: str = ""
    key: str = ""


class Credit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The result of a run for an arm that took part in it. `step` is the path in the plan of the step that chose it."""

    step: str
    arm: str
    success: bool


class ChoicesCredited(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Credits the arms that were chosen in a run, each once, just before RunEnded."""

    workflow: str
    credits: tuple[Credit, ...]


class RunEnded(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A run ended: only the events of `after_end` may follow. `iterations` are those of the outermost loops."""

    outcome: Outcome
    reason: str
    iterations: int
    draft: DraftRef | None = None
    score: float | None = None
    scale: Scale | None = None


class ApprovalRequested(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """People must decide on a draft by `due` (UTC): `quorum` of `approvers`, or of anybody if it is empty."""

    path: str
    draft: DraftRef
    due: datetime
    approvers: tuple[str, ...] = ()
    quorum: int = 1


class DraftApproved(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person approved the draft of this version and hash, and no other. `granted`: the quorum is reached."""

    path: str
    draft: DraftRef
    by: str
    reason: str = ""
    key: str = ""
    granted: bool = False


class DraftRejected(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person rejected the draft. `reason` is the feedback for the next refiner."""

    path: str
    draft: DraftRef
    by: str
    reason: str = ""
    key: str = ""


class ApprovalExpired(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Too few people decided in time; `then` is the plan's `on_deadline`."""

    path: str
    draft: DraftRef
    then: OnDeadline


class DraftEdited(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person made a draft from `before`. Pending answers, approvals included, are void."""

    draft: Draft
    before: DraftRef
    by: str
    reason: str = ""
    key: str = ""


class BudgetReached(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`used`, plus `reserved` for the next call and open ones, exceeds a limit of the run, or (`daily`) of all runs of
    its workflow that began on this day. From now on only publishing is requested.
    """

    quantity: Literal["tokens", "cost", "calls", "seconds"]
    limit: float
    used: float
    reserved: float = 0.0
    daily: bool = False


class PanelClosed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Enough critics had answered when the deadline for the others passed; `path` is that of the panel."""

    path: str
    answered: int
    missing: tuple[str, ...] = ()


class VerdictLate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A critic's verdict arrived after the panel had gone on without it: recorded, and not counted."""

    path: str
    attempt: int
    draft: DraftRef
    critique: Critique
    usage: Usage = Usage()


StepAnswered: TypeAlias = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished | StateChanged | StepFailed
"""The events by which an actor answers a request."""

DraftMade: TypeAlias = DraftGenerated | DraftRefined | DraftEdited
"""The events that bring a draft: an actor's or a person's."""

Steered: TypeAlias = (
    RunGuided | LimitsChanged | RunPaused | RunResumed | RunCancelled | DraftApproved | DraftRejected | DraftEdited
)
"""The events by which people steer a running run."""

DomainEvent: TypeAlias = (
    RunStarted
    | IterationStarted
    | StepRequested
    | StepAnswered
    | CriticSkipped
    | LoopClosing
    | LoopEnded
    | Steered
    | ApprovalRequested
    | ApprovalExpired
    | BudgetReached
    | PanelClosed
    | VerdictLate
    | ChoicesCredited
    | RunEnded
    | RunErased
    | RunQuarantined
    | LessonStruck
)
