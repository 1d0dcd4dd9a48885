"""The bodies of requests that begin and steer runs."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from redraft.events.messages.run_state import Values

Words: TypeAlias = Annotated[str, msgspec.Meta(max_length=20_000)]
"""A reason, an advice: some sentences."""

Short: TypeAlias = Annotated[str, msgspec.Meta(max_length=2_000)]
Tags: TypeAlias = Annotated[list[str], msgspec.Meta(max_length=10)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=10**9)]


class BriefText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A brief: its text, what it is and where it came from, and values with which the run's state begins."""

    text: str
    media_type: Short = "text/plain"
    source: Short = ""
    state: Values = {}


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run to begin: a workflow that the server offers, a brief, and what to change in the plan.

    `budget` is as on the command line: `tokens=50000,cost=2`. `state` are values with which the run's state begins, in
    place of the plan's defaults and of the brief's own.
    """

    workflow: Short
    brief: str | BriefText
    tags: Tags = []
    until: Short = ""
    max_iterations: Number | None = None
    budget: Short = ""
    model: Short = ""
    state: Values = {}


class BatchSubmission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many runs of a workflow to begin, one for each brief. The same body means the same runs. `state` is for each."""

    workflow: Short
    briefs: Annotated[list[str | BriefText], msgspec.Meta(min_length=1, max_length=1_000)]
    tags: Tags = []
    until: Short = ""
    max_iterations: Number | None = None
    budget: Short = ""
    model: Short = ""
    state: Values = {}


class Forking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fork to begin: at an event or a time, with settings (`until=score >= 0.9`), another brief, or other tags.

    `state` are values of its state that change. `trust` accepts the plan of a run that was imported.
    """

    at: int | Short
    settings: Annotated[list[Short], msgspec.Meta(max_length=100)] = []
    brief: str | BriefText | None = None
    tags: Tags | None = None
    state: Values = {}
    trust: bool = False


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reason, which is kept in the record."""

    reason: Words = ""


class Guidance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Advice to the next refinement."""

    advice: Words
    reason: Words = ""


class NewLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New limits of a loop (by default the outermost), from now on: its condition, its iterations, or both."""

    until: Short = ""
    max_iterations: Number | None = None
    loop: Short = ""
    reason: Words = ""


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An approval of a draft, by default of the one that is waited for; with `sha256` of that very text alone.

    `step` is the path of the step that asks: where a draft was approved before, it has to be named.
    """

    draft: Number | None = None
    sha256: Short = ""
    reason: Words = ""
    step: Words = ""


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rejection of a draft, as an approval names it, and what the next refinement should take into account."""

    draft: Number | None = None
    sha256: Short = ""
    feedback: Words = ""
    step: Words = ""


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A draft of a person's own, made from that one (by default the newest), which has to be the run's draft still."""

    text: str
    draft: Number | None = None
    sha256: Short = ""
    reason: Words = ""


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The position after which a subscription goes on."""

    to: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0


class Skip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The events that a subscription skips: the one that it is at, or all that are in the log now."""

    to_end: bool = False


Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=1, le=600)]
"""For how long a request is leased."""


class LeaseWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For which actor to lease a request (`critic.judge`), how long to wait for one, and how long to have it."""

    actor: Short
    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 20.0
    seconds: Seconds = 60.0


class Extension(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For how many seconds from now a lease is to go on."""

    seconds: Seconds = 60.0


class WorkAnswer(msgspec.Struct, frozen=True):
    """An outcome, as a CloudEvent: `type` and `data` as `redraft contract` describes them.

    Its other attributes may be left out. A `source` may name the version of the actor (`/redraft/critic%20judge%40v2`).
    """

    type: Short
    data: dict[str, Any]
    source: Short = ""


class GivenBack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request that is given back, with the reason; without `requeue` it becomes a dead letter."""

    reason: Short = ""
    requeue: bool = True
