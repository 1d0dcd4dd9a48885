"""The state of a run, folded from its events: its place in the plan, its open requests, its drafts."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.actors.conditions.values import asks_critics
from redraft.actors.deciding.facts import Track
from redraft.actors.deciding.judgement import Judgement
from redraft.actors.plans.paths import gates_of, has_critics, is_critic, is_gate, judges_itself, role_of
from redraft.events.messages.content import Brief, Critique, DraftRef
from redraft.events.messages.domain_events import ApprovalRequested, DraftCritiqued, ItemOf, Outcome, StepRequested
from redraft.events.messages.plan import Approve, Each, Node, Parallel, Plan, Repeat, Step
from redraft.events.messages.run_state import Value, Values
from redraft.events.messages.usage import Usage


def number_of(parallel: ParallelState, event: DraftCritiqued, open_step: OpenStep | None) -> int:
    """Returns the number (from 0) of the candidate that was judged, or else of the critic, whichever arm it is."""
    if parallel.judging:
        return parallel.candidates.index(event.draft) if event.draft in parallel.candidates else 0
    if open_step is None:
        return 0
    return next(number for number, step in enumerate(parallel.node.steps) if step.name == open_step.step.name)


def stopped_by_gate(parallel: ParallelState) -> bool:
    """Returns whether all gates have answered and one of them has failed."""
    return len(parallel.verdicts) == gates_of(parallel.node) and any(
        each.gate == "failed" for _, each in parallel.verdicts
    )


def weights_of(parallel: ParallelState) -> tuple[float, ...]:
    """Returns the weights of the critics that answered, in their order; none if the plan gives none."""
    return tuple(parallel.node.weights[number] for number, _ in parallel.verdicts) if parallel.node.weights else ()


_OWN_CRITICS: Final = 6
"""The rules from which on a loop with critics of its own is not ended by what those of an inner loop said."""

Status: TypeAlias = Literal["new", "running", "ended", "quarantined"]
Due: TypeAlias = Literal["nothing", "judged", "output", "approved", "state"]


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A draft, and its judgement once its critics have answered."""

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


class ParallelState(msgspec.Struct, frozen=True, gc=False):
    """A Parallel node in progress: its requests and the answers so far.

    `requested` counts the steps requested, `failed` those that will not answer, `answered` the publishers that
    answered; `candidates` are new drafts, and `verdicts` the judgements so far: by the number of the critic, or, once
    `judging`, of the candidate (both from 0). `until` is when the wait for all critics of a panel with a deadline ends;
    `skipped` counts the critics that are not asked about this draft. `wrote` are the values of the run's state that its
    steps changed, each with the path of the one that did.
    """

    node: Parallel
    requested: int = 0
    failed: int = 0
    answered: int = 0
    candidates: tuple[DraftRef, ...] = ()
    judging: bool = False
    verdicts: tuple[tuple[int, Judgement], ...] = ()
    until: datetime | None = None
    skipped: int = 0
    wrote: dict[str, str] = {}


class EachState(msgspec.Struct, frozen=True, gc=False):
    """An Each in progress: its `items`, of which the runs of the first `requested` were asked for, and their drafts.

    `made` are the drafts of those that have ended, by the number of the item (from 1).
    """

    node: Each
    items: tuple[Value, ...]
    requested: int = 0
    made: dict[int, DraftRef] = {}


