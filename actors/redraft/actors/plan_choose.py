"""What makes a choice among actors no choice. Each fault is a PlanError with the path of the step."""

from __future__ import annotations

from typing import Final

from redraft.actors.plan_budget import check_reserves
from redraft.actors.plan_paths import check_actor, check_name
from redraft.actors.plan_settings import check_options, check_version
from redraft.actors.values import shown
from redraft.events.errors import PlanError
from redraft.events.plan import Arm, Step

MAX_ARMS: Final = 20
"""How many actors a step may choose among."""


def check_choose(step: Step, path: str) -> None:
    """Raises PlanError unless this step chooses among two actors or more, all of them different."""
    given: object = step.choose
    if not isinstance(given, tuple) or not all(isinstance(arm, Arm) for arm in given):
        raise PlanError(path, f"choose is {shown(given)}; give actors: choose=[first, second]")
    if step.actor:
        raise PlanError(path, f"choose: the step names the actor {step.actor!r} too; keep one of the two")
    if step.role == "publisher":
        raise PlanError(path, "choose is for generators, critics and refiners; name the one actor that publishes")
    if step.gate:
        raise PlanError(path, "choose: a gate asks the same of every draft; name one actor, or take the gate away")
    if step.version:
        raise PlanError(path, "version is that of an actor; give it within choose")
    if len(step.choose) < 2:
        raise PlanError(path, "choose names one actor; give at least two, or name it as the step's actor")
    if len(step.choose) > MAX_ARMS:
        raise PlanError(path, f"choose names {len(step.choose)} actors; {MAX_ARMS} can be told apart at most")
    _check_arms(step, path)


def _check_arms(step: Step, path: str) -> None:
    seen: dict[str, Arm] = {}
    for arm in step.choose:
        try:
            check_actor(path, step.role, arm.actor)
            check_name(path, arm.name, "arm")
            check_options(path, arm.options)
            check_reserves(path, arm.options)
            check_version(path, arm.version)
        except PlanError as error:
            raise PlanError(path, f"choose: {error.fault}") from None
        if arm.name in seen:
            raise PlanError(path, f"choose names {arm.name!r} twice; take one away, or give one another name")
        same = next((each for each in seen.values() if _does(each) == _does(arm)), None)
        if same is not None:
            raise PlanError(path, f"choose: {same.name!r} and {arm.name!r} do the same; take one away")
        seen[arm.name] = arm


def _does(arm: Arm) -> tuple[object, ...]:
    return arm.actor, arm.options, arm.version
