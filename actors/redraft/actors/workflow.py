"""Workflows in Python: a plan, built step by step, and the actors that it was built with.

    article = (
        Workflow("article")
        .start_with(write)
        .repeat_until(score >= 0.9, max_iterations=5, name="Refinement", body=[judge, improve])
        .finally_(save)
    )

Each call gives a new workflow and refuses what is wrong in itself; `plan` refuses what does not fit together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import get_args

import msgspec

from redraft.actors.parts import (
    Actors,
    Member,
    Part,
    approve,
    as_parts,
    check_roles,
    join_actors,
    parallel,
    repeat,
    step,
)
from redraft.actors.plan_budget import check_budget
from redraft.actors.plan_check import check_nodes, check_plan
from redraft.actors.plan_paths import check_name, steps_in
from redraft.actors.plan_settings import check_choice
from redraft.actors.roles import Actor
from redraft.events.conditions import Condition
from redraft.events.errors import PlanError
from redraft.events.plan import Budget, Keep, OnFailure, OnOscillation, Plan

__all__ = ["Member", "Part", "Workflow", "approve", "parallel", "repeat", "step"]


class Workflow:
    """A plan and the actors that it was built with. It never changes; two are equal when their plans are."""

    __slots__ = ("_actors", "_plan")

    def __init__(self, name: str) -> None:
        """An empty workflow; raises PlanError unless the name is letters, digits, `_` and `-`, at most 100."""
        check_name("", name, "workflow")
        self._plan = Plan(name, ())
        self._actors: Actors = MappingProxyType({})

    @classmethod
    def of(cls, plan: Plan, actors: Mapping[str, Actor] | Iterable[Actor] = ()) -> Workflow:
        """A workflow of a plan that exists, and actors for it; actors that it does not name are left out.

        Raises PlanError when the plan is wrong, ActorError when two actors have one name or one has another role.
        """
        given = actors.values() if isinstance(actors, Mapping) else actors
        named = {node.actor for _, node in steps_in(check_plan(plan).steps)}
        return cls._made(plan, join_actors({actor.name: actor} for actor in given if actor.name in named))

    @classmethod
    def _made(cls, plan: Plan, actors: Actors) -> Workflow:
        check_roles(plan.steps, actors)
        made = cls(plan.name)
        made._plan, made._actors = plan, actors
        return made

    @property
    def name(self) -> str:
        return self._plan.name

    @property
    def plan(self) -> Plan:
        """The whole plan; raises PlanError when its steps do not fit together, with the path of the fault."""
        return check_plan(self._plan)

    @property
    def actors(self) -> Actors:
        """The actors that were given as such, by name. Actors given by name alone are not among them."""
        return self._actors

    def start_with(self, *members: Member) -> Workflow:
        """The workflow with these as its first steps; raises PlanError when it has some already."""
        if self._plan.steps:
            raise PlanError("", f"the workflow {self.name!r} has begun; add more steps with then(...)")
        return self.then(*members)

    def then(self, *members: Member) -> Workflow:
        """The workflow with these actors, steps, loops or parallels at its end. Raises PlanError, ActorError."""
        parts = as_parts(members)
        steps = (*self._plan.steps, *(part.node for part in parts))
        check_nodes(steps, "")
        return self._made(
            msgspec.structs.replace(self._plan, steps=steps),
            join_actors([self._actors, *(part.actors for part in parts)]),
        )

    def repeat_until(
        self,
        until: Condition | str,
        *,
        max_iterations: int,
        body: Iterable[Member],
        name: str = "Refinement",
        keep: Keep = "best",
        rollback_margin: float = 0.1,
        on_oscillation: OnOscillation = "ignore",
    ) -> Workflow:
        """The workflow with a loop at its end; see `repeat`. Raises PlanError, ConditionError, ActorError."""
        loop = repeat(
            name,
            until=until,
            max_iterations=max_iterations,
            body=body,
            keep=keep,
            rollback_margin=rollback_margin,
            on_oscillation=on_oscillation,
        )
        return self.then(loop)

    def finally_(self, *members: Member) -> Workflow:
        """The same as `then`, and reads better for what publishes."""
        return self.then(*members)

    def on_failure(self, action: OnFailure) -> Workflow:
        """The workflow that ends so when a step fails for good: "fail", or "publish_best" for the best draft so far."""
        check_choice("", "on_failure", action, get_args(OnFailure))
        return self._made(msgspec.structs.replace(self._plan, on_failure=action), self._actors)

    def budget(
        self,
        *,
        tokens: int | None = None,
        cost: float | None = None,
        calls: int | None = None,
        seconds: float | None = None,
    ) -> Workflow:
        """The workflow of which one run may use so much at most; see `redraft.events.plan.Budget`. Raises PlanError."""
        limits = Budget(tokens, cost, calls, seconds)
        check_budget("budget", limits)
        return self._made(msgspec.structs.replace(self._plan, budget=limits), self._actors)

    def daily_budget(
        self, *, tokens: int | None = None, cost: float | None = None, calls: int | None = None
    ) -> Workflow:
        """The workflow whose runs that begin on one day (UTC) may use so much together. Raises PlanError."""
        limits = Budget(tokens, cost, calls)
        check_budget("daily_budget", limits, a_day=True)
        return self._made(msgspec.structs.replace(self._plan, daily=limits), self._actors)

    def __eq__(self, other: object) -> bool:
        return self._plan == other._plan if isinstance(other, Workflow) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._plan.name)

    def __repr__(self) -> str:
        return f"<Workflow {self.name}: {len(self._plan.steps)} steps, {len(self._actors)} actors>"
