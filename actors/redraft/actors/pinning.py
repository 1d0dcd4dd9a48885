"""Which versions of its actors a run begins with: written into its plan, so that workers can say when theirs differ."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from redraft.actors.arms import with_arms
from redraft.actors.plan_paths import mapped
from redraft.actors.roles import Actor
from redraft.events.plan import Plan, Step


def pinned(plan: Plan, actors: Iterable[Actor]) -> Plan:
    """The plan in which each step names the version of its actor, if it is among these and names none already."""
    versions = {(actor.role, actor.name): actor.version for actor in actors}

    def named(step: Step) -> Step:
        version = step.version or versions.get((step.role, step.actor), "")
        return step if version == step.version else msgspec.structs.replace(step, version=version)

    return msgspec.structs.replace(plan, steps=mapped(plan.steps, with_arms(named)))


def unpinned(plan: Plan) -> Plan:
    """The plan without the versions of actors: those of another time."""
    return msgspec.structs.replace(
        plan, steps=mapped(plan.steps, with_arms(lambda step: msgspec.structs.replace(step, version="")))
    )
