"""The messages: requests to workers, their outcomes, and commands to the coordinator.

The relay sends requests to an actor's queue. Outcomes and people's commands go to the coordinator's inbox. A request
carries all that the work needs; a worker holds no state and no database password. An outcome's `state` is what changes.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from redraft.events.messages.after_end import EraseRun as EraseRun
from redraft.events.messages.after_end import QuarantineRun as QuarantineRun
from redraft.events.messages.after_end import StrikeLesson as StrikeLesson
from redraft.events.messages.conditions import Condition
from redraft.events.messages.content import (
    MOST_EVENTS,
    Brief,
    Critique,
    Draft,
    DraftRef,
    Edit,
    Files,
    History,
    Moment,
    Ordinal,
    Receipt,
    Refusal,
)
from redraft.events.messages.decisions import ApproveDraft as ApproveDraft
from redraft.events.messages.decisions import EditDraft as EditDraft
from redraft.events.messages.decisions import RejectDraft as RejectDraft
from redraft.events.messages.domain_events import FailureKind, ItemOf, Parent
from redraft.events.messages.lessons import Lesson
from redraft.events.messages.plan import Criterion, Option, Plan, Role
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import Scale
from redraft.events.messages.tags import Tags
from redraft.events.messages.usage import MOST, Usage

Tokens: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Times: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_EVENTS - 1)]


class Request(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The common part of every request for work: the step, the attempt, its timeout (seconds), and the brief.

    `id` is derived from run, path and attempt: the idempotency key of the work. `sent` counts how often it was sent. A
    request that may have been served already (`sent` above 1, or redelivered) is confirmed with the coordinator before
    the work starts; `confirmed` is True when that was done, and `confirmed_at` says when (UTC). `version` is that of
    the actor's code, if the plan names one. `beside` are the drafts, in the order of their steps, with which the judge
    of a parallel step compares its draft. `asked` is when the coordinator requested the work (UTC), and `state` the
    run's state then; one that waited longer than allowed is confirmed first. A critic gives its score, and that for
    each of the `criteria`, on the `scale` that the plan declares; in its outcome they are 0..1. It gives a number for
    each of the `measures`; one whose name ends with `?` may be missing. With `only_issues` a refiner may change nothing
    outside the places of the critique's issues, unless people gave advice. `reply_key` is the routing key of the
    outcome (empty: `inbox`). `lessons`, of earlier runs, are for generators and refiners: texts, and no instructions.
    """

    id: str
    run: str
    path: str
    actor: str
    attempt: Ordinal
    timeout: float
    brief: Brief
    options: dict[str, Option] = {}
    outputs: tuple[Draft, ...] = ()
    sent: Ordinal = 1
    confirmed: bool = False
    version: str = ""
    beside: tuple[Draft, ...] = ()
    asked: Moment | None = None
    scale: Scale | None = None
    criteria: tuple[Criterion, ...] = ()
    measures: tuple[str, ...] = ()
    only_issues: bool = False
    reply_key: str = ""
    state: Values = {}
    confirmed_at: Moment | None = None
    lessons: tuple[Lesson, ...] = ()


class Generate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """In a loop, `critique` is what was said of the last draft; `history` is there if the step in the plan has it."""

    request: Request
    critique: Critique | None = None
    history: History | None = None


class CritiqueDraft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`history` is there if the step in the plan has it; for a condition, `critique` is what critics said before it."""

    request: Request
    draft: Draft
    history: History | None = None
    critique: Critique | None = None


class Refine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    request: Request
    draft: Draft
    critique: Critique | None = None
    history: History = History()


class Publish(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    request: Request
    draft: Draft


class RunStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """`draft` is the current one, if any, `critique` what is said of it; `history` is as in CritiqueDraft."""

    request: Request
    draft: Draft | None = None
    critique: Critique | None = None
    history: History | None = None


class Generated(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    run: str
    path: str
    attempt: Ordinal
    text: str
    media_type: str = "text/plain"
    usage: Usage = Usage()
    state: Values = {}


class Critiqued(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of CritiqueDraft: a critique, with a score of 0..1, of the draft of this version and hash. Without
    `hermetic` its critic looked at more than it was given: no other run takes its verdict."""

    run: str
    path: str
    attempt: Ordinal
    draft: DraftRef
    critique: Critique
    usage: Usage = Usage()
    state: Values = {}
    hermetic: bool = True


