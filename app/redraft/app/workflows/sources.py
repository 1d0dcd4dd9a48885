"""Reads workflows: those that ship with Redraft, a Python file, a YAML plan."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.actors.conditions.text import parse_condition, read_margin
from redraft.actors.deciding.policy import with_limits
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.check import check_plan, check_ready
from redraft.actors.plans.paths import steps_in
from redraft.actors.workflow.actor import Actor, ActorKey
from redraft.actors.workflow.counting import shipped_critics
from redraft.actors.workflow.workflow import Workflow, declare, unpin_versions
from redraft.app.builtin.support.options import nearest
from redraft.app.models.configuration import Models, with_model
from redraft.app.models.estimates import with_estimates
from redraft.app.process.files import read_at_most
from redraft.app.workflows.run_settings import apply_settings, read_budget, refuse_vain
from redraft.events.errors import ConditionError, InputError, PlanError
from redraft.events.messages.conditions import Condition, Points
from redraft.events.messages.content import Brief
from redraft.events.messages.plan import Plan, Repeat

PublishTarget: TypeAlias = Literal["file", "stdout"]

SHIPPED: Final = {
    "prose": "redraft.app.builtin.prose.actors:prose_plan",
    "code": "redraft.app.builtin.plans:code_plan",
    "article": "redraft.app.builtin.plans:article_plan",
    "chain-of-verification": "redraft.app.builtin.plans:verification_plan",
    "draft-critique-revise-verify": "redraft.app.builtin.plans:revision_plan",
    "self-consistency": "redraft.app.builtin.plans:consistency_plan",
}
"""The workflows that ship with Redraft, each with what makes its plan."""


class Source(msgspec.Struct, frozen=True):
    """A plan that was read, and the user's own actors that came with it. `shipped`: it is one of ours."""

    plan: Plan
    actors: tuple[Actor, ...] = ()
    shipped: bool = False


def read_source(
    name: str,
    *,
    actors: str = "",
    tests: Sequence[str] = (),
    publish: PublishTarget = "stdout",
    model: str = "",
    complete: bool = False,
) -> Source:
    """The workflow that a person names: a shipped one, `file.py:name` or `plan.yaml`.

    `actors` is a Python file with further actors, `tests` are the tests of `code` (paths that begin in this folder, and
    the plan says so), and `publish` is where the shipped workflows publish. With a `model`, a model mends what `code`
    finds. A plan that has to be `complete` says itself what critics declare whose actors are not here.
    Raises InputError (PlanError, ActorError) when it cannot be read, with the place and the remedy.
    """
    if tests and name != "code":
        raise InputError(f"--tests is for --workflow code, not for {name}; name the tests in the plan instead")
    for each in tests:
        if not each.strip() or not os.path.exists(each):  # noqa: PTH110 - of a name that is too long this says no, and Path raises
            raise InputError(f"--tests {each}: there is no such file or folder; correct the path")
    own = own_actors(actors)
    match Path(name.partition(":")[0]).suffix:
        case "" if name in SHIPPED:
            plan = declare(_shipped_plan(name, tests, publish, model), shipped_critics(own))
            return Source(plan, own, shipped=True)
        case ".yaml" | ".yml":
            return Source(_yaml_plan(Path(name), own, complete=complete), own)
        case ".py":
            return _python(name, own)
        case _:
            raise InputError(
                f"there is no workflow {name!r}; {nearest(name, tuple(SHIPPED), 'give file.py:name or plan.yaml')}"
            )


def own_actors(file: str) -> tuple[Actor, ...]:
    """The actors of a Python file that a person named; none when no file is named. Raises InputError."""
    from redraft.app.workflows.user_file import actors_in

    return actors_in(Path(file)) if file else ()


def actors_beside(name: str, actors: str = "") -> tuple[Actor, ...]:
    """The user's own actors that `read_source` gives, whether they fit the plan there or not. Raises InputError."""
    own = own_actors(actors)
    if not name.partition(":")[0].endswith(".py"):
        return own
    _, given, others = _python_parts(name)
    return (*given, *others, *own)


