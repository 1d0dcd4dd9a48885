"""What `simulate` finds in actors that seem to go well, and what it does not stumble over."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from tests.app.testing.test_simulate import LETTER, ROUGH, Mail, careless, failure, judge, post

from redraft.actors import Actor, PermanentError, Workflow, generator, publisher, refiner, state, step
from redraft.app.testing import CALM, Outside, simulate


def test_a_replay_names_what_was_given_and_shows_the_same():
    calm = msgspec.structs.replace(CALM, killed_at_work=0.5)
    given = {"odds": calm, "briefs": ["Moons"], "check": lambda outside, events: True}
    found = failure(LETTER, careless, seeds=60, **given)
    told = f"simulate(message, actors, seeds=[{found.seed}], check=check, briefs=briefs, odds=odds)"
    assert str(found).splitlines()[0].endswith(told)
    assert str(failure(LETTER, careless, seeds=[found.seed], **given)) == str(found)


@pytest.mark.check
def test_a_publisher_whose_key_is_another_for_each_attempt_is_found():
    def by_attempt(outside: Outside) -> list[Actor]:
        @publisher
        async def post(draft, context):
            await Mail(outside).send(draft.text, (context.idempotency_key, context.attempt))
            return "mail"

        return [post]

    found = failure(LETTER, by_attempt, seeds=200)
    assert found.wrong[0].startswith("doubled: ")
    assert any(each.endswith("and its answer is lost") for each in found.faults)


@pytest.mark.check
def test_a_receipt_that_is_another_for_each_attempt_is_found():
    def by_attempt(outside: Outside) -> list[Actor]:
        @publisher
        async def post(draft, context):
            return f"letter {context.attempt}"

        return [post]

    assert failure(LETTER, by_attempt, seeds=200).wrong[0].startswith("two receipts: post of run ")


@step(writes=["chapters"])
async def outline(brief):
    return {"chapters": ["Moons", "Stars"]}


@step(name="outline", writes=["chapters"])
async def outline_in_words(brief):
    return {"chapters": "Moons, Stars"}


@generator(name="write")
def write_chapter(brief, context):
    return f"{context.state.item} {brief.text}"


@generator
def bind(brief):
    raise PermanentError("the thread broke")


BOOK = (
    Workflow("book")
    .then(outline)
    .for_each(state.chapters, name="Chapters", body=[write_chapter, judge])
    .then(bind, judge)
    .finally_(post)
)


def test_where_every_submitted_run_fails_its_items_do_not_hide_it():
    (wrong,) = failure(BOOK, seeds=2).wrong
    assert wrong.startswith("failed: every run failed, though no fault was injected: at bind, ")
    (wrong,) = failure(BOOK, [outline_in_words], seeds=2).wrong
    assert wrong.startswith("failed: every run failed, though no fault was injected: ")


@pytest.mark.check
def test_an_actor_that_polls_ends():
    @publisher
    async def post(draft):
        loop = asyncio.get_running_loop()
        end = loop.time() + 3
        while loop.time() < end:  # noqa: ASYNC110 - what is tried
            await asyncio.sleep(0)
        return "message box"

    assert simulate(LETTER, [post], seeds=1).outcomes["accepted"] >= 1


@pytest.mark.check
@pytest.mark.filterwarnings("error")
def test_a_task_that_never_began_as_its_worker_was_killed_is_not_heard_of():
    @refiner
    async def improve(draft):
        task = asyncio.create_task(asyncio.sleep(1))
        await asyncio.sleep(0)
        del task
        return draft.text + ", and so on"

    simulate(LETTER, [improve], seeds=20, odds=ROUGH)
