"""Builders of a workflow's parts: steps, loops and parallels, each a plan node with the actors given for it.

    parallel("Panel", clarity, step(facts, timeout=60), combine="median")
    repeat("Chapters", until=outputs >= 5, max_iterations=5, body=[write, repeat("Refinement", ...)])

Each call refuses a part that is wrong in itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias, TypedDict

from msgspec.structs import astuple

from redraft.actors.conditions.text import parse_condition, read_margin
from redraft.actors.plans.arms import NAMES
from redraft.actors.plans.check import check_nodes
from redraft.actors.plans.items import list_name
from redraft.actors.plans.paths import role_of
from redraft.actors.values import shown
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.declaring import criteria_of, with_declared
from redraft.events.errors import ActorError, ConditionError, PlanError
from redraft.events.messages.conditions import Condition, Points, StateValue
from redraft.events.messages.plan import (
    DEFAULT_CONCURRENCY,
    DEFAULT_RETRY,
    DEFAULT_ROLLBACK_MARGIN,
    DEFAULT_TIMEOUT,
    Approve,
    Arm,
    Combine,
    Criterion,
    Each,
    Ending,
    Keep,
    Node,
    OnDeadline,
    OnOscillation,
    OnStepFailure,
    Option,
    Parallel,
    Repeat,
    Retry,
    Reuse,
    Role,
    Step,
)
from redraft.events.messages.scales import Scale

Actors: TypeAlias = Mapping[str, Actor]


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A node of a plan and the actors in it, by name."""

    node: Node
    actors: Actors = field(default_factory=lambda: MappingProxyType({}))


Until: TypeAlias = Condition | StateValue | Actor | str
"""A condition, a value of the run's state, a condition of one's own, or the text of a condition."""

Member: TypeAlias = Actor | StepSpec | Node
"""A part of a workflow. An actor stands for a step of its own name; nodes are for actors that run elsewhere."""


class StepSettings(TypedDict, total=False):
    """The settings of a plan's step: see `make_step`."""

    name: str | None
    role: Role | None
    timeout: float
    retry: Retry
    options: dict[str, Option] | None
    version: str
    gate: bool | Condition | str
    queue_wait: float | None
    scale: Scale | None
    criteria: Mapping[str, str | Criterion] | None
    success: Condition | str | None
    measures: Sequence[str]
    only_issues: bool
    history: int | None
    when: Condition | str | None
    reuse: Reuse | None
    writes: Sequence[str]
    condition: bool
    about_run: bool


