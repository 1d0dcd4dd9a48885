"""The workflows that a server submits, by name, and the actors that it serves: those that were named at its start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor, ActorKey
from redraft.app.workflows.actor_registry import build_actor_registry, confined
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.sources import Source, own_actors, read_source
from redraft.app.workflows.user_file import workflows_in
from redraft.events.errors import ActorError, InputError
from redraft.events.messages.plan import ACTOR_ROLES

DEFAULT: Final = ("prose",)
"""The workflow that is offered where none is named: it needs no model and no function of the user's."""


@dataclass(frozen=True, slots=True)
class Offers:
    """The workflows by name, and all actors that their steps and the files named need.

    Those `elsewhere` are not among them: workers who lease requests by HTTP serve them.
    """

    workflows: Mapping[str, Source]
    actors: Sequence[Actor]
    elsewhere: frozenset[ActorKey] = frozenset()


def read_offers(
    names: Sequence[str], actors: str, environment: ActorEnvironment, elsewhere: Sequence[str] = ()
) -> Offers:
    """Reads shipped workflows, `file.py:name`, `file.py` for all in it, and `plan.yaml`; `actors` is a further file.

    The actors `elsewhere`, such as `critic.judge`, need no function here.
    Raises InputError when one cannot be read, two have one name, or an actor is provided by nobody or twice.
    """
    workflows: dict[str, Source] = {}
    found: dict[ActorKey, Actor] = {}
    away = {(each.role, each.name): each for each in map(_elsewhere, elsewhere)}
    own = own_actors(actors)
    for name in names or DEFAULT:
        sources, loaded = _read(name, own)
        for source in [_with_others(each, away.values()) for each in sources]:
            if workflows.setdefault(source.plan.name, source) is not source:
                raise InputError(f"{name}: another workflow is named {source.plan.name!r}; rename one of them")
            made = build_actor_registry(source.plan, source.actors, environment)
            _add(found, [confined(each, environment) for each in made], name)
        _add(found, loaded, name)
    here = tuple(actor for key, actor in found.items() if key not in away)
    return Offers(workflows, here, frozenset(away))


def _with_others(source: Source, others: Iterable[Actor]) -> Source:
    """Returns the source with those of the others that it does not bring along."""
    known = {(each.role, each.name) for each in source.actors}
    missing = [each for each in others if (each.role, each.name) not in known]
    return Source(source.plan, (*source.actors, *missing), source.shipped)


def _elsewhere(text: str) -> Actor:
    """Returns what stands for an actor that works elsewhere. Raises InputError for a text that names none."""
    role, _, name = text.partition(".")
    if role not in ACTOR_ROLES or not name:
        raise InputError(f"--elsewhere {text}: name the role and the actor, such as critic.judge")
    return Actor(name, role, ignore, (), is_async=False)


def _read(name: str, own: Sequence[Actor]) -> tuple[list[Source], Sequence[Actor]]:
    """Returns the workflows that a word names, and the actors of its file."""
    if name.endswith(".py"):
        workflows, actors = workflows_in(Path(name))
        return [Source(each.plan, (*actors, *own)) for each in workflows], actors
    source = read_source(name)
    if source.plan.steps and own:
        source = Source(source.plan, (*source.actors, *own), source.shipped)
    return [source], ()


def _add(found: dict[ActorKey, Actor], actors: Sequence[Actor], name: str) -> None:
    for actor in actors:
        known = found.setdefault((actor.role, actor.name), actor)
        if known is not actor and (known.file, known.name) != (actor.file, actor.name):
            raise ActorError(f"{name}: another {actor.role} {actor.name!r} is served; rename one of them")
