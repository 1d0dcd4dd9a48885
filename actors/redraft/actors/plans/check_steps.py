"""Validates the settings of single steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from redraft.actors.conditions.printing import print_condition
from redraft.actors.conditions.text import check_printable, terms
from redraft.actors.plans.check_nodes import (
    check_choice,
    check_choose,
    check_criteria,
    check_history,
    check_measures,
    check_options,
    check_reserves,
    check_retry,
    check_scale,
    check_seconds,
    check_version,
)
from redraft.actors.plans.check_state import check_writes
from redraft.actors.plans.paths import check_actor, critics_before, is_critic, path_of
from redraft.actors.values import shown
from redraft.events.errors import ConditionError, PlanError
from redraft.events.messages.conditions import Compare, Exit, Oscillating, Plateau, State
from redraft.events.messages.plan import ACTOR_ROLES, Node, Parallel, Repeat, Reuse, Step


def check_step(step: Step, path: str) -> None:
    """Raises PlanError unless these are settings that fit the step's role and each other."""
    check_choice(path, "role", step.role, ACTOR_ROLES)
    if step.choose:
        check_choose(step, path)
    else:
        check_actor(path, step.role, step.actor)
    check_seconds(path, "timeout", step.timeout, zero=False)
    check_retry(path, step.retry)
    if step.queue_wait is not None:
        check_seconds(path, "queue_wait", step.queue_wait, zero=False)
    check_options(path, step.options)
    check_reserves(path, step.options)
    check_version(path, step.version)
    if not isinstance(step.gate, bool):
        raise PlanError(path, f"gate is {shown(step.gate)}; write true or false")
    if step.gate and step.role != "critic":
        raise PlanError(path, f"gate is for critics, and this is a {step.role}; remove gate")
    if (step.scale is not None or step.criteria or step.measures) and step.role != "critic":
        raise PlanError(path, f"scale, criteria and measures are for critics, and this is a {step.role}; remove them")
    if not isinstance(step.only_issues, bool):
        raise PlanError(path, f"only_issues is {shown(step.only_issues)}; write true or false")
    if not isinstance(step.about_run, bool):
        raise PlanError(path, f"about_run is {shown(step.about_run)}; write true or false")
    if step.about_run and step.role != "step":
        raise PlanError(path, f"about_run is for free steps, and this is a {step.role}; remove it")
    if step.only_issues and step.role != "refiner":
        raise PlanError(path, f"only_issues is for refiners, and this is a {step.role}; remove it")
    check_history(path, step.history)
    if step.history is not None and step.role == "publisher":
        raise PlanError(path, "history is for generators, critics and refiners; remove it")
    _check_reuse(step, path)
    check_writes(step, path)
    _check_condition(step, path)
    check_scale(path, "scale", step.scale)
    check_criteria(path, step.criteria)
    check_measures(path, step.measures, step.criteria)
    _check_conditions_of(step, path)


def _check_condition(step: Step, path: str) -> None:
    if not isinstance(step.condition, bool):
        raise PlanError(path, f"condition is {shown(step.condition)}; write true or false")
    if not step.condition:
        return
    if step.role != "critic" or step.gate or step.choose or step.reuse is not None or step.when is not None:
        raise PlanError(path, "a condition is asked about every draft; remove gate, choose, reuse and when")
    if step.measures != (step.actor,) or step.criteria or step.scale is not None:
        raise PlanError(
            path, f"a condition says only whether it holds; remove scale and criteria, measures is {step.actor}"
        )


def _check_conditions_of(step: Step, path: str) -> None:
    if step.passes is not None and not step.gate:
        raise PlanError(path, "passes is for gates; write gate: with the condition, or remove it")
    if step.success is not None and not step.choose:
        raise PlanError(path, "success is for steps that choose; remove it")
    if step.when is not None and (step.role != "critic" or step.gate):
        raise PlanError(path, f"when is for critics, and this is a {'gate' if step.gate else step.role}; remove it")
    for what, condition in (("gate", step.passes), ("success", step.success), ("when", step.when)):
        if condition is None:
            continue
        try:
            check_printable(condition)
        except ConditionError as error:
            raise PlanError(path, f"{what}: {error}") from None
        for term in terms(condition):
            if isinstance(term, State) and what == "when":
                continue
            if isinstance(term, Plateau | Oscillating | Exit | State) or (
                isinstance(term, Compare) and term.quantity not in ("score", "errors", "criterion")
            ):
                raise PlanError(path, f"{what}: {print_condition(term)} is no word about one draft; write score >= 0.8")


def _check_reuse(step: Step, path: str) -> None:
    if step.reuse is None:
        return
    check_choice(path, "reuse", step.reuse, get_args(Reuse))
    if step.role != "critic":
        raise PlanError(path, f"reuse is for critics, and this is a {step.role}; remove it")
    if step.choose:
        raise PlanError(path, "reuse: a step that chooses may ask another actor; name one actor, or remove reuse")
    if step.history is not None:
        raise PlanError(path, "reuse: the history grows with every draft, so nothing comes again; remove one of them")


def check_late_critics(nodes: Sequence[Node], parent: str) -> None:
    """Raises PlanError for a critic with a condition that no other is asked before in its row."""
    for before, node in zip((None, *nodes), nodes, strict=False):
        path = path_of(parent, node.name)
        if isinstance(node, Step) and node.when is not None and not (before is not None and is_critic(before)):
            raise PlanError(path, "when: nothing is said of the draft before this critic; put it right after another")


def check_late_in_panel(panel: Parallel, path: str) -> None:
    """Raises PlanError unless critics with a condition are asked after others of the panel that all answer."""
    late = [step for step in panel.steps if step.when is not None]
    if panel.judge is not None and panel.judge.when is not None:
        raise PlanError(path_of(path, panel.judge.name), "when: a judge compares every draft; remove it")
    if not late:
        return
    if len(late) == len(panel.steps):
        raise PlanError(path, "when: every critic of the panel has a condition; leave one without")
    if late != list(panel.steps[-len(late) :]):
        raise PlanError(path_of(path, late[0].name), "when: it is asked after the others of the panel; put it last")
    if panel.wait != "all":
        raise PlanError(path, f"wait is {panel.wait}, but a critic with when waits for the others; write all")


def late_critics(nodes: Sequence[Node], parent: str = "") -> Iterator[tuple[str, Step, tuple[Step, ...]]]:
    """Yields each critic with a condition: its path, itself, and the critics that are asked before it."""
    for index, node in enumerate(nodes):
        path = path_of(parent, node.name)
        match node:
            case Repeat(body=body):
                yield from late_critics(body, path)
            case Step() if node.when is not None:
                yield path, node, critics_before(nodes, index)
            case Parallel(steps=steps):
                late = (step for step in steps if step.when is not None)
                yield from ((path_of(path, step.name), step, critics_before(nodes, index)) for step in late)
            case _:
                pass