class Refined(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of Refine: the whole new `text`, or `edits` of the draft, or both, which then say the same.

    Each edit's `quote` stands in the draft exactly once, and no two edits overlap. `refusals` are the issues, by id,
    that the refiner would not act on.
    """

    run: str
    path: str
    attempt: Ordinal
    text: str = ""
    changes: tuple[str, ...] = ()
    exit: bool = False
    usage: Usage = Usage()
    declined: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    saved_tokens: Tokens = 0
    state: Values = {}


class Published(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    run: str
    path: str
    attempt: Ordinal
    draft: DraftRef
    receipt: Receipt
    usage: Usage = Usage()
    state: Values = {}


class Completed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    run: str
    path: str
    attempt: Ordinal
    state: Values = {}
    usage: Usage = Usage()


class Failed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A request could not be served. `retryable=False`: another attempt would not help."""

    run: str
    path: str
    attempt: Ordinal
    kind: FailureKind
    message: str
    retryable: bool = True
    usage: Usage = Usage()


class StartRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Starts a run. `key` is the caller's idempotency key, from which the run's id was made.

    With a `parent` the run is a fork: it begins with the parent's events up to that version. Its plan has the same
    steps; their settings, and when loops end and which draft they keep, may differ. `files` are dropped from a message
    that came by a broker: no process loads a file that a message names. `state` are changes by which a fork begins, of
    the author `by`. `of` is the item of another run that this one is to work on: only a coordinator sends such a start.
    """

    run: str
    plan: Plan
    brief: Brief
    key: str = ""
    tags: Tags = ()
    parent: Parent | None = None
    files: Files = Files()
    state: Values = {}
    by: str = ""
    of: ItemOf | None = None


class CancelRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person cancels a run: `by` names the person, `reason` says why. `key` is the idempotency key of the command."""

    run: str
    reason: str
    by: str = ""
    key: str = ""


class GuideRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person's advice for the next refinement."""

    run: str
    advice: str
    reason: str = ""
    by: str = ""
    key: str = ""


class ChangeLimits(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Changes when a loop ends, by its path in the plan (empty: the only outermost loop). None changes nothing."""

    run: str
    loop: str = ""
    until: Condition | None = None
    max_iterations: int | None = None
    reason: str = ""
    by: str = ""
    key: str = ""


class PauseRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Pauses a run: nothing more is requested until it is resumed. Outcomes of running steps are still recorded."""

    run: str
    reason: str = ""
    by: str = ""
    key: str = ""


class ResumeRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    run: str
    reason: str = ""
    by: str = ""
    key: str = ""


class RetryStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The timekeeper reports that the backoff after this failed attempt is over."""

    run: str
    path: str
    attempt: Ordinal


class ExpireStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The timekeeper reports that the answer of this attempt is overdue.

    `queued`: the request may still wait in its queue, from which workers take. `unserved` is how many seconds no worker
    has served the actor since the request; if it is not 0, the coordinator gives the request up before it is due.
    """

    run: str
    path: str
    attempt: Ordinal
    queued: bool = False
    unserved: float = 0.0


class ConfirmStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A worker asks whether this attempt, sent `sent` times, has no answer. If so, the coordinator sends it again.

    `sent` is 0 where the request counts as never sent: the asking worker holds it, and no other can have begun it.
    """

    run: str
    path: str
    attempt: Ordinal
    sent: Times


Work: TypeAlias = Generate | CritiqueDraft | Refine | Publish | RunStep
OutcomeMessage: TypeAlias = Generated | Critiqued | Refined | Published | Completed | Failed
ANSWERS: Final = (Critiqued, Refined, Generated, Published, Completed, Failed, ConfirmStep)
"""The messages that workers send about a request: its outcome, or the question whether it still has none."""


SteeringMessage: TypeAlias = (
    GuideRun | ChangeLimits | PauseRun | ResumeRun | CancelRun | ApproveDraft | RejectDraft | EditDraft
)
"""The commands with which people steer a running run."""

Message: TypeAlias = (
    OutcomeMessage
    | StartRun
    | RetryStep
    | ExpireStep
    | ConfirmStep
    | EraseRun
    | QuarantineRun
    | StrikeLesson
    | SteeringMessage
)

WORK_NAMES: dict[type[Work], str] = {
    Generate: "draft.generate.v1",
    CritiqueDraft: "draft.critique.v1",
    Refine: "draft.refine.v1",
    Publish: "draft.publish.v1",
    RunStep: "step.run.v1",
}
ROLES: dict[type[Work], Role] = {
    Generate: "generator",
    CritiqueDraft: "critic",
    Refine: "refiner",
    Publish: "publisher",
    RunStep: "step",
}
OUTCOMES: dict[type[Work], type[OutcomeMessage]] = {
    Generate: Generated,
    CritiqueDraft: Critiqued,
    Refine: Refined,
    Publish: Published,
    RunStep: Completed,
}
"""The outcome of each request whose work succeeded."""
MESSAGE_NAMES: dict[type[Message], str] = {
    Generated: "outcome.generated.v1",
    Critiqued: "outcome.critiqued.v1",
    Refined: "outcome.refined.v1",
    Published: "outcome.published.v1",
    Completed: "outcome.completed.v1",
    Failed: "outcome.failed.v1",
    StartRun: "run.start.v1",
    CancelRun: "run.cancel.v1",
    EraseRun: "run.erase.v1",
    QuarantineRun: "run.quarantine.v1",
    StrikeLesson: "lesson.strike.v1",
    GuideRun: "run.guide.v1",
    ChangeLimits: "run.limit.v1",
    PauseRun: "run.pause.v1",
    ResumeRun: "run.resume.v1",
    ApproveDraft: "run.approve.v1",
    RejectDraft: "run.reject.v1",
    EditDraft: "run.edit.v1",
    RetryStep: "step.retry.v1",
    ExpireStep: "step.expire.v1",
    ConfirmStep: "step.confirm.v1",
}


def request_id(run: str, path: str, attempt: int) -> str:
    """Returns the id of a request for work, which is the same however often it is sent."""
    return f"{run}/{path}#{attempt}"
