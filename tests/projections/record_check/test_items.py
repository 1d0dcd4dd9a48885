"""A run held against the runs of its items: what is right is found right, and each change of a record is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from redraft.actors import Critique, Workflow, critic, generator, refiner, repeat, score
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import open_local
from redraft.events.messages.content import new_draft
from redraft.events.messages.domain_events import DraftGenerated, ItemOf, RunEnded, RunStarted, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import run_of_item
from redraft.events.messages.usage import Usage
from redraft.projections.record_check import check_events

Runs: TypeAlias = dict[str, list[Recorded]]


@generator
async def write(context):
    context.used(Usage(calls=1, tokens=10))
    return f"{context.state.item}:"


@critic
async def judge(draft):
    return Critique(len(draft.text) / 5)


@refiner
async def improve(draft):
    return draft.text + "!"


@generator
async def bind(context):
    return " ".join(draft.text for draft in context.outputs)


LOOP = repeat("Loop", until=score >= 0.8, max_iterations=4, body=[judge, improve])
BOOK = (
    Workflow("book", state={"chapters": ["a", "b", "c"]})
    .budget(calls=30)
    .for_each("state.chapters", name="Chapters", concurrency=2, body=[write, LOOP])
    .then(bind)
)


@pytest.fixture(scope="module")
def made() -> Mapping[str, Sequence[Recorded]]:
    return asyncio.run(_recorded())


async def _recorded() -> Mapping[str, Sequence[Recorded]]:
    async with open_local(Settings(store="memory:"), BOOK.actors.values()) as runtime:
        run = await runtime.client.submit(BOOK, "Tides")
        await runtime.client.wait(run)
        items = [run_of_item(ItemOf(run, f"Chapters[{number}]")) for number in (1, 2, 3)]
        return {each: await runtime.store.read(each) for each in (run, *items)}


@pytest.fixture
def runs(made: Mapping[str, Sequence[Recorded]]) -> Runs:
    return {run: list(events) for run, events in made.items()}


def found(runs: Runs) -> set[tuple[int, str]]:
    """What is found, by the number of the run (0 for the one around the others) and the code."""
    return {(number, each.code) for number, events in enumerate(runs.values()) for each in check_events(events, runs)}


def change(events: list[Recorded], kind: type, changed: Callable[..., object], path: str = "") -> None:
    """Changes the first event of a kind, at this path if it is given."""
    at = next(
        number
        for number, event in enumerate(events)
        if isinstance(event.data, kind) and (not path or getattr(event.data, "path", "") == path)
    )
    events[at] = replace(events[at], data=changed(events[at].data))


def around(runs: Runs) -> list[Recorded]:
    return next(iter(runs.values()))


def item(runs: Runs, number: int = 1) -> list[Recorded]:
    return list(runs.values())[number]


def test_what_happened_is_found_right(runs: Runs):
    assert len(runs) == 4
    assert all(isinstance(events[-1].data, RunEnded) for events in runs.values())
    assert found(runs) == set()


def test_a_run_whose_items_are_not_there_is_unproven_and_not_wrong(runs: Runs):
    assert {each.code for each in check_events(around(runs), {})} == {"unproven"}
    assert check_events(item(runs), {}) == ()


def test_another_draft_than_the_item_ended_with(runs: Runs):
    change(around(runs), DraftGenerated, lambda data: replace(data, draft=new_draft(1, "forged")), "Chapters[1]")
    assert (0, "items") in found(runs)


def test_another_usage_than_the_item_had(runs: Runs):
    change(around(runs), DraftGenerated, lambda data: replace(data, usage=Usage(calls=1, tokens=9)), "Chapters[2]")
    assert (0, "items") in found(runs)


def test_a_draft_of_an_item_that_gives_none(runs: Runs):
    change(item(runs), RunEnded, lambda data: replace(data, outcome="rejected"))
    assert (0, "items") in found(runs)


def test_an_item_that_has_not_ended(runs: Runs):
    del item(runs)[-1]
    assert (0, "items") in found(runs)


def test_drafts_in_another_order_than_that_of_the_list(runs: Runs):
    change(around(runs), StepRequested, lambda data: replace(data, outputs=data.outputs[::-1]), "bind")
    assert (0, "draft") in found(runs)


def test_another_part_of_the_budget(runs: Runs):
    change(around(runs), StepRequested, lambda data: replace(data, reserved=Usage(calls=11)), "Chapters[1]")
    assert (0, "budget") in found(runs)
    assert (1, "items") in found(runs)


def test_more_items_at_once_than_the_plan_allows(runs: Runs):
    begun = around(runs)[0].data
    assert isinstance(begun, RunStarted)
    each, *rest = begun.plan.steps
    plan = replace(begun.plan, steps=(replace(each, concurrency=1), *rest))
    around(runs)[0] = replace(around(runs)[0], data=replace(begun, plan=plan))
    assert (0, "items") in found(runs)


def test_an_item_begun_with_another_state(runs: Runs):
    change(
        item(runs), RunStarted, lambda data: replace(data, brief=replace(data.brief, state={"item": "z", "index": 1}))
    )
    assert (1, "items") in found(runs)


def test_an_item_begun_by_nobodys_request(runs: Runs):
    item(runs)[0] = replace(item(runs)[0], causation="somebody")
    assert (1, "items") in found(runs)


def test_a_run_that_says_it_is_of_another_item(runs: Runs):
    change(item(runs), RunStarted, lambda data: replace(data, of=replace(data.of, path="Chapters[2]")))
    assert (1, "items") in found(runs)
