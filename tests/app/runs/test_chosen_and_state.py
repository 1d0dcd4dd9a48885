"""A loop without critics whose condition reads the state alone, and in whose body a judge chooses the best of several.

The condition judges drafts, as in any loop without critics; the judge only chooses.
"""

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
    state,
    step,
)
from redraft.app import read_settings, refine
from redraft.events.backends import open_store
from redraft.projections.record_check.check import check_events


@generator
def write(brief):
    return "a draft"


@refiner
def improve(draft):
    return "good"


@refiner
def leave(draft):
    return Revision("good", exit=True)


@refiner
def leave_bad(draft):
    return Revision("bad", exit=True)


@refiner
def one(draft):
    return "one"


@refiner
def two(draft):
    return "two"


@refiner
def two_good(draft):
    return "two good"


@critic
def rate(draft):
    return Critique(0.5)


@critic
def rate_good(draft):
    return Critique(0.9 if "good" in draft.text else 0.1)


@step(writes=["passed"])
def look(draft):
    return {"passed": "good" in draft.text}


@publisher
def save(draft):
    return "somewhere"


BEST = parallel("Best", one, two, judge=rate)
BEST_GOOD = parallel("Best", one, two_good, judge=rate_good)


@pytest.mark.parametrize(
    ("body", "outcome", "published"),
    [
        pytest.param([look, leave, BEST], "accepted", "good", id="refiner-leaves"),
        pytest.param([look, leave_bad, BEST], "exhausted", "bad", id="refiner-leaves-with-a-bad-draft"),
        pytest.param([improve, look, BEST], "accepted", "good", id="looked-at-before-the-choice"),
        pytest.param([BEST, improve, look], "accepted", "good", id="refined-after-the-choice"),
        pytest.param([look, BEST, improve], "accepted", "good", id="refined-last"),
        pytest.param([BEST_GOOD, look], "accepted", "two good", id="chosen"),
        pytest.param([look, BEST_GOOD], "accepted", "two good", id="chosen-last"),
        pytest.param([look, BEST], "exhausted", "two", id="none-passes"),
    ],
)
async def test_the_condition_holds_for_whatever_draft_was_looked_at(
    tmp_path: Path, body: list[object], outcome: str, published: str
):
    loop = repeat("Loop", until=state.passed, max_iterations=2, body=body)
    workflow = Workflow("w").start_with(write).then(loop).finally_(save)
    result = await refine(workflow, "brief", settings=read_settings(store=f"sqlite:///{tmp_path}/runs.db"))
    assert (result.outcome, result.draft.text) == (outcome, published)
    async with open_store(f"sqlite:///{tmp_path}/runs.db") as store:
        assert check_events(await store.read(result.run)) == ()
