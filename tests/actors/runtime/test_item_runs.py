"""The commands that follow from the events of a run for the runs of its items, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace
from tests.actors.deciding.test_items import CHAPTERS, CHILD, RUN, Book, book, child
from tests.given import NOON
from tests.projections.random_runs import as_recorded

from redraft.actors.runtime.relaying.item_runs import AROUND, ItemRuns
from redraft.events.bus.port import BusMessage
from redraft.events.errors import InputError
from redraft.events.messages.codec import decode_message
from redraft.events.messages.commands import (
    CancelRun,
    ChangeLimits,
    Failed,
    Generated,
    Message,
    PauseRun,
    QuarantineRun,
    ResumeRun,
    StartRun,
)
from redraft.events.messages.domain_events import (
    DomainEvent,
    ItemOf,
    RunEnded,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import root_of, run_of_item
from redraft.events.messages.plan import Budget

FIRST, SECOND, THIRD = (run_of_item(ItemOf(RUN, f"Chapters[{number}]")) for number in (1, 2, 3))


def recorded(events: Sequence[DomainEvent], run: str = RUN) -> tuple[Recorded, ...]:
    return as_recorded(events, [NOON] * len(events), run)


def runs(log: Mapping[str, Sequence[Recorded]]) -> ItemRuns:
    async def read(run: str) -> Sequence[Recorded]:
        return log.get(run, ())

    return ItemRuns(read)


def said(messages: Sequence[BusMessage]) -> list[Message]:
    return [decode_message(each.name, each.body) for each in messages]


def item_run(value: float = 0.95, plan=CHILD, run: str = FIRST, path: str = "Chapters[1]") -> tuple[Recorded, ...]:
    """A run of the first item, as it was recorded."""
    begun, *rest = child(plan, value)
    assert isinstance(begun, RunStarted)
    first, *others = recorded([replace(begun, of=ItemOf(RUN, path)), *rest], run)
    return (replace(first, causation=asked_in(Book(), "Chapters[1]")[0].id), *others)


async def follow(run: Book, log: Mapping[str, Sequence[Recorded]] | None = None) -> list[Message]:
    """What follows from the last event of a book."""
    events = recorded(run.events)
    return said(await runs({RUN: events, **(log or {})}).follow(events[-1], None, has_items=True))


def asked_in(run: Book, path: str) -> tuple[Recorded, StepRequested]:
    events = recorded(run.events)
    return next((e, e.data) for e in events if isinstance(e.data, StepRequested) and e.data.path == path)


async def started(run: Book, path: str, log: Mapping[str, Sequence[Recorded]] | None = None, *, again: bool = False):
    event, asked = asked_in(run, path)
    message = await runs({RUN: recorded(run.events), **(log or {})}).start(event, asked, again=again)
    return message, None if message is None else decode_message(message.name, message.body)


async def test_a_request_begins_the_run_of_its_item_with_the_plan_the_state_and_the_part_of_the_budget():
    run = Book(book(budget=Budget(tokens=300)))
    message, start = await started(run, "Chapters[2]")
    assert isinstance(start, StartRun)
    assert (start.run, start.of) == (SECOND, ItemOf(RUN, "Chapters[2]"))
    assert (start.plan.name, start.plan.steps, start.plan.budget) == (
        "book-Chapters",
        CHAPTERS.body,
        Budget(tokens=100),
    )
    assert start.brief.state == {"chapters": ["a", "b", "c"], "item": "b", "index": 2}
    assert message is not None
    assert message.origin.causation == asked_in(run, "Chapters[2]")[0].id
    assert root_of(start.run) == RUN


async def test_a_start_that_is_sent_again_is_the_same_and_of_a_run_that_is_under_way_there_is_none():
    run = Book()
    first, again = await started(run, "Chapters[1]"), await started(run, "Chapters[1]", again=True)
    assert first == again
    under_way = item_run()[:3]
    assert await started(run, "Chapters[1]", {FIRST: under_way}, again=True) == (None, None)


async def test_the_end_of_a_run_that_was_lost_is_told_when_its_item_is_asked_for_again():
    done = item_run()
    message, answer = await started(Book(), "Chapters[1]", {FIRST: done}, again=True)
    assert isinstance(answer, Generated)
    assert (answer.run, answer.path, answer.text) == (RUN, "Chapters[1]", "one")
    assert message is not None
    assert message.origin.causation == done[0].causation


async def test_a_run_of_the_item_that_another_request_began_is_refused_when_it_is_looked_after():
    first, *rest = item_run()
    imported = (replace(first, causation="of another store"), *rest)
    with pytest.raises(InputError, match=f"run of item 1 cannot begin: run {FIRST} is there already, and another"):
        await started(Book(), "Chapters[1]", {FIRST: imported}, again=True)


async def test_a_state_that_would_be_too_large_for_an_item_is_refused():
    run = Book(book(chapters=["x" * 150_000]))
    with pytest.raises(InputError, match="the run of item 1 cannot begin: the state has"):
        await started(run, "Chapters[1]")


async def test_an_item_whose_run_would_have_an_id_that_is_too_long_is_refused():
    event, asked = asked_in(Book(), "Chapters[1]")
    with pytest.raises(InputError, match=r"its run's id would have 211 bytes; give run x{20}… a shorter id, 200 are"):
        await runs({}).start(replace(event, run="x" * 200), asked, again=False)


async def test_the_end_of_an_items_run_is_the_answer_and_other_events_are_none():
    done = item_run()
    items = runs({FIRST: done})
    for event in done[:-1]:
        assert await items.follow(event, ItemOf(RUN, "Chapters[1]"), has_items=False) == []
    (answer,) = said(await items.follow(done[-1], ItemOf(RUN, "Chapters[1]"), has_items=False))
    assert isinstance(answer, Generated)
    assert answer.usage.tokens == 5


async def test_an_items_run_that_people_set_aside_has_failed():
    aside = recorded([*(event.data for event in item_run()[:3]), RunQuarantined("ann", "odd")], FIRST)
    (answer,) = said(await runs({FIRST: aside}).follow(aside[-1], ItemOf(RUN, "Chapters[1]"), has_items=False))
    assert isinstance(answer, Failed)
    assert answer.message == f"run {FIRST} was set aside: odd"


async def test_a_run_that_says_it_works_on_an_item_and_has_another_id_answers_nobody():
    other = item_run(run="somebody")
    assert await runs({"somebody": other}).follow(other[-1], ItemOf(RUN, "Chapters[1]"), has_items=False) == []


async def test_a_pause_and_its_end_reach_the_items_under_way_alone():
    run = Book()
    run.give(1)
    run.send(PauseRun(RUN, "wait", "ann"))
    version = len(run.events)
    assert await follow(run) == [PauseRun(each, "wait", "ann", f"{RUN}.{version}") for each in (SECOND, THIRD)]
    run.send(ResumeRun(RUN, "go on", "bob"))
    assert await follow(run) == [ResumeRun(each, "go on", "bob", f"{RUN}.{version + 1}") for each in (SECOND, THIRD)]


async def test_limits_for_a_loop_in_the_body_reach_the_items_under_way_and_others_do_not():
    run = Book()
    run.send(ChangeLimits(RUN, "Chapters/Refinement", max_iterations=9, by="ann"))
    key = f"{RUN}.{len(run.events)}"
    limit = ChangeLimits("", "Refinement", None, 9, "", "ann", key)
    assert await follow(run) == [replace(limit, run=FIRST), replace(limit, run=SECOND)]


@pytest.mark.parametrize("end", ["cancelled", "an item failed", "set aside"])
async def test_items_under_way_end_with_the_run_around_them(end: str):
    run = Book()
    match end:
        case "cancelled":
            run.send(CancelRun(RUN, "enough", "ann"))
            left, expected = [FIRST, SECOND], CancelRun
        case "an item failed":
            run.send(Failed(RUN, "Chapters[1]", 1, "error", "no"))
            left, expected = [SECOND], CancelRun
        case _:
            run.send(QuarantineRun(RUN, "ann", "odd"))
            left, expected = [FIRST, SECOND], QuarantineRun
    told = await follow(run)
    assert [each.run for each in told] == left
    assert {type(each) for each in told} == {expected}


async def test_the_end_of_the_whole_run_says_nothing_to_items_that_have_ended():
    run = Book()
    for number in (1, 2, 3):
        run.give(number)
    run.send(Generated(RUN, "bind", 1, "bound"))
    assert isinstance(run.events[-1], RunEnded)
    assert await follow(run) == []


async def look_after(run: Book, inner: Sequence[Recorded], path: str = "Chapters[1]") -> list[Message]:
    child_run = run_of_item(ItemOf(RUN, path))
    return said(await runs({RUN: recorded(run.events), child_run: inner}).look_after(child_run))


def with_more(inner: Sequence[Recorded], *more: DomainEvent) -> tuple[Recorded, ...]:
    return recorded([*(event.data for event in inner), *more], inner[0].run)


async def test_a_run_that_missed_nothing_is_told_nothing():
    assert await look_after(Book(), item_run()[:3]) == []
    assert await look_after(Book(), item_run()) == []


async def test_a_run_that_missed_the_end_of_the_run_around_it_is_cancelled():
    run = Book()
    run.send(CancelRun(RUN, "enough", "ann"))
    (told,) = await look_after(run, item_run()[:3])
    assert isinstance(told, CancelRun)
    assert (told.run, told.by) == (FIRST, AROUND)
    assert "enough" in told.reason


async def test_a_run_that_missed_a_pause_or_its_end_is_told_and_one_that_people_paused_themselves_is_left():
    run, inner = Book(), item_run()[:3]
    run.send(PauseRun(RUN, by="ann"))
    (told,) = await look_after(run, inner)
    assert told == PauseRun(FIRST, "", "ann", f"{RUN}.{len(run.events)}")
    paused = with_more(inner, RunPaused("ann", key=told.key))
    assert await look_after(run, paused) == []
    assert await look_after(run, with_more(paused, RunResumed("bob"))) == []
    run.send(ResumeRun(RUN, by="ann"))
    (told,) = await look_after(run, paused)
    assert isinstance(told, ResumeRun)
    assert await look_after(run, with_more(inner, RunPaused("bob"))) == []
