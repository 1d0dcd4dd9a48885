"""A plan: a workflow as data, and the rules by which its run is decided. `RunStarted` stores all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.events.errors import CodecError, UnknownRules
from redraft.events.messages.conditions import Condition
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import Scale

RULES: Final = 9
"""The rules version of new runs."""


def known(rules: int) -> int:
    """Returns the rules version. Raises UnknownRules for a later release's, CodecError for a number below 1."""
    if rules < 1:
        raise CodecError(f"the run follows rules {rules}; the first are rules 1")
    if rules > RULES:
        raise UnknownRules(rules)
    return rules


Role: TypeAlias = Literal["generator", "critic", "refiner", "publisher", "step", "run"]
"""The roles of actors. A `step` has none of the four of refinement: what it returns changes the run's state.

A `run` is no actor: a run of its own does the work, see `Each`.
"""

ACTOR_ROLES: Final[tuple[Role, ...]] = ("generator", "critic", "refiner", "publisher", "step")
"""The roles that an actor may have."""

Keep: TypeAlias = Literal["best", "last"]
Combine: TypeAlias = Literal["min", "median", "mean", "weights", "veto"]
OnFailure: TypeAlias = Literal["fail", "publish_best"]
OnOscillation: TypeAlias = Literal["ignore", "publish", "stop", "ask", "fail", "tell", "raise_temperature"]
Ending: TypeAlias = Literal["publish", "ask", "fail"]
OnStepFailure: TypeAlias = Literal["end", "refine"]
Reuse: TypeAlias = Literal["run", "always"]
OnDeadline: TypeAlias = Literal["approve", "reject", "fail"]
Option: TypeAlias = bool | int | float | str | list[str | int] | dict[str, str | int | float]


