"""Workflows in Python: a plan, built step by step, and the actors given for it.

    article = (
        Workflow("article")
        .start_with(write)
        .repeat_until(score >= 0.9, max_iterations=5, name="Refinement", body=[judge, improve])
        .finally_(save)
    )

Each call returns a new workflow and refuses a part that is wrong in itself; `plan` refuses parts that do not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import get_args

from msgspec.structs import replace

from redraft.actors.plans.arms import with_arms
from redraft.actors.plans.check import check_nodes, check_plan, check_ready
from redraft.actors.plans.check_lessons import lessons_spec
from redraft.actors.plans.check_nodes import check_budget, check_choice
from redraft.actors.plans.paths import check_name, map_steps, steps_in
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.builders import (
    Actors,
    Member,
    StepSpec,
    Until,
    approve,
    as_parts,
    each,
    join_actors,
    parallel,
    repeat,
)
from redraft.actors.workflow.counting import shipped_critics
from redraft.actors.workflow.declaring import check_shared, with_declared
from redraft.actors.workflow.free_steps import step
from redraft.actors.workflow.state_types import state_spec
from redraft.events.errors import ActorError, PlanError
from redraft.events.messages.conditions import Points, StateValue
from redraft.events.messages.plan import (
    DEFAULT_CONCURRENCY,
    DEFAULT_ROLLBACK_MARGIN,
    Budget,
    Ending,
    Keep,
    LessonsSpec,
    Node,
    OnFailure,
    OnOscillation,
    OnStepFailure,
    Plan,
    Step,
)
from redraft.events.messages.run_state import Value

__all__ = ["Member", "StepSpec", "Workflow", "approve", "each", "parallel", "repeat", "step"]


class Workflow:
    """A plan and the actors given for it. It never changes; two are equal when their plans are."""

    __slots__ = ("_actors", "_plan")

    def __init__(
        self,
        name: str,
        *,
        state: type | Mapping[str, Value] | None = None,
        lessons: LessonsSpec | Mapping[str, str | int] | bool | None = None,
    ) -> None:
        """Makes an empty workflow.

        `state` says which values the state of its runs has: a pydantic model, a msgspec struct or a dataclass, whose
        defaults runs begin with; or only these values, given by name, beside which there may be any others.
        `lessons` gives generators and refiners lessons of earlier runs: True for ten of this workflow, or
        `{"workflow": name, "limit": most}`. Raises PlanError unless the name is 1 to 100 letters, digits, `_` and `-`,
        and for a state that cannot be one.
        """
        check_name("", name, "workflow")
        self._plan = Plan(name, (), state=state_spec(state), lessons=lessons_spec(lessons))
        self._actors: Actors = MappingProxyType({})

    @classmethod
    def of(cls, plan: Plan, actors: Mapping[str, Actor] | Iterable[Actor] = ()) -> Workflow:
        """Returns a workflow of an existing plan, with those of the actors that the plan names.

        Raises PlanError when the plan is wrong, ActorError when two actors have one name or one has another role.
        """
        given = actors.values() if isinstance(actors, Mapping) else actors
        named = {node.actor for _, node in steps_in(check_plan(plan).steps)}
        return cls._made(plan, join_actors({actor.name: actor} for actor in given if actor.name in named))

    @classmethod
    def _made(cls, plan: Plan, actors: Actors) -> Workflow:
        _check_roles(plan.steps, actors)
        made = cls(plan.name)
        plan = declare(plan, actors.values())
        made._plan, made._actors = plan, actors
        return made

    @property
    def name(self) -> str:
        return self._plan.name

    @property
    def plan(self) -> Plan:
        """The whole plan; raises PlanError, with the path of the fault, when its steps do not fit together.

        A name or number of a condition that its critics do not declare, or no scale for, is a fault too.
        """
        return self.plan_with(())

    def plan_with(self, others: Iterable[Actor]) -> Plan:
        """Returns the whole plan, in which critics given by name declare what these, or the shipped ones, do.

        Raises PlanError as `plan` does.
        """
        actors = (*self._actors.values(), *others)
        return check_ready(declare(self._plan, (*actors, *shipped_critics(actors))))

    @property
    def actors(self) -> Actors:
        """The actors given as objects, by name. Actors given by name alone are not among them."""
        return self._actors

    def start_with(self, *members: Member) -> Workflow:
        """Returns the workflow with these as its first steps; raises PlanError when it has some already."""
        if self._plan.steps:
            raise PlanError("", f"the workflow {self.name!r} has begun; add more steps with then(...)")
        return self.then(*members)

    def then(self, *members: Member) -> Workflow:
        """Returns the workflow with these actors, steps, loops or parallels at its end.

        Raises PlanError, ActorError.
        """
        parts = as_parts(members)
        steps = (*self._plan.steps, *(part.node for part in parts))
        check_nodes(steps, "")
        return self._made(
            replace(self._plan, steps=steps),
            join_actors([self._actors, *(part.actors for part in parts)]),
        )

    def repeat_until(
        self,
        until: Until,
        *,
        max_iterations: int,
        body: Iterable[Member],
        name: str = "Refinement",
        keep: Keep = "best",
        rollback_margin: float | Points | str = DEFAULT_ROLLBACK_MARGIN,
        on_oscillation: OnOscillation = "ignore",
        rollback_of: str = "",
        on_exhausted: Ending = "publish",
        on_plateau: Ending = "publish",
        ask: Member | None = None,
        on_failure: OnStepFailure = "end",
        max_failures: int = 3,
    ) -> Workflow:
        """Returns the workflow with a loop at its end; see `repeat`. Raises PlanError, ConditionError, ActorError."""
        loop = repeat(
            name,
            until=until,
            max_iterations=max_iterations,
            body=body,
            keep=keep,
            rollback_margin=rollback_margin,
            on_oscillation=on_oscillation,
            rollback_of=rollback_of,
            on_exhausted=on_exhausted,
            on_plateau=on_plateau,
            ask=ask,
            on_failure=on_failure,
            max_failures=max_failures,
        )
        return self.then(loop)

    def for_each(
        self, over: str | StateValue, *, name: str, body: Iterable[Member], concurrency: int = DEFAULT_CONCURRENCY
    ) -> Workflow:
        """Returns the workflow with an `each` at its end; see there. Raises PlanError, ActorError."""
        return self.then(each(name, over=over, body=body, concurrency=concurrency))

    def finally_(self, *members: Member) -> Workflow:
        """Does the same as `then`; reads better for publishers."""
        return self.then(*members)

    def on_failure(self, action: OnFailure) -> Workflow:
        """Returns the workflow with its end after a step fails for good.

        That is "fail", or "publish_best" for the best draft so far.
        """
        check_choice("", "on_failure", action, get_args(OnFailure))
        return self._made(replace(self._plan, on_failure=action), self._actors)

    def budget(
        self,
        *,
        tokens: int | None = None,
        cost: float | None = None,
        calls: int | None = None,
        seconds: float | None = None,
    ) -> Workflow:
        """Returns the workflow with a limit for each run; see `messages.plan.Budget`. Raises PlanError."""
        limits = Budget(tokens, cost, calls, seconds)
        check_budget("budget", limits)
        return self._made(replace(self._plan, budget=limits), self._actors)

    def daily_budget(
        self, *, tokens: int | None = None, cost: float | None = None, calls: int | None = None
    ) -> Workflow:
        """Returns the workflow with a limit for all runs that begin on one day (UTC) together. Raises PlanError."""
        limits = Budget(tokens, cost, calls)
        check_budget("daily_budget", limits, a_day=True)
        return self._made(replace(self._plan, daily=limits), self._actors)

    def __eq__(self, other: object) -> bool:
        return self._plan == other._plan if isinstance(other, Workflow) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._plan.name)

    def __repr__(self) -> str:
        return f"<Workflow {self.name}: {len(self._plan.steps)} steps, {len(self._actors)} actors>"


def declare(plan: Plan, actors: Iterable[Actor]) -> Plan:
    """Returns the plan in which each step has what its actor declares, such as scale and history. Raises PlanError."""
    known = tuple(actors)

    def declared(path: str, step: Step) -> Step:
        try:
            return with_declared(step, known)
        except PlanError as error:
            raise PlanError(path, error.fault) from None

    steps = map_steps(plan.steps, declared)
    return plan if steps == plan.steps else replace(plan, steps=steps)


def pin_versions(plan: Plan, actors: Iterable[Actor]) -> Plan:
    """Returns the plan of a run that begins: each step names the version of its actor, if that is given and none is
    named yet, and each critic has the scale, criteria and measures that it declares.

    Raises PlanError when conditions do not fit those, and where all runs are to take the verdicts of a critic that, by
    its options, looks at more than it is given.
    """
    actors = tuple(actors)
    plan = check_ready(declare(plan, actors))
    critics = {actor.name: actor for actor in actors if actor.role == "critic"}
    for path, node in steps_in(plan.steps):
        if node.role == "critic" and node.actor in critics:
            check_shared(path, node, critics[node.actor])
    versions = {(actor.role, actor.name): actor.version for actor in actors}

    def named(step: Step) -> Step:
        version = step.version or versions.get((step.role, step.actor), "")
        return step if version == step.version else replace(step, version=version)

    return replace(plan, steps=map_steps(plan.steps, with_arms(named)))


def unpin_versions(plan: Plan) -> Plan:
    """Returns the plan without the versions of actors, which are those of an earlier run."""
    return replace(plan, steps=map_steps(plan.steps, with_arms(lambda step: replace(step, version=""))))


def _check_roles(nodes: Iterable[Node], actors: Actors) -> None:
    """Raises ActorError when a step names one of these actors in a role that it does not have."""
    for path, node in steps_in(nodes):
        actor = actors.get(node.actor)
        if actor is not None and actor.role != node.role:
            raise ActorError(
                f"{path}: the plan wants {node.actor} as a {node.role}, but it is a {actor.role}; give another actor"
            )
