"""The state of a run, as its events make it: where in the plan it stands, what is asked for, which draft is which."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.actors.judgement import Judgement
from redraft.events.content import Brief, DraftRef
from redraft.events.domain_events import ApprovalRequested, Outcome, StepRequested
from redraft.events.plan import Approve, Node, Parallel, Plan, Repeat, Role, Step
from redraft.events.usage import Usage

Status: TypeAlias = Literal["new", "running", "ended", "quarantined"]
Due: TypeAlias = Literal["nothing", "judged", "output", "approved"]


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A draft, and what was said of it, once its critics have spoken."""

    ref: DraftRef
    judgement: Judgement | None = None


class OpenStep(msgspec.Struct, frozen=True, gc=False):
    """A request without an answer. While `retry_at` is set the last attempt has failed and the next is awaited."""

    step: Step
    request: StepRequested
    retry_at: datetime | None = None

    @property
    def attempt(self) -> int:
        return self.request.attempt

    @property
    def due(self) -> datetime:
        return self.request.due

    @property
    def draft(self) -> DraftRef | None:
        return self.request.draft


class Fan(msgspec.Struct, frozen=True, gc=False):
    """A Parallel node in progress: what was asked, and what has come of it so far.

    `requested` counts the steps asked for; `failed` those that will not answer; `candidates` are new drafts, and
    `heard` the judgements so far: by the number of the critic, or, once `judging`, of the candidate (both from 0).
    `until` is how long all critics of a panel with a deadline are awaited.
    """

    node: Parallel
    requested: int = 0
    failed: int = 0
    answered: tuple[int, ...] = ()
    candidates: tuple[DraftRef, ...] = ()
    judging: bool = False
    heard: tuple[tuple[int, Judgement], ...] = ()
    until: datetime | None = None


class Made(msgspec.Struct, frozen=True, gc=False):
    """A draft of a loop, the version it was made from, its lines, if they are known, and the bytes that these take."""

    version: int
    before: int
    sha256: str
    lines: frozenset[str] | None
    size: int = 0


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A body of nodes in progress: the plan's own (`node` is None), or one pass of a loop's.

    A `review` is the critics' look at a person's draft: the suffix of their names, beside what stands before them in
    `path`. `path` of a loop is without its iteration. By rules 1 `best` and `last` are what leaves a loop; by rules 2
    `judged` are the drafts that its own critics judged, `entry` the judged draft that it began with, and `inner` what a
    loop inside it ended with last. `heard` is what the critics in a row have said of the current
    draft so far; `due` says that the condition is to be looked at, and why; `exit` that a refiner has nothing more to
    change. `made` are the loop's drafts, `swings` the latest oscillations, `heat` their number, and `swung` what the
    last draft repeated or undid; all empty unless the loop looks for it.
    """

    body: tuple[Node, ...]
    path: str = ""
    node: Repeat | None = None
    index: int = 0
    iteration: int = 0
    closing: tuple[Outcome, str] | None = None
    fan: Fan | None = None
    heard: tuple[Judgement, ...] = ()
    due: Due = "nothing"
    exit: bool = False
    best: Candidate | None = None
    last: Candidate | None = None
    peaks: tuple[float, ...] = ()
    seen: tuple[str, ...] = ()
    outputs: tuple[DraftRef, ...] = ()
    review: str | None = None
    made: tuple[Made, ...] = ()
    swings: tuple[str, ...] = ()
    swung: str = ""
    heat: int = 0
    judged: tuple[Candidate, ...] = ()
    entry: Candidate | None = None
    inner: Candidate | None = None


class Approval(msgspec.Struct, frozen=True, gc=False):
    """People are asked to decide; `by` are those who approved so far."""

    node: Approve
    request: ApprovalRequested
    by: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True, gc=False):
    """Why the run cannot go on: as a rule a step that failed for good. `reason` says it in a sentence."""

    reason: str
    publishing: bool = False
    outcome: Outcome = "failed"


class Pick(msgspec.Struct, frozen=True, gc=False):
    """An arm of the step at this path in the plan that took part in the run.

    `spoke` is the version of its last critique, 0 where it is no critic; `failed`: its step failed for good; `alone` is
    the SHA-256 of a draft that was accepted by its word alone.
    """

    step: str
    arm: str
    spoke: int = 0
    failed: bool = False
    alone: str = ""


class Bars(msgspec.Struct, frozen=True, gc=False):
    """By hash: why gates and critics bar drafts, and the drafts of which people overruled the critics."""

    gates: dict[str, str] = {}
    vetoes: dict[str, str] = {}
    overruled: frozenset[str] = frozenset()


class RunState(msgspec.Struct, frozen=True, gc=False):
    """All of a run. `version` counts its events; `drafts` its drafts; `loop` is how the last outermost loop ended.

    `advice` are the versions of what people said that no refiner has heeded yet; `steered` the keys of what people said
    last; `cancelled` why a person ended the run. `approval` is what people are asked, `approved` the draft that they
    approved last, `rejected` the hashes of those that they did not, `refused` how that ends the run; `edits` counts the
    drafts of people. `used` is the most that one attempt of each actor used, by its role and name, where the plan has a
    budget. `late` are requests that a panel went on without. `picks` are the arms that took part and are not credited
    yet; `inherited` is how many of the events are those of the run that this is a fork of. `rules` are those that it
    began under; `bars` say, from rules 2 on, which drafts may not be published.
    """

    status: Status = "new"
    version: int = 0
    plan: Plan = Plan("", ())
    brief: Brief = Brief("")
    started: datetime | None = None
    frames: tuple[Frame, ...] = ()
    open: dict[str, OpenStep] = {}
    drafts: int = 0
    media_type: str = "text/plain"
    current: Candidate | None = None
    best: Candidate | None = None
    iterations: int = 0
    usage: Usage = Usage()
    loop: tuple[Outcome, str] | None = None
    failure: Failure | None = None
    paused: bool = False
    cancelled: str | None = None
    advice: tuple[int, ...] = ()
    steered: tuple[str, ...] = ()
    erased: bool = False
    approval: Approval | None = None
    approved: DraftRef | None = None
    rejected: tuple[str, ...] = ()
    refused: tuple[Outcome, str] | None = None
    edits: int = 0
    used: dict[str, Usage] = {}
    late: dict[str, OpenStep] = {}
    picks: tuple[Pick, ...] = ()
    inherited: int = 0
    rules: int = 1
    bars: Bars = Bars()


def prefix(frame: Frame) -> str:
    """What stands before the names of a frame's nodes in their paths."""
    if frame.review is not None:
        return frame.path
    if frame.node is None:
        return ""
    return f"{frame.path}[closing]/" if frame.closing else f"{frame.path}[{frame.iteration}]/"