def make_step(
    actor: Actor | str | None = None,
    *,
    choose: Iterable[Member | str] | None = None,
    name: str | None = None,
    role: Role | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retry: Retry = DEFAULT_RETRY,
    options: dict[str, Option] | None = None,
    version: str = "",
    gate: bool | Condition | str = False,
    queue_wait: float | None = None,
    scale: Scale | None = None,
    criteria: Mapping[str, str | Criterion] | None = None,
    success: Condition | str | None = None,
    measures: Sequence[str] = (),
    only_issues: bool = False,
    history: int | None = None,
    when: Condition | str | None = None,
    reuse: Reuse | None = None,
    writes: Sequence[str] = (),
    condition: bool = False,
    about_run: bool = False,
) -> StepSpec:
    """Returns a step by this actor, named as the actor unless `name` is given.

    `timeout` is seconds for one attempt, above 0 and at most 24 hours; `queue_wait` is for how many it waits while no
    worker serves the actor (by default as the deployment's setting says). The actor gets `options` as
    `context.options`. `version` is that of the actor's code which the run is meant for; by default, it is that of the
    actors given when the run begins. A critic that is a `gate` answers first: a draft that it does not pass cannot be
    accepted, and the critics that are no gates are not asked about it; with a condition, `gate="accuracy >= 8"`, that
    is what passes it. An actor that runs elsewhere is given by its name, with its `role` and, if it is a critic, the
    `scale`, the `criteria` and the `measures` that it declares. Of one that is given, `measures` are those to record.
    A refiner with `only_issues` may change nothing but what the issues of the critiques quote: any other revision is
    invalid, unless people gave advice. With `history` a generator or critic is given the history as refiners are, and
    each of them the texts of so many earlier drafts; by default, as the decorator of an actor that is given says.
    A critic with a condition, `when="score >= 0.7"`, is asked after those before it, and only about drafts for which it
    holds on what they said. With `reuse="run"` a critic is not asked again about what it has judged in the run before,
    and with `reuse="always"` not about what it has judged in any run of the store: its verdict is taken again. `writes`
    are the values of the run's state that the actor may change (by default those that its decorator names). Of an actor
    that runs elsewhere, `condition=True` says that it is a condition, and `about_run=True` that a free step looks at no
    draft: see docs/state.md.

    With `choose=[first, second]` there is no actor: each time that the step is requested, one of these is chosen by how
    the runs ended in which each took part. One with a name, options or a version of its own is given as a step:
    `step(other, name="brief", options={…})`. The step is then named `generate`, `critique` or `refine` unless `name` is
    given, and its `options` are for all of them. A run is a success of the chosen when it is accepted, or when the
    condition `success` holds for the draft that it ends with. Raises PlanError, ConditionError.
    """
    given: dict[str, Option] = {} if options is None else deepcopy(options)
    known = actor.name if isinstance(actor, Actor) else actor or ""
    if choose is not None:
        arms, of, actors = _make_choice(choose, role)
        usual = NAMES.get(of, "choice")
    elif actor is None:
        raise PlanError(name or "", "actor is missing; give one, or several to choose among: choose=[first, second]")
    else:
        arms, of, actors = (), _role_of(actor, role), {known: actor} if isinstance(actor, Actor) else {}
        usual = known
    named = usual if name is None else name
    passes = None if isinstance(gate, bool) else _condition_of(gate)
    judged = criteria_of(criteria or {})
    node = Step(
        *(of, known, named, timeout, retry, given, version, passes is not None or gate is True, arms, queue_wait),
        *(scale, judged, passes, None if success is None else _condition_of(success), tuple(measures), only_issues),
        *(history, None if when is None else _condition_of(when), reuse, tuple(writes), condition, about_run),
    )
    return _make_part(with_declared(node, actors.values()), actors)


def _condition_of(given: Until) -> Condition:
    match given:
        case str():
            return parse_condition(given)
        case StateValue():
            return given.condition
        case Actor():
            return given.as_condition()
        case _:
            return given


def parallel(
    name: str,
    *steps: Member,
    wait: int | Literal["all", "first"] = "all",
    combine: Combine = "min",
    weights: Sequence[float] = (),
    judge: Member | None = None,
    deadline: float | None = None,
) -> StepSpec:
    """Returns steps of one role that run at the same time; see `redraft.events.messages.plan.Parallel`.

    Raises PlanError.
    """
    parts = as_parts(steps)
    judging = as_parts([] if judge is None else [judge])
    nodes = tuple(_step_of(part.node, name) for part in parts)
    judges = [_step_of(part.node, name) for part in judging]
    node = Parallel(name, nodes, wait, combine, tuple(weights), judges[0] if judges else None, deadline)
    return _make_part(node, join_actors(part.actors for part in [*parts, *judging]))