class Retry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The number of attempts of a step (at least 1, the first included) and the backoff between them, in seconds.

    The backoff after attempt n is `initial * factor ** (n - 1)`, at most `maximum`, times a jitter of 0.5..1 that is
    derived from the request's id.
    """

    attempts: int = 3
    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0


DEFAULT_TIMEOUT: Final = 300.0
DEFAULT_RETRY: Final = Retry()
DEFAULT_ROLLBACK_MARGIN: Final = 0.1
DEFAULT_CONCURRENCY: Final = 4
"""Settings of a plan that names none. An encoded plan omits these very objects, so builders take them from here."""


class Arm(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of the actors that a step chooses among. `name` is the key of its successes; its `options` come first."""

    actor: str
    name: str
    options: dict[str, Option] = {}
    version: str = ""


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A criterion of a critic: a name for conditions, a sentence that says what is meant, a scale, and a weight.

    Without a scale of its own it has the critic's. The critic's score is the weighted mean, unless it gives one itself.
    """

    name: str
    says: str = ""
    scale: Scale | None = None
    weight: float = 1.0


def measure_name(declared: str) -> str:
    """Returns the name of a measure as it is declared: `coverage` of `coverage?`, which may be missing."""
    return declared.removesuffix("?")


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="step"):
    """One piece of work by one actor in one role. An attempt has `timeout` seconds; the actor gets the `options`.

    `version` is the version of the actor's code with which the run began; empty when none was declared. A critic that
    is a `gate` runs before the others: a draft that it does not pass (full score without errors, or its approval)
    cannot be accepted or published, whatever its score, and the critics that are no gates are not called for it.
    `queue_wait` is how many seconds the step waits while no worker serves its actor (None: the deployment's setting).

    With `choose` there is no `actor`: each time the step is requested, one of these arms (at least two) is chosen by
    the outcomes of earlier runs in which each took part; a run is a success when it is accepted or, if `success` is
    given, when this condition holds for the draft that it ends with.

    A critic's `scale`, `criteria` and `measures` are those that it declares; a measure whose name ends with `?` may be
    missing. A gate with a condition in `passes` passes what meets that, instead. A refiner
    with `only_issues` may change nothing but the places that the issues of the draft's critiques quote, unless people
    gave it advice.

    With `history` a generator or critic is given the history that every refiner has, and each of them the texts of so
    many of the latest drafts that were judged before. A critic with `when` is asked after the critics before it in a
    row, or after those of its panel without one, and only if this condition holds on what they have said of the draft.
    With `reuse` a verdict of the critic is taken again where this step is given the very same: one of the same run, or
    (`always`) of any run in the store. `writes` names the values of the run's state that the actor may change; empty
    where it does not say; with `about_run` the values of a free step are about the run and not about its drafts: they
    stay true for later ones. A critic that is a `condition` is given what the critics before it in its row said of the
    draft; its one measure, of the actor's name, is 1 if the condition holds and 0 if not.
    """

    role: Role
    actor: str
    name: str
    timeout: float = DEFAULT_TIMEOUT
    retry: Retry = DEFAULT_RETRY
    options: dict[str, Option] = {}
    version: str = ""
    gate: bool = False
    choose: tuple[Arm, ...] = ()
    queue_wait: float | None = None
    scale: Scale | None = None
    criteria: tuple[Criterion, ...] = ()
    passes: Condition | None = None
    success: Condition | None = None
    measures: tuple[str, ...] = ()
    only_issues: bool = False
    history: int | None = None
    when: Condition | None = None
    reuse: Reuse | None = None
    writes: tuple[str, ...] = ()
    condition: bool = False
    about_run: bool = False


class Parallel(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="parallel"
):
    """Steps of one role that run at the same time; done when all, the first, or `wait` of them have answered.

    `combine` joins the critics' scores (`weights` are in the order of the steps; `veto`: one `approved=False` makes the
    score 0, otherwise the mean). Generators and refiners need a `judge`, a critic that scores each draft; the best
    draft goes on. With a `deadline`, in seconds, all critics are awaited until then, and after it as few as `wait`
    requires.
    """

    name: str
    steps: tuple[Step, ...]
    wait: int | Literal["all", "first"] = "all"
    combine: Combine = "min"
    weights: tuple[float, ...] = ()
    judge: Step | None = None
    deadline: float | None = None


class Repeat(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="repeat"
):
    """A body that is repeated until the condition holds, for at most `max_iterations` iterations (at least 1).

    `keep` selects the loop's result when no draft met the condition: of the publishable drafts, the best judged or the
    last. When a refinement scores lower than the best by more than `rollback_margin`, the next one starts from the best
    draft again. The margin is read on the critics' scale, as a number of a condition with its `rollback_top`; the
    default is a tenth of any. `rollback_of` is a criterion to look at instead of the score. `on_oscillation` applies
    when a refinement repeats an earlier draft or undoes a change: nothing happens, the loop ends, the next refiner gets
    a note, or its option `temperature` rises by 0.2.

    When the loop ends without its condition (`on_exhausted`) or as `plateaued`, its draft goes on, people are asked
    about it as `ask` says, or the run ends without publishing; `on_oscillation` says the same of an oscillating loop.
    With `on_failure` "refine", the error of a critic or free step of the body that fails for good is what the next
    refinement is told, at most `max_failures` times before the loop ends.
    """

    name: str
    until: Condition
    max_iterations: int
    body: tuple[Node, ...]
    keep: Keep = "best"
    rollback_margin: float = DEFAULT_ROLLBACK_MARGIN
    on_oscillation: OnOscillation = "ignore"
    rollback_of: str = ""
    rollback_top: float | None = None
    on_exhausted: Ending = "publish"
    on_plateau: Ending = "publish"
    ask: Approve | None = None
    on_failure: OnStepFailure = "end"
    max_failures: int = 3


class Approve(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="approve"
):
    """People decide on the current draft: it goes on once `quorum` of the `approvers` (empty: anybody) approved it.

    One rejection is enough. In a loop it is advice for the next refinement; else the run ends as rejected. When the
    `deadline` (seconds) passes without a decision, `on_deadline` applies.
    """

    name: str
    approvers: tuple[str, ...] = ()
    quorum: int = 1
    deadline: float = 86400.0
    on_deadline: OnDeadline = "reject"


class Each(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="node", tag="each"):
    """A body that is carried out once for each item of a list in the run's state, side by side.

    `over` names the list: `chapters`, or `item.sections` of a mapping. Each item is worked on by a run of its own. Its
    plan is the body, its state that of this run with the `item` and its `index` (from 1). At most `concurrency` of them
    run at once. When all have ended, their drafts, in the order of the list, are finished drafts of this run, and the
    last of them is its current one. If one of them ends without a draft, the step for it has failed.
    """

    name: str
    over: str
    body: tuple[Node, ...]
    concurrency: int = DEFAULT_CONCURRENCY


Node: TypeAlias = Step | Parallel | Repeat | Approve | Each


def members(parallel: Parallel) -> tuple[Step, ...]:
    """Returns the steps, and the judge if there is one."""
    return parallel.steps if parallel.judge is None else (*parallel.steps, parallel.judge)


def nodes_of(nodes: Iterable[Node], parent: str = "", *, own: bool = False) -> Iterator[tuple[str, Node]]:
    """Yields every node, at every depth, with its path in the plan: outer ones first, a judge after its steps.

    With `own` those that are carried out by runs of their own, in the body of an Each, are left out.
    """
    for node in nodes:
        path = f"{parent}/{node.name}" if parent else node.name
        yield path, node
        if type(node) is Repeat or (type(node) is Each and not own):
            yield from nodes_of(node.body, path, own=own)
        elif type(node) is Parallel:
            yield from nodes_of(members(node), path)


def may_leave_steps(nodes: Iterable[Node]) -> bool:
    """Returns whether one of these nodes may go on without the answers of some steps that were requested."""
    panels = [node for _, node in nodes_of(nodes) if type(node) is Parallel]
    return any(node.deadline is not None or node.wait not in ("all", len(node.steps)) for node in panels)


def loops_of(nodes: Iterable[Node]) -> Iterator[tuple[str, Repeat]]:
    """Yields every loop with its path in the plan, outer ones first."""
    return ((path, node) for path, node in nodes_of(nodes) if isinstance(node, Repeat))


def describe_endings(loop: Repeat) -> str:
    """Returns the ends of a loop at which its draft does not just go on: `exhausted: ask ann`; empty if none."""
    ask = " ".join(("ask", ", ".join(loop.ask.approvers if loop.ask else ()))).rstrip()
    endings = {"exhausted": loop.on_exhausted, "plateaued": loop.on_plateau, "oscillating": loop.on_oscillation}
    return ", ".join(
        f"{outcome}: {ask if ending == 'ask' else ending}"
        for outcome, ending in endings.items()
        if ending in ("ask", "fail")
    )


def steps_of(nodes: Iterable[Node], *, own: bool = False) -> Iterator[tuple[str, Step]]:
    """Yields every step with its path in the plan, in the order of the plan; with `own` as in `nodes_of`."""
    return ((path, node) for path, node in nodes_of(nodes, own=own) if isinstance(node, Step))


def eaches_of(nodes: Iterable[Node]) -> Iterator[tuple[str, Each]]:
    """Yields every Each of a run's own plan with its path in it: not those within the body of another."""
    return ((path, node) for path, node in nodes_of(nodes, own=True) if isinstance(node, Each))