class Made(msgspec.Struct, frozen=True, gc=False):
    """A draft of a loop: its version, the one it was made from, its lines, if known, and the bytes that these take."""

    version: int
    before: int
    sha256: str
    lines: frozenset[str] | None
    size: int = 0


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A body of nodes in progress: the plan's own (`node` is None), or one iteration of a loop's.

    A `review` is the critics' look at a person's draft: the suffix of their names, after the prefix in `path`. `path`
    of a loop is without its iteration. By rules 1 `best` and `last` are what leaves a loop; by rules 2 `judged` are the
    drafts that its own critics judged, `best` the best of these while nothing is barred, `entry` the judged draft that
    it began with, and `inner` the draft that a loop inside it ended with last. `verdicts` are the critiques of the
    current draft by critics in a row; `due` is why the condition has to be checked, if it has to; `exit` says that a
    refiner has nothing more to change. `made` are the loop's drafts, `swings` the latest oscillations, `heat` their
    number, and `swung` what the last draft repeated or undid; all empty unless the loop looks for oscillation. `tracks`
    are the scores of criteria that the condition looks back on. `ended` is how the last loop inside it ended,
    `failures` how many failures of steps were left to a refinement. `each` is the Each in progress, if any. `began` is
    the version of the draft that the loop began with.
    """

    body: tuple[Node, ...]
    path: str = ""
    node: Repeat | None = None
    index: int = 0
    iteration: int = 0
    closing: tuple[Outcome, str] | None = None
    parallel: ParallelState | None = None
    verdicts: tuple[Judgement, ...] = ()
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
    tracks: dict[str, Track] = {}
    ended: Outcome | None = None
    failures: int = 0
    each: EachState | None = None
    began: int = 0


class Approval(msgspec.Struct, frozen=True, gc=False):
    """An approval that people are asked for; `by` are those who approved so far."""

    node: Approve
    request: ApprovalRequested
    by: tuple[str, ...] = ()


class Failure(msgspec.Struct, frozen=True, gc=False):
    """The cause for which a run cannot go on: usually a step that failed for good. `reason` is a sentence."""

    reason: str
    publishing: bool = False
    outcome: Outcome = "failed"


class Pick(msgspec.Struct, frozen=True, gc=False):
    """An arm of the step at this path in the plan that took part in the run.

    `spoke` is the version of its last critique, 0 if it is no critic; `failed`: its step failed for good; `alone` is
    the SHA-256 of a draft that was accepted by its critique alone.
    """

    step: str
    arm: str
    spoke: int = 0
    failed: bool = False
    alone: str = ""


class Bars(msgspec.Struct, frozen=True, gc=False):
    """By hash: why gates and critics bar drafts, and the drafts for which people overruled the critics."""

    gates: dict[str, str] = {}
    vetoes: dict[str, str] = {}
    overruled: frozenset[str] = frozenset()


class RunState(msgspec.Struct, frozen=True, gc=False):
    """The whole state of a run.

    `version` counts its events; `drafts` its drafts; `loop` is how the last outermost loop ended. `advice` are the
    versions of advice that no refiner has heeded yet; `steered` the keys of the latest steering messages; `cancelled`
    why a person ended the run. `approval` is the approval being asked for, `approved` the draft that people approved
    last, `rejected` the hashes of those that they rejected, `refused` how that ends the run; `edits` counts the drafts
    of people. `used` is the most that one attempt of each actor used, by its role and name, if the plan has a budget.
    `late` are requests that a panel went on without. `picks` are the arms that took part and are not credited yet;
    `inherited` is how many of the events a fork repeats from its parent. `rules` are those that it began under; `bars`
    are, from rules 2 on, the drafts that may not be published. `verdicts` are those that may be taken again: by the key
    of their request, their event's version and their critique. `of` is the item of another run that the run works on,
    if any. `values` are those of the run's state, `writers` the
    steps, by their paths in the plan, that changed them last; `looked` are the versions of the drafts about which the
    steps that may change them answered last. `untold` are the failures of steps on the current draft that no
    refinement was told of.
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
    struck: frozenset[str] = frozenset()
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
    verdicts: dict[str, tuple[int, Critique]] = {}
    values: Values = {}
    writers: dict[str, str] = {}
    looked: dict[str, int] = {}
    untold: tuple[int, ...] = ()
    of: ItemOf | None = None


