"""Subscribing: the same on SQLite, on PostgreSQL and over RabbitMQ alone."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.app.subscribers import DEADLINE, World, beginning, new_events, passes, taken, world, write_run
from tests.appending import append_to

from redraft.events.errors import ConditionError, InputError, RunEndedFirst
from redraft.events.messages.content import Critique, new_draft
from redraft.events.messages.domain_events import DraftCritiqued, DraftGenerated, RunEnded, RunStarted
from redraft.events.messages.envelope import Recorded


@pytest.fixture(params=["sqlite", "postgres", "rabbitmq"])
async def there(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with world(request.param, request, tmp_path) as made:
        yield made


async def test_what_was_and_what_comes_without_a_gap_a_double_or_another_order(there: World) -> None:
    await write_run(there.store, "early", 150)
    async with there.open() as client, there.open() as other:
        subscribers = [asyncio.create_task(taken(reader, 950 - at, at)) for reader, at in [(client, 0), (other, 120)]]
        async with asyncio.TaskGroup() as writers:
            for number in range(8):
                writers.create_task(write_run(there.store, f"r{number}", 100))
        log = await there.log()
        assert len(log) == 950
        assert await subscribers[0] == log
        assert await subscribers[1] == log[120:]
        assert await taken(client, 10, 940) == log[940:]


async def test_a_subscriber_may_come_before_the_first_event(there: World) -> None:
    async with there.open() as client:
        waiting = asyncio.create_task(taken(client, 3))
        await asyncio.sleep(0)
        await write_run(there.store, "a", 3)
        assert await waiting == await there.log()


def workflow_of(log: list[Recorded]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {each.run: (each.data.plan.name, each.data.tags) for each in log if isinstance(each.data, RunStarted)}


CHOICES: list[tuple[dict[str, object], Callable[[Recorded, str, tuple[str, ...]], bool]]] = [
    ({"types": ["draft.critiqued"]}, lambda event, _, __: event.name == "draft.critiqued.v1"),
    (
        {"types": ["draft.critiqued.v1", "run.started"]},
        lambda event, _, __: event.name in ("draft.critiqued.v1", "run.started.v1"),
    ),
    ({"run": "r3"}, lambda event, _, __: event.run == "r3"),
    ({"workflow": "book"}, lambda _, workflow, __: workflow == "book"),
    ({"tags": ["spring"]}, lambda _, __, tags: "spring" in tags),
    ({"tags": ["spring", "third"]}, lambda _, __, tags: bool({"spring", "third"} & set(tags))),
    (
        {"types": ["iteration.started"], "workflow": "article", "tags": ["third"]},
        lambda event, workflow, tags: (
            event.name == "iteration.started.v1" and workflow == "article" and "third" in tags
        ),
    ),
    ({"run": "r4", "types": ["run.started"]}, lambda event, _, __: event.run == "r4" and event.version == 1),
]


@pytest.mark.parametrize(("chosen", "fits"), CHOICES, ids=[str(chosen) for chosen, _ in CHOICES])
async def test_only_what_is_wanted_comes(
    there: World, chosen: dict[str, object], fits: Callable[[Recorded, str, tuple[str, ...]], bool]
) -> None:
    """From the beginning, and from the middle of runs whose start the subscriber never sees."""

    async def write(number: int, first: int, last: int) -> None:
        run, workflow = f"r{number}", "book" if number % 2 else "article"
        tags = ("spring", "third") if number % 3 == 0 else ("spring",) if number == 1 else ()
        if first == 0:
            await append_to(there.store, run, 0, new_events(run, [beginning(workflow, tags)]))
        await append_to(there.store, run, first or 1, new_events(run, passes(first or 1, last), first or 1))

    for number in range(7):
        await write(number, 0, 9)
    middle = await there.store.head()
    async with there.open() as client:
        log = await there.log()
        whole = [each for each in log if fits(each, *workflow_of(log)[each.run])]
        assert await taken(client, len(whole), **chosen) == whole
        sought = 0 if "run.started" in str(chosen) else 1
        waiting = asyncio.create_task(taken(client, sought * 3, middle, **chosen)) if sought else None
        for number in range(7):
            await write(number, 10, 19)
        if waiting is not None:
            later = [each for each in await there.log() if each.position > middle]
            facts = workflow_of(log)
            assert await waiting == [each for each in later if fits(each, *facts[each.run])][:3]


async def test_a_run_that_is_not_there_yet(there: World) -> None:
    await write_run(there.store, "other", 20)
    async with there.open() as client:
        waiting = asyncio.create_task(taken(client, 12, run="mine"))
        for number in range(3):
            await write_run(there.store, f"other{number}", 5)
        await write_run(there.store, "mine", 12)
        assert await waiting == list(await there.store.read("mine"))


async def test_one_who_leaves_early_leaves_nothing_behind(there: World) -> None:
    await write_run(there.store, "a", 300)
    async with there.open() as client:
        await taken(client, 1)  # a connection is made for the first, and stays
        before = asyncio.all_tasks()
        assert len(await taken(client, 5)) == 5
        if left := asyncio.all_tasks() - before:
            await asyncio.wait(left, timeout=DEADLINE / 2)
        assert asyncio.all_tasks() <= before


@pytest.mark.check
async def test_a_slow_reader_holds_little(there: World) -> None:
    """Of 50 MB that wait for it, however much the servers would like to send."""
    each, count = 20_000, 2_500
    for batch in range(10):
        told = [beginning(), *(_large(each) for _ in range(count // 10))]
        await append_to(there.store, f"r{batch}", 0, new_events(f"r{batch}", told))
    await append_to(there.store, "last", 0, new_events("last", [beginning("last")]))
    async with there.open() as client:
        await taken(client, 1, workflow="last")  # all of it has been announced
        tracemalloc.start()
        try:
            seen = 0
            async with aclosing(client.subscribe()) as events:
                async for event in events:
                    seen += len(event.id) > 0
                    for _ in range(5):  # others have their turn
                        await asyncio.sleep(0)
                    if event.run == "last":
                        break
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert seen == count + 11
    assert peak < 0.4 * each * count


def _large(size: int) -> DraftCritiqued:
    return DraftCritiqued("Loop[1]/judge", 1, new_draft(1, "x").ref, Critique(0.5, suggestions=("x" * size,)))


async def test_an_unknown_type_is_refused_at_once(there: World) -> None:
    async with there.open() as client:
        with pytest.raises(InputError, match=r"no event 'draft.critiqed'; did you mean draft.critiqued\?"):
            client.subscribe(types=["draft.critiqed"])


async def judged_run(there: World, run: str = "judged", scores: tuple[float, ...] = (0.4, 0.85)) -> None:
    """A run whose one draft is judged again and again, then it ends."""
    draft = new_draft(1, "The sea rises.")
    told = [
        beginning(),
        DraftGenerated("write", 1, draft),
        *(DraftCritiqued("judge", 1, draft.ref, Critique(number)) for number in scores),
        RunEnded("exhausted", "3 passes were made", 1, draft.ref, scores[-1]),
    ]
    await append_to(there.store, run, 0, new_events(run, told))


async def test_waiting_for_what_is_to_happen_in_a_run(there: World) -> None:
    async with there.open() as client:
        waiting = [asyncio.create_task(client.wait("judged", text)) for text in ("draft.critiqued", "end")]
        await judged_run(there)
        log = await there.store.read("judged")
        assert [await each for each in waiting] == [log[2], log[-1]]
        assert await client.wait("judged", "draft.generated.v1") == log[1]
        with pytest.raises(RunEndedFirst, match=r"run judged has ended, and 'draft.published' never came"):
            await client.wait("judged", "draft.published")
        for text in ("scores >= 1", "draft.unheard", ""):
            if text:
                with pytest.raises((ConditionError, InputError)):
                    await client.wait("judged", text)


async def test_the_result_of_a_run_without_a_store(there: World) -> None:
    if not there.is_broker:
        pytest.skip("with a store, see test_deployment")
    await judged_run(there)
    async with there.open() as client:
        assert (await client.wait("judged")).outcome == "exhausted"
        with pytest.raises(InputError, match="is connected to the broker only"):
            await client.history("judged")
        with pytest.raises(InputError, match="does not say where the log ends"):
            await taken(client, 1, follow=False)
        with pytest.raises(InputError, match="keeps its position beside the store"):
            client.subscribe(name="mine")
        with pytest.raises(InputError, match="no read models here"):
            await client.wait_for(1)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_log_can_be_read_to_its_end(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    async with world(kind, request, tmp_path) as there:
        await write_run(there.store, "a", 250)
        await write_run(there.store, "b", 5)
        async with there.open() as client:
            assert [each async for each in client.subscribe(follow=False)] == await there.log()
            assert [each async for each in client.subscribe(2, run="a", follow=False)] == list(
                await there.store.read("a", after=2)
            )