def scale_of_critics(nodes: Iterable[Node]) -> Scale | None:
    """Returns the scale that all critics of these nodes declare; None if they do not declare one.

    Gates and conditions of one's own are left aside.
    """
    critics = [step for _, step in steps_of(nodes, own=True) if step.role == "critic"]
    scales = {step.scale for step in critics if not (step.gate or step.condition)}
    return scales.pop() if len(scales) == 1 else None


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Upper limits of a run's usage; None is no limit. `cost` is in the unit that actors report, `calls` are to models.

    `seconds` count from the start of the run, waits included.
    """

    tokens: int | None = None
    cost: float | None = None
    calls: int | None = None
    seconds: float | None = None


ValueKind: TypeAlias = Literal["any", "bool", "int", "float", "str", "list", "dict"]


class StateField(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The name and the type of a value of the run's state; one that is `optional` may also be null.

    A `float` may be any number.
    """

    name: str
    kind: ValueKind = "any"
    optional: bool = False


class StateSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The state that runs of a plan have: its `fields`, if any the only ones, and the values that it begins with."""

    fields: tuple[StateField, ...] = ()
    defaults: Values = {}


class LessonsSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """At most `limit` lessons of earlier runs of a `workflow` (empty: of this plan's own) that runs are given."""

    workflow: str = ""
    limit: int = 10


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A workflow's name and nodes, and whether a step that fails for good ends the run or publishes the best draft.

    `budget` is for one run, `daily` for all runs of this workflow that begin on one day (UTC) together. `state` is what
    the plan says of the run's state; without it any value may be there. With `lessons`, generators and refiners are
    given lessons of earlier runs.
    """

    name: str
    steps: tuple[Node, ...]
    on_failure: OnFailure = "fail"
    budget: Budget | None = None
    daily: Budget | None = None
    state: StateSpec | None = None
    lessons: LessonsSpec | None = None