def prefix(frame: Frame) -> str:
    """Returns the part of a path before the names of a frame's nodes."""
    if frame.review is not None:
        return frame.path
    if frame.node is None:
        return ""
    return f"{frame.path}[closing]/" if frame.closing else f"{frame.path}[{frame.iteration}]/"


def with_top(state: RunState, top: Frame) -> RunState:
    """Returns the state with another innermost frame."""
    return replace(state, frames=(*state.frames[:-1], top))


def frame_at(frame: Frame, path: str) -> Frame:
    """Returns the frame at the node of this path; nodes before it that were never requested are skipped."""
    if frame.review is not None:
        return frame
    name = path.removeprefix(prefix(frame)).split("/")[0]
    for place in range(frame.index, len(frame.body)):
        if frame.body[place].name == name:
            return frame if place == frame.index else replace(frame, index=place)
    return frame


def is_publisher(node: Node) -> bool:
    """Returns whether a node publishes the current draft itself."""
    return role_of(node) == "publisher"


def failed_a_gate(draft: Candidate | None) -> bool:
    """Returns whether the draft failed a gate."""
    return draft is not None and draft.judgement is not None and draft.judgement.gate == "failed"


def waits_for_own_critics(state: RunState, top: Frame, loop: Repeat) -> bool:
    """Returns whether critics of a loop have not judged its draft: one of an inner loop, by rules 6, the best of
    several, by rules 8, or any other one about which the run's state has changed.
    """
    if top.due == "state":
        judged = state.current is not None and any(each.ref == state.current.ref for each in top.judged)
        return bool(top.verdicts) or (needs_judges(state, loop) and not judged)
    return top.due == "output" and state.rules >= _OWN_CRITICS and needs_judges(state, loop)


CRITICS_DECIDE: Final = 8
"""The rules from which on the judge's word on the best of several drafts is not that of a loop's critics."""

EDITS_ARE_OUTPUTS: Final = 9
"""The rules from which on an edit made while people are asked replaces its original among loops' finished drafts."""

INNER_LOOPS_FIRST: Final = 9
"""The rules from which on the end of an inner loop ends no loop while another one is still to work on the draft."""


def needs_judges(state: RunState, loop: Repeat) -> bool:
    """Returns whether a draft has to be judged before the loop's condition can hold for it.

    By rules 8 it has not in a loop without critics whose condition asks for nothing that they say: a judge of several
    drafts in it only chooses.
    """
    if state.rules < CRITICS_DECIDE:
        return judges_itself(loop)
    return has_critics(loop) or (judges_itself(loop) and asks_critics(loop.until))


def counts_for(state: RunState, frame: Frame, draft: DraftRef) -> bool:
    """Returns whether what was said of a draft counts for a loop.

    By rules 8, if it has critics, what they said does, or what was said before it began; not what a judge of several
    drafts or an inner loop said.
    """
    if state.rules < CRITICS_DECIDE or frame.node is None or not has_critics(frame.node):
        return True
    known = frame.judged if frame.entry is None else (*frame.judged, frame.entry)
    return any(each.ref == draft for each in known)


def after_critics(body: tuple[Node, ...], index: int, judgement: Judgement) -> int:
    """Returns the index after the critic at `index`; after a failed gate, that of the next gate or past the critics."""
    following = index + 1
    if judgement.gate == "failed":
        while following < len(body) and is_critic(body[following]) and not is_gate(body[following]):
            following += 1
    return following


def close_step(state: RunState, path: str) -> RunState:
    """Returns the state without the open request at this path."""
    return replace(state, open=without(state.open, path))


def without(open_steps: dict[str, OpenStep], path: str) -> dict[str, OpenStep]:
    """Returns these open requests without the one at this path."""
    if len(open_steps) == 1 and path in open_steps:
        return {}
    return {each: step for each, step in open_steps.items() if each != path}


def close_all(state: RunState) -> RunState:
    """Returns the state without open requests."""
    return replace(state, open={}) if state.open else state
