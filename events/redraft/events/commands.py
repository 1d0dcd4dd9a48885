"""What can be asked, and what a worker answers.

Requests go from the relay to one actor's queue. Outcomes and people's commands go to the coordinator's inbox.
A request carries all that the work needs; a worker holds no state and no database password.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, TypeAlias

import msgspec

from redraft.events.conditions import Condition
from redraft.events.content import MOST_EVENTS, Brief, Critique, Draft, DraftRef, History, Ordinal, Receipt
from redraft.events.domain_events import FailureKind, Parent
from redraft.events.plan import Option, Plan, Role
from redraft.events.tags import Tags
from redraft.events.usage import Usage

Times: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_EVENTS - 1)]


class Request(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What every request for work says: which step, which try, how long (seconds), and the brief.

    `id` is derived from run, path (which holds the iterations) and attempt: the idempotency key of the work.
    `sent` counts how often this request was sent. One that may have been served already (`sent` above 1, or delivered
    again) is confirmed with the coordinator before the work starts; `confirmed` says that this was done.
    `version` is that of the actor's code which the plan names, if it names one. `beside` are the drafts, in the order
    of their steps, among which the judge of a parallel compares the one that it judges. `asked` is when it
    was asked for (UTC): one that has waited longer than requests may is confirmed before the work starts.
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
    asked: datetime | None = None


class Generate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    request: Request


class CritiqueDraft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    request: Request
    draft: Draft


class Refine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    request: Request
    draft: Draft
    critique: Critique | None = None
    history: History = History()


class Publish(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    request: Request
    draft: Draft


class Generated(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of Generate."""

    run: str
    path: str
    attempt: Ordinal
    text: str
    media_type: str = "text/plain"
    usage: Usage = Usage()


class Critiqued(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of CritiqueDraft: a critique, its score normalised to 0..1, of the draft of this version and hash."""

    run: str
    path: str
    attempt: Ordinal
    draft: DraftRef
    critique: Critique
    usage: Usage = Usage()


class Refined(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of Refine."""

    run: str
    path: str
    attempt: Ordinal
    text: str
    changes: tuple[str, ...] = ()
    exit: bool = False
    usage: Usage = Usage()
    declined: tuple[str, ...] = ()


class Published(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The outcome of Publish."""

    run: str
    path: str
    attempt: Ordinal
    draft: DraftRef
    receipt: Receipt
    usage: Usage = Usage()


class Failed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A request could not be served. `retryable=False`: trying again would not help."""

    run: str
    path: str
    attempt: Ordinal
    kind: FailureKind
    message: str
    retryable: bool = True
    usage: Usage = Usage()


class StartRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Begin a run. `key` is the caller's idempotency key, already part of how the run's id was made.

    With a `parent` it is a fork: it begins with the parent's events up to that version. Its plan has the same steps, of
    which how they are done, and when loops end and what they keep, may differ.
    """

    run: str
    plan: Plan
    brief: Brief
    key: str = ""
    tags: Tags = ()
    parent: Parent | None = None


class CancelRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person ends a run: `by` says who, `reason` why. `key` is the idempotency key of what a person says."""

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
    """Another condition or number of passes for a loop, by its path in the plan (empty: the one outermost loop)."""

    run: str
    loop: str = ""
    until: Condition | None = None
    max_iterations: int | None = None
    reason: str = ""
    by: str = ""
    key: str = ""


class PauseRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Nothing more is asked for until the run is resumed; what is under way is still recorded."""

    run: str
    reason: str = ""
    by: str = ""
    key: str = ""


class ResumeRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    run: str
    reason: str = ""
    by: str = ""
    key: str = ""


class EraseRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The key of a run that has ended was destroyed: record by whom (`by`) and why (`reason`)."""

    run: str
    by: str
    reason: str = ""


class QuarantineRun(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person sets a run aside, whatever is recorded of it: `by` says who, `reason` why."""

    run: str
    by: str
    reason: str
    key: str = ""


class RetryStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The timekeeper's word that the wait after this failed attempt is over."""

    run: str
    path: str
    attempt: Ordinal


class ExpireStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The timekeeper's word that this attempt's answer is overdue.

    `queued`: the request may still wait in its queue, from which workers take. `unserved` is how many seconds no worker
    has served the actor since it was asked; if that is not 0, the request is given up before it is due.
    """

    run: str
    path: str
    attempt: Ordinal
    queued: bool = False
    unserved: float = 0.0


class ConfirmStep(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A worker's question: is this attempt, sent so often by now, still without an answer? If so, it is sent again.

    `sent` is 0 where the request is as good as never sent: whoever asks has it, and nobody can have begun it.
    """

    run: str
    path: str
    attempt: Ordinal
    sent: Times


Work: TypeAlias = Generate | CritiqueDraft | Refine | Publish
OutcomeMessage: TypeAlias = Generated | Critiqued | Refined | Published | Failed
ANSWERS: Final = (Critiqued, Refined, Generated, Published, Failed, ConfirmStep)
"""What workers say of a request: its outcome, or that they ask whether it still has none."""


class ApproveDraft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person approves the draft that is waited for; one of another version or hash is not meant."""

    run: str
    draft: DraftRef
    reason: str = ""
    by: str = ""
    key: str = ""


class RejectDraft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person rejects the draft that is waited for; `reason` is the feedback."""

    run: str
    draft: DraftRef
    reason: str = ""
    by: str = ""
    key: str = ""


class EditDraft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A person's own draft, made from `before`."""

    run: str
    before: DraftRef
    text: str
    reason: str = ""
    by: str = ""
    key: str = ""


SteeringMessage: TypeAlias = (
    GuideRun | ChangeLimits | PauseRun | ResumeRun | CancelRun | ApproveDraft | RejectDraft | EditDraft
)
"""What people say to a run that goes on."""

Message: TypeAlias = (
    OutcomeMessage | StartRun | RetryStep | ExpireStep | ConfirmStep | EraseRun | QuarantineRun | SteeringMessage
)

WORK_NAMES: dict[type[Work], str] = {
    Generate: "draft.generate.v1",
    CritiqueDraft: "draft.critique.v1",
    Refine: "draft.refine.v1",
    Publish: "draft.publish.v1",
}
ROLES: dict[type[Work], Role] = {
    Generate: "generator",
    CritiqueDraft: "critic",
    Refine: "refiner",
    Publish: "publisher",
}
MESSAGE_NAMES: dict[type[Message], str] = {
    Generated: "outcome.generated.v1",
    Critiqued: "outcome.critiqued.v1",
    Refined: "outcome.refined.v1",
    Published: "outcome.published.v1",
    Failed: "outcome.failed.v1",
    StartRun: "run.start.v1",
    CancelRun: "run.cancel.v1",
    EraseRun: "run.erase.v1",
    QuarantineRun: "run.quarantine.v1",
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
    """The id of a request for work, the same however often it is sent."""
    return f"{run}/{path}#{attempt}"
