"""Plans as Python source, in the form in which people build them; each actor is given by its name and role."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from typing import Final, assert_never

from redraft.actors.arms import NAMES
from redraft.actors.condition_text import print_number
from redraft.events.conditions import AllOf, AnyOf, Approved, Compare, Condition, Not, Oscillating, Plateau
from redraft.events.plan import Approve, Arm, Budget, Node, Option, Parallel, Plan, Repeat, Retry, Role, Step

_WIDTH: Final = 100
_SOURCES: Final[dict[str, frozenset[str]]] = {
    "redraft.actors": frozenset(
        {
            *(
                "Retry",
                "Workflow",
                "approve",
                "approved",
                "cost",
                "elapsed",
                "errors",
                "oscillating",
                "outputs",
                "parallel",
            ),
            *("plateau", "repeat", "score", "step", "tokens"),
        }
    ),
    "redraft.events.conditions": frozenset({"AllOf", "AnyOf"}),
}


def print_python(plan: Plan) -> str:
    """A Python module that builds an equal plan, of one that passes `check_plan`, as a `Workflow` named as the plan."""
    calls = [f"Workflow({_text(plan.name)})", *(_added(plan, index) for index in range(len(plan.steps)))]
    if plan.on_failure != "fail":
        calls.append(f".on_failure({_text(plan.on_failure)})")
    for verb, budget in (("budget", plan.budget), ("daily_budget", plan.daily)):
        if budget is not None:
            calls.append(_budget(verb, budget))
    built = "\n".join(calls)
    return f"{_imports(built)}\n\n{_variable(plan.name)} = (\n{_indented(built)}\n)\n"


def _budget(verb: str, budget: Budget) -> str:
    limits = {name: getattr(budget, name) for name in budget.__struct_fields__}
    given = [f"{name}={print_number(value)}" for name, value in limits.items() if value is not None]
    return f".{verb}({', '.join(given)})"


def print_python_condition(condition: Condition) -> str:
    """A Python expression that builds an equal condition."""
    match condition:
        case Compare():
            return f"{condition.quantity} {condition.operator} {print_number(condition.value)}"
        case Approved():
            return "approved"
        case Plateau():
            return f"plateau(gain={print_number(condition.gain)}, over={condition.over})"
        case Oscillating():
            return f"oscillating(window={condition.window})"
        case Not():
            return f"~{_operand(condition.condition)}"
        case AnyOf() | AllOf():
            return _group(condition)
        case _:
            assert_never(condition)


def _group(group: AnyOf | AllOf) -> str:
    """A group within a group of its kind has to be spelt out: the operators would make one of the two."""
    if any(type(part) is type(group) for part in group.conditions):
        parts = ", ".join(map(print_python_condition, group.conditions))
        return f"{type(group).__name__}(({parts}))"
    return (" | " if isinstance(group, AnyOf) else " & ").join(map(_operand, group.conditions))


def _operand(condition: Condition) -> str:
    text = print_python_condition(condition)
    return f"({text})" if isinstance(condition, Compare | AnyOf | AllOf) else text


def _imports(built: str) -> str:
    used = {node.id for node in ast.walk(ast.parse(f"(\n{built}\n)")) if isinstance(node, ast.Name)}
    lines = [
        f"from {module} import {', '.join(sorted(names & used))}" for module, names in _SOURCES.items() if names & used
    ]
    return "\n".join(lines)


def _variable(name: str) -> str:
    taken = keyword.iskeyword(name) or any(name in names for names in _SOURCES.values())
    return name if name.isidentifier() and not taken else "workflow"


def _added(plan: Plan, index: int) -> str:
    node = plan.steps[index]
    match node:
        case Repeat():
            return _call(".repeat_until", [print_python_condition(node.until), *_loop(node, named=True)])
        case Step() | Parallel() | Approve():
            verb = "start_with" if index == 0 else "finally_" if _publishes_last(plan, index) else "then"
            return _call(f".{verb}", [_node(node)])
        case _:
            assert_never(node)


def _publishes_last(plan: Plan, index: int) -> bool:
    node = plan.steps[index]
    return index == len(plan.steps) - 1 and isinstance(node, Step) and node.role == "publisher"


def _node(node: Node) -> str:
    match node:
        case Step():
            return _step(node)
        case Parallel():
            return _parallel(node)
        case Approve():
            return _approve(node)
        case Repeat():
            return _call(
                "repeat",
                [_text(node.name), f"until={print_python_condition(node.until)}", *_loop(node, named=False)],
            )
        case _:
            assert_never(node)


def _step(step: Step) -> str:
    named = NAMES.get(step.role) if step.choose else step.actor
    settings = [
        (step.name != named, f"name={_text(step.name)}"),
        (step.gate, "gate=True"),
        (step.timeout != 300, f"timeout={print_number(step.timeout)}"),
        (step.queue_wait is not None, f"queue_wait={print_number(step.queue_wait or 0)}"),
        (step.retry != Retry(), f"retry={_retry(step.retry)}"),
        (bool(step.options), f"options={_options(step.options)}"),
        (bool(step.version), f"version={_text(step.version)}"),
    ]
    who = f"choose={_list([_arm(arm, step.role) for arm in step.choose])}" if step.choose else _text(step.actor)
    return _call("step", [who, f"role={_text(step.role)}", *_changed(settings)])


def _arm(arm: Arm, role: Role) -> str:
    """An actor that can be chosen: by its name, if that is all that there is of it."""
    if arm == Arm(arm.actor, arm.actor):
        return _text(arm.actor)
    return _step(Step(role, arm.actor, arm.name, options=arm.options, version=arm.version))


def _retry(retry: Retry) -> str:
    usual = Retry()
    settings = [
        (retry.attempts != usual.attempts, f"attempts={retry.attempts}"),
        (retry.initial != usual.initial, f"initial={print_number(retry.initial)}"),
        (retry.factor != usual.factor, f"factor={print_number(retry.factor)}"),
        (retry.maximum != usual.maximum, f"maximum={print_number(retry.maximum)}"),
    ]
    return f"Retry({', '.join(_changed(settings))})"


def _loop(loop: Repeat, *, named: bool) -> list[str]:
    settings = [
        (True, f"max_iterations={loop.max_iterations}"),
        (named, f"name={_text(loop.name)}"),
        (loop.keep != "best", f"keep={_text(loop.keep)}"),
        (loop.rollback_margin != 0.1, f"rollback_margin={print_number(loop.rollback_margin)}"),
        (loop.on_oscillation != "ignore", f"on_oscillation={_text(loop.on_oscillation)}"),
        (True, f"body={_list([_node(node) for node in loop.body])}"),
    ]
    return _changed(settings)


def _parallel(parallel: Parallel) -> str:
    settings = [
        (parallel.wait != "all", f"wait={_value(parallel.wait)}"),
        (parallel.deadline is not None, f"deadline={print_number(parallel.deadline or 0)}"),
        (parallel.combine != "min", f"combine={_text(parallel.combine)}"),
        (bool(parallel.weights), f"weights=[{', '.join(map(print_number, parallel.weights))}]"),
    ]
    judge = [] if parallel.judge is None else [f"judge={_step(parallel.judge)}"]
    return _call("parallel", [_text(parallel.name), *map(_step, parallel.steps), *_changed(settings), *judge])


def _approve(node: Approve) -> str:
    settings = [
        (bool(node.approvers), f"approvers=[{', '.join(map(_text, node.approvers))}]"),
        (node.quorum != 1, f"quorum={node.quorum}"),
        (node.deadline != 86400, f"deadline={print_number(node.deadline)}"),
        (node.on_deadline != "reject", f"on_deadline={_text(node.on_deadline)}"),
    ]
    return _call("approve", [_text(node.name), *_changed(settings)])


def _changed(settings: list[tuple[bool, str]]) -> list[str]:
    return [written for changed, written in settings if changed]


def _options(options: Mapping[str, Option]) -> str:
    return "{" + ", ".join(f"{_text(key)}: {_value(each)}" for key, each in options.items()) + "}"


def _value(value: Option) -> str:
    match value:
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return _options(value)
        case bool() | int() | float():
            return repr(value)
        case _:
            assert_never(value)


def _text(text: str) -> str:
    """As Python shows it, but in double quotes where that needs no escape."""
    literal = repr(text)
    return literal if '"' in literal else f'"{literal[1:-1]}"'


def _call(head: str, arguments: list[str]) -> str:
    return _bracketed(f"{head}(", arguments, ")")


def _list(items: list[str]) -> str:
    return _bracketed("[", items, "]")


def _bracketed(opening: str, items: list[str], closing: str) -> str:
    line = f"{opening}{', '.join(items)}{closing}"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    inner = "".join(f"{_indented(item)},\n" for item in items)
    return f"{opening}\n{inner}{closing}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))
