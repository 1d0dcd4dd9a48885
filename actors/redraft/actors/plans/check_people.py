"""Validates how people are asked: in approvals, and at the ends of loops."""

from __future__ import annotations

from typing import Final, get_args

from redraft.actors.plans.check_nodes import check_choice, check_whole
from redraft.actors.plans.endings import may_ask
from redraft.actors.values import is_number, shown
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Approve, Ending, OnDeadline, OnOscillation, Repeat

MAX_DEADLINE: Final = 90 * 86_400.0
"""The longest that people may take to decide: 90 days, in seconds."""

MAX_PEOPLE: Final = 100
"""How many people may be named, or have to approve."""


def check_approve(node: Approve, path: str) -> None:
    """Raises PlanError unless people can decide by this node's settings."""
    people: object = node.approvers
    if not isinstance(people, tuple) or len(people) > MAX_PEOPLE or not all(_is_person(each) for each in people):
        raise PlanError(path, f"approvers are {shown(people)}; write names, at most {MAX_PEOPLE}, none of them empty")
    if len(set(people)) < len(people):
        raise PlanError(path, f"approvers are {shown(people)}; name each of them once")
    check_whole(path, "quorum", node.quorum, MAX_PEOPLE)
    if people and node.quorum > len(people):
        raise PlanError(path, f"quorum is {node.quorum}, and {len(people)} may approve; write at most {len(people)}")
    deadline = node.deadline
    if not (is_number(deadline) and 0 < deadline <= MAX_DEADLINE):
        raise PlanError(path, f"deadline is {shown(deadline)}; write seconds, above 0 and at most 90 days (7776000)")
    check_choice(path, "on_deadline", node.on_deadline, get_args(OnDeadline))


def check_endings(repeat: Repeat, path: str) -> None:
    """Raises PlanError unless the settings of a loop's ends fit one another."""
    check_choice(path, "on_exhausted", repeat.on_exhausted, get_args(Ending))
    check_choice(path, "on_plateau", repeat.on_plateau, get_args(Ending))
    check_choice(path, "on_oscillation", repeat.on_oscillation, get_args(OnOscillation))
    if repeat.ask is not None:
        if not isinstance(repeat.ask, Approve):
            raise PlanError(path, f"ask is {shown(repeat.ask)}; write the settings of an approve")
        check_approve(repeat.ask, f"{path}[{repeat.ask.name}]")
        if not may_ask(repeat):
            raise PlanError(path, "ask says who is asked, but no end of this loop asks; write on_exhausted: ask")
    if may_ask(repeat) and any(isinstance(node, Approve) for node in repeat.body):
        raise PlanError(path, "people decide in this loop already, and nothing else leaves it; write publish or fail")


def _is_person(name: object) -> bool:
    return isinstance(name, str) and bool(name.strip()) and name.isprintable()
