"""Parts of a workflow: steps, loops and parallels, each a node of the plan with the actors that it was given.

    parallel("Panel", clarity, step(facts, timeout=60), combine="median")
    repeat("Chapters", until=outputs >= 5, max_iterations=5, body=[write, repeat("Refinement", ...)])

What is wrong in itself is refused by the call that makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from redraft.actors.arms import NAMES
from redraft.actors.condition_text import parse_condition
from redraft.actors.plan_check import check_nodes
from redraft.actors.plan_paths import steps_in
from redraft.actors.roles import Actor
from redraft.actors.values import shown
from redraft.events.conditions import Condition
from redraft.events.errors import ActorError, PlanError
from redraft.events.plan import (
    Approve,
    Arm,
    Combine,
    Keep,
    Node,
    OnDeadline,
    OnOscillation,
    Option,
    Parallel,
    Repeat,
    Retry,
    Role,
    Step,
)

Actors: TypeAlias = Mapping[str, Actor]


@dataclass(frozen=True, slots=True)
class Part:
    """A node of a plan and the actors in it, by name."""

    node: Node
    actors: Actors = field(default_factory=lambda: MappingProxyType({}))


Member: TypeAlias = Actor | Part | Node
"""What a workflow is built of. An actor stands for a step of its own name; nodes are for actors that live elsewhere."""

_RETRY: Final = Retry()


def step(
    actor: Actor | str | None = None,
    *,
    choose: Iterable[Member | str] | None = None,
    name: str | None = None,
    role: Role | None = None,
    timeout: float = 300.0,
    retry: Retry = _RETRY,
    options: dict[str, Option] | None = None,
    version: str = "",
    gate: bool = False,
    queue_wait: float | None = None,
) -> Part:
    """A step by this actor, named as the actor unless `name` is given.

    `timeout` is seconds for one attempt, above 0 and at most 24 hours; `queue_wait` is how many it waits while no
    worker serves the actor (left out: as the deployment's setting says). `options` go to the actor, as
    `context.options`.
    `version` is that of the actor's code which the run is meant for; left out, it is that of the actors at hand when
    the run begins. A critic that is a `gate` speaks first: a draft that it does not pass cannot be accepted, and the
    critics that are no gates are not asked about it. An actor that lives elsewhere is given by its name, with its
    `role`.

    With `choose=[first, second]` there is no actor: each time that the step is asked for, one of these is chosen by how
    the runs ended in which each took part. One with a name, options or a version of its own is given as a step:
    `step(other, name="brief", options={…})`. The step is then named `generate`, `critique` or `refine` unless `name` is
    given, and its `options` are for all of them. Raises PlanError.
    """
    given: dict[str, Option] = {} if options is None else deepcopy(options)
    if choose is not None:
        arms, of, actors = _choice(choose, role)
        named = NAMES.get(of, "choice") if name is None else name
        known = actor.name if isinstance(actor, Actor) else actor or ""
        return _part(Step(of, known, named, timeout, retry, given, version, gate, arms, queue_wait), actors)
    if actor is None:
        raise PlanError(name or "", "actor is missing; give one, or several to choose among: choose=[first, second]")
    known = actor.name if isinstance(actor, Actor) else actor
    named = known if name is None else name
    of = _role_of(actor, role)
    node = Step(of, known, named, timeout, retry, given, version, gate, queue_wait=queue_wait)
    return _part(node, {actor.name: actor} if isinstance(actor, Actor) else {})


def parallel(
    name: str,
    *steps: Member,
    wait: int | Literal["all", "first"] = "all",
    combine: Combine = "min",
    weights: Sequence[float] = (),
    judge: Member | None = None,
    deadline: float | None = None,
) -> Part:
    """Steps of one role at the same time; see `redraft.events.plan.Parallel`. Raises PlanError."""
    parts = as_parts(steps)
    judging = as_parts([] if judge is None else [judge])
    nodes = tuple(_step_of(part.node, name) for part in parts)
    judges = [_step_of(part.node, name) for part in judging]
    node = Parallel(name, nodes, wait, combine, tuple(weights), judges[0] if judges else None, deadline)
    return _part(node, join_actors(part.actors for part in [*parts, *judging]))


def repeat(
    name: str,
    *,
    until: Condition | str,
    max_iterations: int,
    body: Iterable[Member],
    keep: Keep = "best",
    rollback_margin: float = 0.1,
    on_oscillation: OnOscillation = "ignore",
) -> Part:
    """A loop that passes through `body` until the condition, given as such or as its text, holds.

    It makes `max_iterations` passes at most (at least 1). `keep` says which draft leaves it; a refinement that scores
    lower than the best by more than `rollback_margin` (0..1) is given up.
    `on_oscillation` says what happens when one repeats or undoes an earlier. Raises PlanError, ConditionError.
    """
    parts = as_parts(body)
    condition = parse_condition(until) if isinstance(until, str) else until
    node = Repeat(
        name, condition, max_iterations, tuple(part.node for part in parts), keep, rollback_margin, on_oscillation
    )
    return _part(node, join_actors(part.actors for part in parts))


def approve(
    name: str = "approve",
    *,
    approvers: Sequence[str] = (),
    quorum: int = 1,
    deadline: float = 86400.0,
    on_deadline: OnDeadline = "reject",
) -> Part:
    """People decide on the draft: `quorum` of `approvers` (none: anybody) within `deadline` seconds, at most 90 days.

    `on_deadline` says what happens when they do not. See `redraft.events.plan.Approve`. Raises PlanError.
    """
    return _part(Approve(name, tuple(approvers), quorum, deadline, on_deadline), {})


def as_parts(members: Iterable[Member]) -> tuple[Part, ...]:
    """These members as parts; raises PlanError on anything else."""
    if not _is_iterable(members):
        raise PlanError(_word_for(members), "a list of actors, steps and loops is due here; put this one in [ ]")
    return tuple(as_part(member) for member in members)


def as_part(member: object) -> Part:
    """This member as a part; an actor becomes a step of its own name. Raises PlanError on anything else."""
    match member:
        case Part():
            return member
        case Actor():
            return step(member)
        case Step() | Parallel() | Repeat() | Approve():
            return _part(member, {})
        case _:
            raise _no_part(member)


def join_actors(groups: Iterable[Actors]) -> Actors:
    """These groups of actors as one; raises ActorError when two different actors have one name."""
    joined: dict[str, Actor] = {}
    for name, actor in (each for group in groups for each in group.items()):
        if joined.setdefault(name, actor) != actor:
            raise ActorError(f"two different actors are named {name!r}; give one of them another name=")
    return MappingProxyType(joined)


def check_roles(nodes: Iterable[Node], actors: Actors) -> None:
    """Raises ActorError when a step names one of these actors in a role that it does not have."""
    for path, node in steps_in(nodes):
        actor = actors.get(node.actor)
        if actor is not None and actor.role != node.role:
            raise ActorError(
                f"{path}: the plan wants {node.actor} as a {node.role}, but it is a {actor.role}; give another actor"
            )


def _choice(choose: Iterable[Member | str], role: Role | None) -> tuple[tuple[Arm, ...], Role, Actors]:
    """The arms that these stand for, the role that they have, and the actors among them."""
    if isinstance(choose, str) or not _is_iterable(choose):
        raise PlanError(_word_for(choose), "choose takes a list of actors; write choose=[first, second]")
    parts = [step(each, role=role) if isinstance(each, str) else as_part(each) for each in choose]
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
    """A node that can be chosen: a plain step. What holds for the whole choice is said of the whole choice."""
    if not isinstance(node, Step) or node.choose:
        raise PlanError(node.name, "choose is among actors; take what is no plain step out")
    if node.gate:
        raise PlanError(node.name, "choose: a gate asks the same of every draft; take the gate away")
    if node.timeout != 300.0 or node.retry != _RETRY or node.queue_wait is not None:
        raise PlanError(
            node.name, "choose: timeout, queue_wait and retry are those of the whole step; give them beside choose"
        )
    return node


def _role_of(actor: object, role: Role | None) -> Role:
    match actor:
        case Actor():
            if role not in (None, actor.role):
                raise PlanError(actor.name, f"role is {shown(role)}, but it is a {actor.role}; leave the role out")
            return actor.role
        case str():
            if role is None:
                remedy = f'write step({shown(actor)}, role="critic"), or give the actor itself'
                raise PlanError(shown(actor), f"role is missing; {remedy}")
            return role
        case _:
            raise _no_part(actor)


def _no_part(member: object) -> PlanError:
    remedy = "decorate the function with @generator, @critic, @refiner or @publisher"
    return PlanError(_word_for(member), f"this is no part of a workflow; {remedy}")


def _word_for(member: object) -> str:
    return str(getattr(member, "name", None) or getattr(member, "__name__", None) or shown(member))


def _is_iterable(members: object) -> bool:
    return isinstance(members, Iterable)


def _part(node: Node, actors: Actors) -> Part:
    check_nodes((node,), "")
    return Part(node, MappingProxyType(dict(actors)))


def _step_of(node: Node, name: str) -> Step:
    if not isinstance(node, Step):
        raise PlanError(f"{name}/{node.name}", "only steps go in parallel; take the loop or parallel out")
    return node
