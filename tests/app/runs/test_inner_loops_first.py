"""A loop whose condition holds once its first inner loop has ended: the one with the gate sees the draft, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from redraft.actors import (
    Workflow,
    critic,
    generator,
    outputs,
    publisher,
    refiner,
    repeat,
    score,
    state,
    step,
)
from redraft.app import read_settings, refine
from redraft.events.backends import open_store
from redraft.events.messages.conditions import Condition
from redraft.projections.record_check.check import check_events


@generator
def write(brief):
    return "BROKEN"


@step
def research():
    return {"done": True}


@critic
def lint(draft):
    return 0.0 if draft.text == "BROKEN" else 1.0


@refiner
def improve(draft):
    return "mended"


@publisher
def save(draft):
    return draft.text


@pytest.mark.parametrize("until", [state.done, outputs >= 1, state.done | (score >= 0.8)])
async def test_no_draft_leaves_a_loop_that_the_gate_of_an_inner_loop_has_not_seen(
    tmp_path: Path, until: Condition
) -> None:
    search = repeat(until=state.done, max_iterations=3, name="Research", body=[research])
    mend = repeat(until=score >= 0.8, max_iterations=3, name="Mend", body=[step(lint, gate=True), improve])
    book = Workflow("book").repeat_until(until, max_iterations=3, name="Chapters", body=[write, search, mend])
    store = f"sqlite:///{tmp_path / 'log.db'}"
    result = await refine(book.finally_(save), "brief", settings=read_settings(store=store))
    assert ([each.location for each in result.publications], result.iterations) == (["mended"], 1)
    async with open_store(store) as log:
        assert check_events(await log.read(result.run)) == ()
