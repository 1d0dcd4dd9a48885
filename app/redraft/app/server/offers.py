"""The workflows that a server submits, by name, and the actors that it serves: those that were named at its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from redraft.actors.workflow.roles import Actor, ActorKey
from redraft.app.workflows.actor_registry import build_actor_registry, confined
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.app.workflows.sources import Source, own_actors, read_source
from redraft.app.workflows.user_file import workflows_in
from redraft.events.errors import ActorError, InputError

DEFAULT: Final = ("prose",)
"""What is offered where nothing is named: it needs no model and no function of anybody's."""


@dataclass(frozen=True, slots=True)
class Offers:
    """The workflows by name, and all actors that their steps and the files named need."""

    workflows: Mapping[str, Source]
    actors: Sequence[Actor]


def read_offers(names: Sequence[str], actors: str, environment: ActorEnvironment) -> Offers:
    """Reads shipped workflows, `file.py:name`, `file.py` for all in it, and `plan.yaml`; `actors` is a further file.

    Raises InputError when one cannot be read, two have one name, or an actor is provided by nobody or twice.
    """
    workflows: dict[str, Source] = {}
    found: dict[ActorKey, Actor] = {}
    own = own_actors(actors)
    for name in names or DEFAULT:
        sources, loaded = _read(name, own)
        for source in sources:
            if workflows.setdefault(source.plan.name, source) is not source:
                raise InputError(f"{name}: another workflow is named {source.plan.name!r}; rename one of them")
            made = build_actor_registry(source.plan, source.actors, environment)
            _add(found, [confined(each, environment) for each in made], name)
        _add(found, loaded, name)
    return Offers(workflows, tuple(found.values()))


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
