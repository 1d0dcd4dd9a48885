"""The best of several drafts in a loop with critics of its own: the loop's gates and critics judge it, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from redraft.actors import (
    Critique,
    Revision,
    Workflow,
    critic,
    generator,
    parallel,
    publisher,
    refiner,
    repeat,
    step,
)
from redraft.app import read_settings, refine

WRITTEN: list[str] = []


@generator
def write(brief):
    return "a draft"


@refiner
def one(draft):
    return "broken one"


@refiner
def two(draft):
    return "broken two"


@refiner
def leave(draft):
    return Revision("broken two", exit=True)


@critic
def checks(draft):
    broken = "broken" in draft.text
    return Critique(0.0, errors=["it fails"]) if broken else Critique(1.0)


@critic
def strict(draft):
    return Critique(0.1, approved=False) if "broken" in draft.text else Critique(0.5)


@critic
def rate(draft):
    return Critique(0.95)


@critic
def rate_again(draft):
    return Critique(0.95)


@publisher
def save(draft):
    WRITTEN.append(draft.text)
    return "somewhere"


GATE = step(checks, gate=True)
INNER = repeat("Inner", until="score >= 0.9", max_iterations=1, body=[rate, two, rate_again])
BEST = parallel("Best", one, two, judge=rate)


@pytest.mark.parametrize(
    ("body", "until", "outcome", "published"),
    [
        ([GATE, strict, BEST], "score >= 0.9", "exhausted", ["a draft"]),
        ([BEST, GATE, strict], "score >= 0.9", "rejected", []),
        ([BEST, GATE, strict], "score >= 0.99", "rejected", []),
        ([GATE, BEST], "score >= 0.9 and errors == 0", "accepted", ["a draft"]),
        ([strict, BEST], "score >= 0.9", "exhausted", ["a draft"]),
        ([BEST], "score >= 0.9", "accepted", ["broken two"]),
        ([BEST, leave, GATE], "score >= 0.9", "exhausted", []),
        ([INNER, leave, GATE], "score >= 0.9", "exhausted", []),
    ],
)
async def test_what_a_judge_chose_is_not_published_past_the_critics_of_its_loop(
    body: list[object], until: str, outcome: str, published: list[str], tmp_path: Path
) -> None:
    WRITTEN.clear()
    plan = Workflow("best").start_with(write).then(repeat("Loop", until=until, max_iterations=2, body=body))
    settings = read_settings(store=f"sqlite:///{tmp_path / 'store.db'}")
    result = await refine(plan.then(save), "a brief", settings=settings)
    assert (result.outcome, WRITTEN) == (outcome, published)
