"""A condition on the score of one critic reads that critic's score, whatever it declares."""

from __future__ import annotations

from typing import Any

import pytest

from redraft.actors import Critique, Draft, Workflow, critic, generator, refiner
from redraft.app import Settings, refine


def loop(until: str, **declared: Any) -> Workflow:
    @generator
    def write() -> str:
        return "one two"

    @critic(**declared)
    def check(draft: Draft) -> Critique:
        measures = {"words": 2} if declared else {}
        return Critique(0.2 * draft.version, measures=measures)

    @critic
    def other(draft: Draft) -> Critique:
        return Critique(0.9)

    @refiner
    def improve(draft: Draft) -> str:
        return draft.text + "!"

    return Workflow("own").start_with(write).repeat_until(until, max_iterations=4, body=[check, other, improve])


@pytest.mark.parametrize("declared", [{}, {"measures": ("words",)}])
@pytest.mark.parametrize(
    ("until", "drafts"),
    [
        ("check.score >= 0.5", 3),
        ("other.score >= 0.8 and check.score >= 0.3", 2),
        ("not check.score < 0.7", 4),
        ("plateau(of=check.score, gain=0.3, over=2) or check.score >= 0.75", 4),
    ],
)
async def test_the_score_of_a_critic_without_a_scale_is_its_own(until: str, drafts: int, declared: Any) -> None:
    result = await refine(loop(until, **declared), "Tides", settings=Settings(store="memory:"))
    assert (result.outcome, result.draft and result.draft.version) == ("accepted", drafts)
