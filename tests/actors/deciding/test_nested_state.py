"""Loops in loops whose conditions read the state: the outer one ends with a draft that the inner one has worked on."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from redraft.actors import WithState, Workflow, critic, generator, publisher, refiner, repeat, score, state, step
from redraft.app import open_local, refine
from redraft.app.settings.settings import Settings
from redraft.events.messages.plan import Repeat, Step, nodes_of
from redraft.projections.record_check import check_events

CHAPTERS = [f"chapter {number}!!" for number in range(1, 6)]


@dataclass
class Book:
    count: int = 0
    quality: float = 0.0


@generator
def write_and_count(context):
    count = context.state.count + 1
    return WithState(f"chapter {count}", {"count": count})


@generator
def write(context):
    return f"chapter {len(context.outputs) + 1}"


@step
def count_chapters(context):
    return {"count": context.state.count + 1}


@critic
def judge(draft):
    quality = 0.4 + 0.3 * draft.text.count("!")
    return WithState(min(1.0, quality), {"quality": quality})


@refiner
def improve(draft):
    return draft.text + "!"


def inner() -> Repeat:
    return repeat("Refinement", until=state.quality >= 0.8, max_iterations=3, body=[judge, improve])


@pytest.mark.parametrize(
    "body",
    [
        [write_and_count, inner()],
        [count_chapters, write, inner()],
        [write, count_chapters, inner()],
        [write, inner(), count_chapters],
    ],
    ids=["the generator counts", "counted before", "counted between", "counted behind"],
)
async def test_a_book_ends_with_its_last_chapter_refined_whoever_counts(body: list[object]):
    bound: list[str] = []

    @publisher
    def bind(draft, context):
        bound.extend(each.text for each in context.outputs)
        return "book"

    loop = repeat("Chapters", until=state.count >= 5, max_iterations=10, body=body)  # type: ignore[arg-type]
    workflow = Workflow("book", state=Book).then(loop).finally_(bind)
    async with open_local(Settings(store="memory:"), workflow.actors.values()) as runtime:
        run = await runtime.client.submit(workflow, "sea")
        result = await runtime.client.wait(run)
        events = await runtime.client.history(run)
    assert (result.outcome, result.reason) == ("accepted", "the condition holds: state.count 5 >= 5")
    assert bound == CHAPTERS
    assert check_events(events) == ()


async def test_what_an_inner_loop_made_of_a_draft_is_no_draft_that_was_tested_before():
    """The tests are run before the inner loop changes the draft: what leaves it is tested in the closing look alone."""
    tested: list[str] = []

    @step(writes=["tested"])
    def run_tests(draft):
        tested.append(draft.text)
        return {"tested": True}

    loop = repeat("Outer", until=state.tested.condition, max_iterations=2, body=[write, run_tests, inner()])
    result = await refine(Workflow("w", state={"quality": 0.0}).then(loop), "x", settings=Settings(store="memory:"))
    assert tested == ["chapter 1", "chapter 2", "chapter 2!!"]
    assert (result.outcome, result.text, result.iterations) == ("accepted", "chapter 2!!", 2)


async def test_what_looks_at_no_draft_stays_true_for_the_next_one_and_is_not_asked_again_at_the_end():
    asked: list[int] = []

    @step
    def research(context):
        asked.append(len(asked))
        return {"sources": len(asked)}

    workflow = Workflow("w").repeat_until(
        (state.sources >= 2) & (score >= 0.9), max_iterations=4, body=[research, write, judge, improve]
    )
    result = await refine(workflow, "x", settings=Settings(store="memory:"))
    assert (result.outcome, len(asked)) == ("exhausted", 4)
    again = Workflow("w").start_with(write)
    again = again.repeat_until((state.sources >= 2) & (score >= 0.7), max_iterations=4, body=[judge, research, improve])
    asked.clear()
    result = await refine(again, "x", settings=Settings(store="memory:"))
    assert (result.outcome, result.text, len(asked)) == ("accepted", "chapter 1!", 2)


def test_a_step_that_is_given_nothing_of_a_draft_is_one_about_the_run():
    @step
    def look(critique):
        return None

    loop = repeat("L", until=state.count >= 2, max_iterations=2, body=[count_chapters, write, look])
    plan = Workflow("w").then(loop).plan
    steps = {path: each for path, each in nodes_of(plan.steps) if isinstance(each, Step)}
    assert steps["L/count_chapters"].about_run
    assert not steps["L/look"].about_run
