"""The workflow `code`: ruff judges and mends a Python file, and pytest judges it too when tests are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from redraft.app.builtin.pytest_actor import pytest_critic
from redraft.app.builtin.ruff_actors import ruff_critic, ruff_refiner
from redraft.events.conditions import Condition, errors, plateau, score
from redraft.events.plan import Option, Parallel, Plan, Repeat, Step

__all__ = ["code_plan", "pytest_critic", "ruff_critic", "ruff_refiner"]


_RUFF: Final = Step("refiner", "ruff-fix", "refine")


def code_plan(
    tests: Sequence[str] = (),
    max_iterations: int = 5,
    threshold: float | None = None,
    publish: Literal["file", "stdout"] = "file",
    *,
    model: bool = False,
    folder: str = "",
) -> Plan:
    """The plan: the source as it is, then critique and refine until good or no longer better, then publish.

    Good means no errors, or a score of at least `threshold` (0..1) when that is given. With `tests` (files or folders)
    both critics judge each draft, and the lower score counts; `folder` is where their paths begin, by default the
    folder that the worker was started in. With `model` a model mends what they find. `max_iterations` is at least 1.
    """
    good: Condition = errors == 0 if threshold is None else score >= threshold
    loop = Repeat(
        name="Refinement",
        until=good | plateau(gain=0.001, over=3 if model else 2),
        max_iterations=max_iterations,
        body=(_judging(tests, folder), _mending(model=model)),
    )
    return Plan("code", (Step("generator", "source", "generate"), loop, Step("publisher", publish, "publish")))


def _mending(*, model: bool) -> Step:
    return Step("refiner", "llm", "refine", options={"prompt": "code"}) if model else _RUFF


def _judging(tests: Sequence[str], folder: str) -> Step | Parallel:
    critique = Step("critic", "ruff", "critique")
    if not tests:
        return critique
    options: dict[str, Option] = {"tests": list(tests)}
    if folder:
        options["folder"] = folder
    return Parallel("checks", (critique, Step("critic", "pytest", "tests", options=options)))
