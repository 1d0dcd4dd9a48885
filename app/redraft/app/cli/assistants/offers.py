"""The workflows that assistants may have a text refined by: those that a person named when the server was started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from redraft.actors.workflow.actor import Actor, ActorKey
from redraft.actors.workflow.workflow import pin_versions
from redraft.app.cli.running.run_request import files_of
from redraft.app.models.configuration import Models, actor_keys, check_models, check_money, models_of
from redraft.app.settings.settings import LOCAL, Settings
from redraft.app.workflows.actor_registry import build_actor_registry
from redraft.app.workflows.publish_targets import ActorEnvironment, refuse_folder
from redraft.app.workflows.sources import Source, override, prepare, read_source
from redraft.events.errors import ActorError, InputError
from redraft.events.messages.content import Brief, Files
from redraft.events.messages.plan import Plan


class PlanWishes(msgspec.Struct, frozen=True):
    """Changes to a workflow's plan for one run; empty and None change nothing."""

    until: str = ""
    max_iterations: int | None = None
    budget: str = ""


class Offer(msgspec.Struct, frozen=True):
    """A workflow that is offered under its plan's name, and the actors that its plans are pinned to.

    `files` are those that its functions come from, where this process works on its runs.
    """

    source: Source
    actors: tuple[Actor, ...]
    models: Models
    files: Files = Files()

    @property
    def own(self) -> frozenset[ActorKey]:
        """The keys of the user's own actors."""
        return actor_keys(self.source.actors)

    def plan_for(self, brief: Brief, wishes: PlanWishes) -> Plan:
        """Returns the plan of a run. Raises InputError (PlanError, ConditionError) for wishes that cannot be."""
        plan = override(self.source.plan, wishes.until, wishes.max_iterations, wishes.budget)
        plan = prepare(plan, brief, self.models, self.own)
        check_money(plan, self.models, self.own)
        return pin_versions(plan, self.actors)


@contextmanager
def environment_of(settings: Settings) -> Iterator[ActorEnvironment]:
    """Yields an environment whose publisher `stdout` writes nowhere: standard output belongs to the protocol."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        yield ActorEnvironment(nowhere, Path.cwd(), models=models_of(settings), webhook_hosts=settings.webhook_hosts)


def read_offers(names: Sequence[str], settings: Settings, environment: ActorEnvironment) -> dict[str, Offer]:
    """Returns the workflows by their names, the first of which is the default.

    Raises InputError where one cannot be read, two have the same name, or a model is wanted that cannot be asked here.
    """
    found: dict[str, Offer] = {}
    for name in names:
        offer = _read_offer(name, settings, environment)
        if offer.source.plan.name in found:
            raise InputError(f"{name}: another workflow is named {offer.source.plan.name!r}; leave one out")
        found[offer.source.plan.name] = offer
    return found


def _read_offer(name: str, settings: Settings, environment: ActorEnvironment) -> Offer:
    source = read_source(name)
    if settings.bus != LOCAL:  # its workers have the actors and the models
        here = ActorEnvironment(environment.stream, environment.folder)
        actors = build_actor_registry(source.plan, (), here) if source.shipped else source.actors
        return Offer(source, actors, Models(prices=settings.model_prices))
    refuse_folder(source.plan, source.actors)
    actors = build_actor_registry(source.plan, source.actors, environment)
    check_models(source.plan, environment.models, actor_keys(source.actors))
    return Offer(source, actors, environment.models, files_of(name, "", source))


def actors_of(offers: dict[str, Offer]) -> tuple[Actor, ...]:
    """Returns the actors of all workflows, each once. Raises ActorError where two of one role have the same name."""
    found: dict[ActorKey, Actor] = {}
    for name, offer in offers.items():
        for actor in offer.actors:
            known = found.setdefault((actor.role, actor.name), actor)
            if known is not actor and (known.file, known.version) != (actor.file, actor.version):
                raise ActorError(f"{name}: another {actor.role} named {actor.name!r} is served; rename one of them")
    return tuple(found.values())
