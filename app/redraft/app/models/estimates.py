"""Estimates the share of a budget to reserve for the first call of a model, whose usage is not known yet."""

from __future__ import annotations

from typing import Final

import msgspec

from redraft.actors.plans.arms import with_arms
from redraft.actors.plans.paths import map_steps
from redraft.actors.workflow.actor import ActorKey
from redraft.app.models.configuration import Models, asks_model, cost_of_step
from redraft.app.settings.settings import CURRENCY
from redraft.events.messages.content import Brief
from redraft.events.messages.plan import Option, Plan, Step
from redraft.events.messages.usage import Usage

OUTPUT: Final = 2048
"""Tokens that a model is thought to write where its step has no `max_tokens`: about 1,500 words of English."""

PROMPT: Final = 1000
"""Tokens of instructions, and of the schema of a reply."""

ANSWER: Final = 256
"""Tokens of an answer to one question of the critic `verify`."""

CHARACTERS: Final = 4
"""Characters of a token, by the rule of thumb for English."""

_QUESTIONS: Final = 6


def with_estimates(plan: Plan, brief: Brief, models: Models, own: frozenset[ActorKey] = frozenset()) -> Plan:
    """The plan whose steps that ask a model say what to set aside for a first attempt, if it has a budget to keep.

    A step that says it itself (`reserve_tokens`) is left as it is, and so are the steps of the user's `own` actors. The
    cost is by the step's model and its price, where both are known here.
    """
    if all(each is None or (each.tokens, each.cost, each.calls) == (None,) * 3 for each in (plan.budget, plan.daily)):
        return plan

    def estimated(step: Step) -> Step:
        if not asks_model(step, own) or "reserve_tokens" in step.options:
            return step
        return msgspec.structs.replace(step, options={**_estimate(step, brief, models), **step.options})

    return msgspec.structs.replace(plan, steps=map_steps(plan.steps, with_arms(estimated)))


def expected_usage(step: Step, brief: Brief, models: Models) -> Usage:
    """Returns the usage expected of one attempt of a step that asks a model; unpriced where no price is known."""
    calls, given, taken = _expected(step, len(brief.text) // CHARACTERS + 1)
    cost = cost_of_step(step, given, taken, models)
    return Usage(
        given + taken,
        cost or 0.0,
        calls,
        calls if cost is None else 0,
        given,
        taken,
        currency="" if cost is None else CURRENCY,
    )


def _estimate(step: Step, brief: Brief, models: Models) -> dict[str, Option]:
    used = expected_usage(step, brief, models)
    said: dict[str, Option] = {"reserve_tokens": used.tokens, "reserve_calls": used.calls}
    if used.cost:
        said["reserve_cost"] = round(used.cost, 6)
    return said


def _expected(step: Step, brief: int) -> tuple[int, int, int]:
    """Calls of one attempt, and the tokens that they are given and write, for a brief of `brief` tokens.

    A draft is thought to be as long as the brief or the answer of a model, whichever is longer.
    """
    output = _whole(step, "max_tokens", OUTPUT)
    given = PROMPT + brief + (0 if step.role == "generator" else max(output, brief))
    if step.actor == "verify":
        questions = _whole(step, "questions", _QUESTIONS)
        return questions + 2, 2 * given + questions * (PROMPT + ANSWER), 2 * output + questions * ANSWER
    calls = _whole(step, "samples", 1) if step.role == "critic" else 1
    return calls, calls * given, calls * output


def _whole(step: Step, name: str, default: int) -> int:
    value = step.options.get(name, default)
    return value if isinstance(value, int) and value > 0 else default