def repeat(
    name: str,
    *,
    until: Until,
    max_iterations: int,
    body: Iterable[Member],
    keep: Keep = "best",
    rollback_margin: float | Points | str = DEFAULT_ROLLBACK_MARGIN,
    on_oscillation: OnOscillation = "ignore",
    rollback_of: str = "",
    on_exhausted: Ending = "publish",
    on_plateau: Ending = "publish",
    ask: Member | None = None,
    on_failure: OnStepFailure = "end",
    max_failures: int = 3,
) -> StepSpec:
    """Returns a loop that repeats `body` until the condition, given as such or as its text, holds.

    A @condition that is not in the body is put into it, after its last critic or else before its refiner.
    It makes at most `max_iterations` iterations (at least 1). `keep` decides which draft leaves it; a refinement that
    scores lower than the best by more than `rollback_margin` is given up: on the critics' scale, `"1 of 10"`, or a
    share, 0..1; with `rollback_of` that is the score of one criterion. `on_oscillation` is what happens when
    a refinement repeats or undoes an earlier one. A draft that did not meet the condition goes on to publishers, or
    people are asked about it ("ask"), or the run ends with nothing published ("fail"): `on_exhausted` says so of a loop
    that has reached its limit, `on_plateau` of one that no longer gains, `on_oscillation` of one that goes in circles.
    `ask` is an `approve(…)` with the people who are asked; without it, anybody. With `on_failure="refine"` the error of
    a critic or free step that fails for good is told to the next refinement, at most `max_failures` times, before the
    run ends as the workflow's `on_failure` says. Raises PlanError, ConditionError.
    """
    parts = as_parts(body)
    if isinstance(until, Actor):
        parts = _with_condition(parts, until)
    try:
        given = read_margin(rollback_margin) if isinstance(rollback_margin, str) else rollback_margin
    except ConditionError as error:
        raise PlanError(name, f"rollback_margin: {error}") from None
    margin, top = (given, None) if not isinstance(given, Points) else astuple(given)
    node = Repeat(
        *(name, _condition_of(until), max_iterations, tuple(part.node for part in parts), keep, margin),
        *(on_oscillation, rollback_of, top),
        on_exhausted=on_exhausted,
        on_plateau=on_plateau,
        ask=None if ask is None else _approval_of(ask, name),
        on_failure=on_failure,
        max_failures=max_failures,
    )
    return _make_part(node, join_actors(part.actors for part in parts))


def each(
    name: str, *, over: str | StateValue, body: Iterable[Member], concurrency: int = DEFAULT_CONCURRENCY
) -> StepSpec:
    """Returns a body that is carried out once for each item of a list in the run's state, side by side.

    `over` is that list: `state.chapters`, or "state.item.sections" of a mapping. Each item has a run of its own, with
    this `body` as its plan, that finds it in its state as `item`, and its number (from 1) as `index`; at most
    `concurrency` (1 to 100) of them run at once. The drafts that they end with are `outputs` for the steps after it, in
    the order of the list. See `redraft.events.messages.plan.Each`. Raises PlanError.
    """
    parts = as_parts(body)
    named = f"{over!r}" if isinstance(over, StateValue) else over
    node = Each(name, list_name(named), tuple(part.node for part in parts), concurrency)
    return _make_part(node, join_actors(part.actors for part in parts))


def _approval_of(member: Member, loop: str) -> Approve:
    node = as_part(member).node
    if not isinstance(node, Approve):
        raise PlanError(loop, f"ask is {node.name}, which is no approval; give approve(approvers=[…])")
    return node


def _with_condition(body: tuple[StepSpec, ...], until: Actor) -> tuple[StepSpec, ...]:
    """Returns the body with the step of a condition: as it is if the condition is there, else after its last critic.

    Without critics that is before the first refiner, so that it looks at what the steps before found; at the end if the
    body begins with that.
    """
    if any(isinstance(part.node, Step) and part.node.actor == until.name for part in body):
        return body
    roles = [role_of(part.node) for part in body]
    refiner = roles.index("refiner") if "refiner" in roles[1:] and roles[0] != "refiner" else len(body)
    place = max((place + 1 for place, role in enumerate(roles) if role == "critic"), default=refiner)
    return (*body[:place], as_part(until), *body[place:])


def approve(
    name: str = "approve",
    *,
    approvers: Sequence[str] = (),
    quorum: int = 1,
    deadline: float = 86400.0,
    on_deadline: OnDeadline = "reject",
) -> StepSpec:
    """Returns a node in which people decide on the draft.

    `quorum` of `approvers` (none: anybody) have to approve within `deadline` seconds, at most 90 days; `on_deadline` is
    what happens if they do not. See `redraft.events.messages.plan.Approve`. Raises PlanError.
    """
    return _make_part(Approve(name, tuple(approvers), quorum, deadline, on_deadline), {})