def override(plan: Plan, until: str = "", max_iterations: int | None = None, budget: str = "") -> Plan:
    """Returns the plan with another condition or number of iterations for its outermost loop, or another budget.

    Raises PlanError when there is not exactly one such loop or the plan is wrong then, ConditionError for the
    condition, InputError for the budget.
    """
    if budget:
        plan = check_plan(msgspec.structs.replace(plan, budget=read_budget(budget)))
    if not until and max_iterations is None:
        return plan
    loops = [node for node in plan.steps if isinstance(node, Repeat)]
    if len(loops) != 1:
        names = ", ".join(loop.name for loop in loops) or "none"
        raise PlanError(
            plan.name,
            f"--until and --max-iterations need one outermost loop, and it has {names}; change the plan itself",
        )
    return with_limits(plan, loops[0].name, read_condition(until) if until else None, max_iterations)


def _shipped_plan(name: str, tests: Sequence[str], publish: PublishTarget, model: str) -> Plan:
    make = resolve_name(SHIPPED[name])
    plan: Plan
    if name == "code":
        folder = str(Path.cwd()) if tests else ""
        plan = make(tests, publish=publish, model=bool(model), folder=folder)
    else:
        plan = make(publish=publish)
    return plan


def _yaml_plan(path: Path, own: Sequence[Actor] = (), *, complete: bool = False) -> Plan:
    from redraft.actors.formats.yaml_reader import read_plan
    from redraft.actors.formats.yaml_source import MAX_BYTES

    try:
        text = read_at_most(path, MAX_BYTES + len(BOM_UTF8)).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; correct the path of the plan") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start:,} is not UTF-8; save the plan as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check the file and its permissions") from None
    except ValueError:
        raise InputError(f"{path}: more than {MAX_BYTES:,} bytes; a workflow is shorter than that") from None
    return read_plan(text, str(path), lambda plan: _declared(check_plan(plan), own, complete=complete))


def _declared(plan: Plan, own: Sequence[Actor], *, complete: bool) -> Plan:
    """Returns the plan with what its critics declare, checked for that if it is complete or all of them are known."""
    from redraft.app.workflows.actor_registry import SHIPPED as ACTORS

    known = {*ACTORS, *((actor.role, actor.name) for actor in own)}
    critics = (step for _, step in steps_in(plan.steps) if step.role == "critic")
    plan = declare(plan, (*own, *shipped_critics(own)))
    return check_ready(plan) if complete or all((step.role, step.actor) in known for step in critics) else plan


def _python(name: str, own: tuple[Actor, ...]) -> Source:
    workflow, given, others = _python_parts(name)
    return Source(workflow.plan_with((*others, *own)), (*given, *others, *own))


def _python_parts(name: str) -> tuple[Workflow, tuple[Actor, ...], tuple[Actor, ...]]:
    """The workflow that `file.py:name` names, its actors, and the other ones of the file."""
    from redraft.app.workflows.user_file import workflow_in

    file, colon, variable = name.rpartition(":")
    if not colon:
        raise InputError(f"{name}: which workflow in it? Write {name}:name, the name of the variable that holds it")
    workflow, actors = workflow_in(Path(file), variable)
    given = tuple(found for each in workflow.actors.values() for found in actors if found == each)
    keys = {(actor.role, actor.name) for actor in given}
    return workflow, given, tuple(actor for actor in actors if (actor.role, actor.name) not in keys)


def read_condition(text: str) -> Condition:
    """Returns the condition of an option `--until`; raises ConditionError, which names the option."""
    try:
        return parse_condition(text)
    except ConditionError as error:
        raise ConditionError(f"--until: {error}") from None


def margin_of(text: str) -> float | Points:
    """Returns the margin of an option `--rollback-margin`; raises ConditionError, which names the option."""
    try:
        return read_margin(text)
    except ConditionError as error:
        raise ConditionError(f"--rollback-margin: {error}") from None


def prepare(plan: Plan, brief: Brief, models: Models, own: frozenset[ActorKey] = frozenset(), model: str = "") -> Plan:
    """The plan with the model of each step that asks one and names none, its price, and what to set aside of a budget.

    That is `model`, or else that of the `models`, if there is one; so a run that goes on under other settings asks the
    model that it began with, at its price. `own` are the keys of actors that the user brought along.
    """
    named = with_model(plan, model or models.default, models.prices)
    return with_estimates(named, brief, models, own)


def changed_plan(
    state: RunState,
    settings: Sequence[str],
    brief: Brief | None,
    models: Models,
    own: frozenset[ActorKey] = frozenset(),
) -> Plan:
    """The plan of a run as a fork of it has it, with these settings, each `KEY=VALUE`. Raises InputError."""
    change = apply_settings(unpin_versions(state.plan), settings)
    refuse_vain(state, change)
    return prepare(change.plan, brief or state.brief, models, own)
