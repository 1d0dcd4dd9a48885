"""Where workflows come from: those that ship with Redraft, a Python file, a YAML plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.actors.condition_text import parse_condition
from redraft.actors.limits import with_limits
from redraft.actors.plan_check import check_plan
from redraft.actors.roles import Actor
from redraft.app.budgets import read_budget
from redraft.app.builtin.options import nearest
from redraft.events.conditions import Condition
from redraft.events.errors import ConditionError, InputError, PlanError
from redraft.events.plan import Plan, Repeat

Outlet: TypeAlias = Literal["file", "stdout"]

SHIPPED: Final = (
    "prose",
    "code",
    "article",
    "chain-of-verification",
    "draft-critique-revise-verify",
    "self-consistency",
)
"""The workflows that ship with Redraft."""


class Source(msgspec.Struct, frozen=True):
    """A plan that was read, and the user's own actors that came with it. `shipped`: it is one of ours."""

    plan: Plan
    actors: tuple[Actor, ...] = ()
    shipped: bool = False


def read_source(
    name: str, *, actors: str = "", tests: Sequence[str] = (), publish: Outlet = "stdout", model: str = ""
) -> Source:
    """The workflow that a person names: a shipped one, `file.py:name` or `plan.yaml`.

    `actors` is a Python file with further actors, `tests` are the tests of `code` (paths that begin in this folder, and
    the plan says so), and `publish` is where the shipped workflows publish. With a `model`, a model mends what `code`
    finds.
    Raises InputError (PlanError, ActorError) when it cannot be read, with the place and the remedy.
    """
    if tests and name != "code":
        raise InputError(f"--tests is for --workflow code, not for {name}; name the tests in the plan instead")
    for each in tests:
        if not each.strip() or not os.path.exists(each):  # noqa: PTH110 - of a name that is too long this says no, and Path raises
            raise InputError(f"--tests {each}: there is no such file or folder; mend the path")
    own = own_actors(actors)
    match Path(name.partition(":")[0]).suffix:
        case "" if name in SHIPPED:
            return Source(_shipped_plan(name, tests, publish, model), own, shipped=True)
        case ".yaml" | ".yml":
            return Source(_yaml_plan(Path(name)), own)
        case ".py":
            return _python(name, own)
        case _:
            raise InputError(
                f"there is no workflow {name!r}; {nearest(name, SHIPPED)}, or give file.py:name or plan.yaml"
            )


def own_actors(file: str) -> tuple[Actor, ...]:
    """The actors of a Python file that a person named; none when no file is named. Raises InputError."""
    from redraft.app.user_file import actors_in

    return actors_in(Path(file)) if file else ()


def override(plan: Plan, until: str = "", max_iterations: int | None = None, budget: str = "") -> Plan:
    """The plan with another condition or number of passes for its outermost loop, or another budget, checked again.

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


def _shipped_plan(name: str, tests: Sequence[str], publish: Outlet, model: str) -> Plan:
    if name == "code":
        from redraft.app.builtin.code import code_plan

        folder = str(Path.cwd()) if tests else ""
        return code_plan(tests, publish=publish, model=bool(model), folder=folder)
    if name == "prose":
        from redraft.app.builtin.prose import prose_plan

        return prose_plan(publish=publish)
    return _model_plan(name, publish)


def _model_plan(name: str, publish: Outlet) -> Plan:
    from redraft.app.builtin.model_plans import article_plan, consistency_plan, revision_plan, verification_plan

    match name:
        case "chain-of-verification":
            return verification_plan(publish=publish)
        case "draft-critique-revise-verify":
            return revision_plan(publish=publish)
        case "self-consistency":
            return consistency_plan(publish=publish)
        case _:
            return article_plan(publish=publish)


def _yaml_plan(path: Path) -> Plan:
    from redraft.actors.plan_yaml import read_plan

    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; mend the path of the plan") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start:,} is not UTF-8; save the plan as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check the file and its permissions") from None
    return read_plan(text, str(path))


def _python(name: str, own: tuple[Actor, ...]) -> Source:
    from redraft.app.user_file import workflow_in

    file, colon, variable = name.rpartition(":")
    if not colon:
        raise InputError(f"{name}: which workflow in it? Write {name}:name, the name of the variable that holds it")
    workflow, actors = workflow_in(Path(file), variable)
    given = tuple(found for each in workflow.actors.values() for found in actors if found == each)
    seats = {(actor.role, actor.name) for actor in given}
    others = tuple(actor for actor in actors if (actor.role, actor.name) not in seats)
    return Source(workflow.plan, (*given, *others, *own))


def read_condition(text: str) -> Condition:
    """Returns the condition of an option `--until`; raises ConditionError, which names the option."""
    try:
        return parse_condition(text)
    except ConditionError as error:
        raise ConditionError(f"--until: {error}") from None