def with_top(state: RunState, top: Frame) -> RunState:
    """Returns the state with another innermost frame."""
    return replace(state, frames=(*state.frames[:-1], top))


def standing_at(frame: Frame, path: str) -> Frame:
    """The frame at the node of this path: what lies before it and was not asked for is passed over."""
    if frame.review is not None:
        return frame
    name = path.removeprefix(prefix(frame)).split("/")[0]
    for place in range(frame.index, len(frame.body)):
        if frame.body[place].name == name:
            return frame if place == frame.index else replace(frame, index=place)
    return frame


def role_of(node: Node) -> Role | None:
    """The role of a step, or of those of a parallel; None for a loop and an approval."""
    match node:
        case Step(role=role):
            return role
        case Parallel(steps=steps):
            return steps[0].role
        case Repeat() | Approve():
            return None


def is_critic(node: Node) -> bool:
    """Whether a node judges the current draft itself."""
    return role_of(node) == "critic"


def is_publisher(node: Node) -> bool:
    """Whether a node publishes the current draft itself."""
    return role_of(node) == "publisher"


def failed_a_gate(draft: Candidate | None) -> bool:
    """Whether a gate did not pass the draft."""
    return draft is not None and draft.judgement is not None and draft.judgement.gate == "failed"


def gates_of(node: Parallel) -> int:
    """How many of the steps are gates; they come first, and are heard before the others are asked."""
    return sum(step.gate for step in node.steps)


def after_critics(body: tuple[Node, ...], index: int, judgement: Judgement) -> int:
    """What follows the critic at `index`: once a gate has failed, the next gate, or what comes after the critics."""
    following = index + 1
    if judgement.gate == "failed":
        while following < len(body) and is_critic(body[following]) and not _is_gate(body[following]):
            following += 1
    return following


def _is_gate(node: Node) -> bool:
    return isinstance(node, Step) and node.gate


def asks_people(loop: Repeat | None) -> bool:
    """Whether people decide on what leaves this loop."""
    return loop is not None and any(isinstance(node, Approve) for node in loop.body)


def wanted(node: Parallel) -> int:
    """How many answers a Parallel node waits for."""
    match node.wait:
        case "all":
            return len(node.steps)
        case "first":
            return 1
        case count:
            return count


def closing_body(loop: Repeat) -> tuple[Node, ...]:
    """The critics of a loop's own body, which judge a last draft that nobody has judged."""
    return tuple(node for node in loop.body if is_critic(node))