def as_parts(members: Iterable[Member]) -> tuple[StepSpec, ...]:
    """Returns these members as parts; raises PlanError on anything else."""
    if not _is_iterable(members):
        raise PlanError(_describe(members), "a list of actors, steps and loops is expected here; put this one in [ ]")
    return tuple(as_part(member) for member in members)


def as_part(member: object) -> StepSpec:
    """Returns this member as a part; an actor becomes a step of its own name. Raises PlanError on anything else."""
    match member:
        case StepSpec():
            return member
        case Actor():
            return make_step(member)
        case Step() | Parallel() | Repeat() | Approve() | Each():
            return _make_part(member, {})
        case _:
            raise _not_a_part(member)


def join_actors(groups: Iterable[Actors]) -> Actors:
    """Returns these groups of actors as one; raises ActorError when two different actors have one name."""
    joined: dict[str, Actor] = {}
    for name, actor in (each for group in groups for each in group.items()):
        if joined.setdefault(name, actor) != actor:
            raise ActorError(f"two different actors are named {name!r}; give one of them another name=")
    return MappingProxyType(joined)


def _make_choice(choose: Iterable[Member | str], role: Role | None) -> tuple[tuple[Arm, ...], Role, Actors]:
    """Returns the arms of a choice, their role, and the actors among them."""
    if isinstance(choose, str) or not _is_iterable(choose):
        raise PlanError(_describe(choose), "choose takes a list of actors; write choose=[first, second]")
    parts = [make_step(each, role=role) if isinstance(each, str) else as_part(each) for each in choose]
    steps = [_arm_of(part.node) for part in parts]
    roles = list(dict.fromkeys(each.role for each in steps))
    if len(roles) > 1:
        raise PlanError(steps[0].name, f"choose has a {roles[0]} and a {roles[1]}; choose among actors of one role")
    if not roles:
        raise PlanError("choose", "it names no actor; give at least two")
    if role not in (None, roles[0]):
        raise PlanError(steps[0].name, f"role is {shown(role)}, but it is a {roles[0]}; leave the role out")
    arms = tuple(Arm(each.actor, each.name, each.options, each.version) for each in steps)
    return arms, roles[0], join_actors(part.actors for part in parts)


def _arm_of(node: Node) -> Step:
    """Returns a node that can be chosen: a plain step, without the settings that belong to the whole choice."""
    if not isinstance(node, Step) or node.choose:
        raise PlanError(node.name, "choose takes actors and plain steps only; remove this one")
    if node.gate:
        raise PlanError(node.name, "choose: a gate asks the same of every draft; remove gate")
    if node.timeout != DEFAULT_TIMEOUT or node.retry != DEFAULT_RETRY or node.queue_wait is not None:
        raise PlanError(
            node.name, "choose: timeout, queue_wait and retry are those of the whole step; give them beside choose"
        )
    return node


def _role_of(actor: object, role: Role | None) -> Role:
    match actor:
        case Actor():
            if role not in (None, actor.role):
                raise PlanError(actor.name, f"role is {shown(role)}, but it is a {actor.role}; leave the role out")
            known: Role = actor.role
            return known
        case str():
            if role is None:
                remedy = f'write step({shown(actor)}, role="critic"), or give the actor itself'
                raise PlanError(shown(actor), f"role is missing; {remedy}")
            return role
        case _:
            raise _not_a_part(actor)


def _not_a_part(member: object) -> PlanError:
    remedy = "decorate the function with @generator, @critic, @refiner, @publisher or @step"
    return PlanError(_describe(member), f"this is not part of a workflow; {remedy}")


def _describe(member: object) -> str:
    return str(getattr(member, "name", None) or getattr(member, "__name__", None) or shown(member))


def _is_iterable(members: object) -> bool:
    return isinstance(members, Iterable)


def _make_part(node: Node, actors: Actors) -> StepSpec:
    check_nodes((node,), "")
    return StepSpec(node, MappingProxyType(dict(actors)))


def _step_of(node: Node, name: str) -> Step:
    if not isinstance(node, Step):
        raise PlanError(f"{name}/{node.name}", "only steps can be in parallel; move the loop or parallel out")
    return node
