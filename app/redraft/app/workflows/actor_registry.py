"""The registry of actors in a plan: the user's own, and those that ship with Redraft."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from redraft.actors.plans.paths import steps_in
from redraft.actors.workflow.actor import Actor, ActorKey
from redraft.app.builtin.publishers.files import file_publisher
from redraft.app.builtin.support.options import nearest
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.user_file import actors_in, projections_in
from redraft.events.errors import ActorError, InputError
from redraft.events.messages.plan import Plan, Role, Step
from redraft.projections.backends import SHIPPED as SHIPPED_PROJECTIONS
from redraft.projections.engine.projection import Projection

SHIPPED: Final[Mapping[ActorKey, str]] = {
    ("generator", "command"): "redraft.app.builtin.programs.command:command_generator",
    ("generator", "llm"): "redraft.app.builtin.llm.actors:llm_generator",
    ("generator", "source"): "redraft.app.builtin.plans:source",
    ("critic", "agreement"): "redraft.app.builtin.gates.text:agreement_critic",
    ("critic", "command"): "redraft.app.builtin.programs.command:command_critic",
    ("critic", "forbidden-words"): "redraft.app.builtin.gates.text:words_critic",
    ("critic", "json-schema"): "redraft.app.builtin.gates.programs:schema_critic",
    ("critic", "length"): "redraft.app.builtin.gates.text:length_critic",
    ("critic", "llm"): "redraft.app.builtin.llm.actors:llm_critic",
    ("critic", "pattern"): "redraft.app.builtin.gates.text:pattern_critic",
    ("critic", "prose"): "redraft.app.builtin.prose.actors:prose_critic",
    ("critic", "public-names"): "redraft.app.builtin.gates.programs:names_critic",
    ("critic", "pytest"): "redraft.app.builtin.programs.pytest_critic:pytest_critic",
    ("critic", "python"): "redraft.app.builtin.gates.programs:python_critic",
    ("critic", "ruff"): "redraft.app.builtin.programs.ruff:ruff_critic",
    ("critic", "structure"): "redraft.app.builtin.prose.structure:structure_critic",
    ("critic", "sql"): "redraft.app.builtin.gates.programs:sql_critic",
    ("critic", "verify"): "redraft.app.builtin.llm.verify:verify_critic",
    ("refiner", "command"): "redraft.app.builtin.programs.command:command_refiner",
    ("refiner", "llm"): "redraft.app.builtin.llm.actors:llm_refiner",
    ("refiner", "prose-fix"): "redraft.app.builtin.prose.actors:prose_refiner",
    ("refiner", "ruff-fix"): "redraft.app.builtin.programs.ruff:ruff_refiner",
    ("publisher", "file"): "redraft.app.workflows.publish_targets:file_actor",
    ("publisher", "git"): "redraft.app.builtin.publishers.git:git_publisher",
    ("publisher", "html"): "redraft.app.builtin.publishers.web:html_publisher",
    ("publisher", "pdf"): "redraft.app.builtin.publishers.pdf:pdf_publisher",
    ("publisher", "stdout"): "redraft.app.builtin.publishers.files:stdout_publisher",
    ("publisher", "webhook"): "redraft.app.builtin.publishers.web:webhook_publisher",
}
"""The actors that ship with Redraft, each with what makes it, which is imported only for a plan that names it."""


def build_actor_registry(plan: Plan, own: Iterable[Actor], environment: ActorEnvironment) -> tuple[Actor, ...]:
    """An actor for every step of a plan: the user's own first, then shipped ones, of which only those named are made.

    Raises ActorError when a step's actor is provided by nobody, or by two different functions of the user's.
    """
    mine: dict[ActorKey, list[Actor]] = {}
    for actor in own:
        same = mine.setdefault((actor.role, actor.name), [])
        if actor not in same:
            same.append(actor)
    found: dict[ActorKey, Actor] = {}
    for path, step in steps_in(plan.steps):
        key = (step.role, step.actor)
        if key not in mine and key in SHIPPED and step.actor not in _JUDGES_AS_ASKED and (step.scale or step.criteria):
            raise ActorError(f"{path}: {step.actor} scores from 0 to 1, by no criteria; remove scale and criteria")
        if key not in found:
            found[key] = _find_actor(path, key, mine, environment)
        if (
            step.condition and found[key].takes and not found[key].condition
        ):  # one that works elsewhere takes nothing here
            raise ActorError(
                f"{path}: {step.actor} is a critic and no condition; decorate it with @condition, or write critique"
            )
        if key not in mine and step.measures and step.actor not in _JUDGES_AS_ASKED and not found[key].measures:
            raise ActorError(f"{path}: {step.actor} counts nothing; remove measures")
    return tuple(found.values())


_JUDGES_AS_ASKED: Final = ("llm", "command")
"""The shipped critics that judge by the criteria, and on the scale, that the plan declares."""


def _find_actor(path: str, key: ActorKey, mine: dict[ActorKey, list[Actor]], environment: ActorEnvironment) -> Actor:
    match mine.get(key, []):
        case [actor]:
            return actor
        case []:
            if key not in SHIPPED:
                raise ActorError(f"{path}: {_nobody(key, [*mine, *SHIPPED])}")
            return _shipped(key, environment)
        case _:
            raise ActorError(f"{path}: two different {key[0]}s are named {key[1]!r}; give one of them another name=")


def _nobody(key: ActorKey, known: Sequence[ActorKey]) -> str:
    role, name = key
    if others := [other for other, named in known if named == name]:
        return f"{name} is a {others[0]}, and the plan wants a {role} of this name; name another actor"
    same = sorted({named for other, named in known if other == role})
    where = "name the file of its function, with --workflow file.py:name or --actors file.py"
    return f"there is no {role} {name!r}; {nearest(name, same, where)}"


def _shipped(key: ActorKey, environment: ActorEnvironment) -> Actor:
    found = resolve_name(SHIPPED[key])
    actor: Actor
    match key:
        case "publisher", "stdout":
            actor = found(environment.stream, environment.before)
        case "publisher", "webhook":
            actor = found(environment.webhook_hosts)
        case "publisher", _:
            actor = found(environment.folder)
        case _, "llm" | "verify":
            actor = found(environment.models)
        case _:
            actor = found
    return actor


def actors_for(targets: Sequence[str], role: Role | None, environment: ActorEnvironment) -> tuple[Actor, ...]:
    """The actors that targets name, each once: `file.py:name`, `file.py` for all of it, or the name of a shipped one.

    `role` leaves out all others. Raises InputError (ActorError) when a target names nothing, nothing of this role, or
    two different actors of one role have the same name.
    """
    found: dict[tuple[Role, str], Actor] = {}
    for target in targets:
        for actor in _of_role(target, role, _actors_of(target, environment)):
            known = found.setdefault((actor.role, actor.name), actor)
            if known is not actor:
                raise ActorError(f"{target}: another {actor.role} named {actor.name!r} is served; leave one out")
    return tuple(found.values())


def _actors_of(target: str, environment: ActorEnvironment) -> tuple[Actor, ...]:
    file, colon, name = target.rpartition(":")
    if target.endswith(".py"):
        return actors_in(Path(target))
    if colon and file.endswith(".py"):
        return _in_file(file, name)
    keys = [key for key in SHIPPED if key[1] == target]
    if not keys:
        shipped = sorted({name for _, name in SHIPPED})
        raise ActorError(
            f"{target} is not a file of actors, such as article.py:judge, nor shipped; {nearest(target, shipped)}"
        )
    steps = tuple(Step(role, name, name) for role, name in keys)
    made = build_actor_registry(Plan("shipped", steps), (), environment)
    return tuple(confined(actor, environment) for actor in made)


def confined(actor: Actor, environment: ActorEnvironment) -> Actor:
    """Has the publisher `file` of a worker write below one folder, whatever folder a request names."""
    return file_publisher(environment.folder) if (actor.role, actor.name) == ("publisher", "file") else actor


def _in_file(file: str, name: str) -> tuple[Actor, ...]:
    """The actors of this name, or made of the function of this name."""
    there = actors_in(Path(file))
    found = [actor for actor in there if name in (actor.name, getattr(actor.function, "__name__", ""))]
    if not found:
        raise ActorError(f"{file}: there is no actor {name!r} in it; {nearest(name, [each.name for each in there])}")
    return tuple(found)


def _of_role(target: str, role: Role | None, actors: Iterable[Actor]) -> list[Actor]:
    there = list(actors)
    found = [actor for actor in there if role is None or actor.role == role]
    if not found:
        told = ", ".join(f"the {actor.role} {actor.name}" for actor in there)
        raise ActorError(f"{target}: no {role} is among {told}; name another actor, or another --role")
    return found


def projections_for(target: str) -> tuple[Projection, ...]:
    """`file.py:name`, `file.py` for all of it, or the name of a shipped one. Raises InputError for anything else."""
    file, colon, name = target.rpartition(":")
    if target.endswith(".py"):
        return projections_in(Path(target))
    if colon and file.endswith(".py"):
        return projections_in(Path(file), name)
    found = tuple(each for each in SHIPPED_PROJECTIONS if each.name == target)
    if not found:
        yours = "name one of yours: file.py:name"
        remedy = nearest(target, [each.name for each in SHIPPED_PROJECTIONS], yours)
        raise InputError(f"no projection is named {target!r}; {remedy}")
    return found
