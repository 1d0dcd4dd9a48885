"""The whole of it in one process: refine, the client, retries, restarts, several processes on one store."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from redraft.actors import (
    Brief,
    Context,
    Critique,
    Draft,
    History,
    PermanentError,
    Retry,
    Revision,
    Workflow,
    approve,
    critic,
    generator,
    parallel,
    plateau,
    publisher,
    refiner,
    score,
    step,
)
from redraft.app import Result, Settings, open_local, open_readonly, read_settings, refine
from redraft.app.runs.refine import Ended, Item, run_batch
from redraft.events.bus.port import BusMessage, work_queue
from redraft.events.errors import BusError, ContentError, InputError, NoSuchRun
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import CritiqueDraft, Request
from redraft.events.messages.content import new_draft
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DraftCritiqued,
    RunEnded,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Origin


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings(store=f"sqlite:///{tmp_path / 'log.db'}")


@generator
async def write(brief: Brief) -> str:
    return brief.text


@critic
async def judge(draft: Draft) -> Critique:
    return Critique(min(1.0, len(draft.text) / 10), suggestions=("longer",))


@refiner
async def improve(draft: Draft) -> Revision:
    return Revision(draft.text + "xx", changes=("two messages",))


@publisher
async def save(draft: Draft) -> str:
    return "nowhere"


def workflow(*body, most: int = 5, until=score >= 1.0, **options) -> Workflow:
    loop = Workflow("test").start_with(options.get("first", write))
    loop = loop.repeat_until(until, max_iterations=most, name="Refinement", body=list(body or (judge, improve)))
    return loop.finally_(save)


async def test_a_draft_is_refined_until_it_is_good(settings: Settings):
    result = await refine(workflow(), "abcdef", settings=settings)
    assert (result.outcome, result.score, result.iterations, result.text) == ("accepted", 1.0, 3, "abcdefxxxx")
    assert [each.critique.score for each in result.critiques] == [0.6, 0.8, 1.0]
    assert [(each.iteration, each.before.version, each.after.version) for each in result.attempts] == [
        (1, 1, 2),
        (2, 2, 3),
    ]
    assert result.publications[0].location == "nowhere"


async def test_the_same_key_is_the_same_run_and_is_refused_for_another_brief(settings: Settings):
    calls = 0

    @generator(name="counted")
    async def counted(brief: Brief) -> str:
        nonlocal calls
        calls += 1
        return brief.text

    first = await refine(workflow(first=counted), "abcdefgh", key="k", settings=settings)
    again = await refine(workflow(first=counted), "abcdefgh", key="k", settings=settings)
    assert again == first
    with pytest.raises(InputError, match="key 'k' was used for another brief: run k"):
        await refine(workflow(first=counted), "another brief", key="k", settings=settings)
    assert calls == 1


async def test_two_batches_at_once_with_other_tags_give_nobody_the_runs_of_the_other(settings: Settings):
    plan = workflow().plan
    keys = [f"k{number}" for number in range(30)]
    ended: dict[str, list[Ended]] = {"one": [], "other": []}

    async def batch(tag: str) -> None:
        items = [Item(number, key, Brief("abcdefgh"), (tag,)) for number, key in enumerate(keys)]
        async with open_local(settings, workflow().actors.values()) as runtime:
            await run_batch(runtime, plan, items, keys, 30, ended[tag].append)

    async with asyncio.timeout(60):
        await asyncio.gather(batch("one"), batch("other"))
    given: dict[str, set[str]] = {"one": set(), "other": set()}
    async with open_readonly(settings) as log:
        for tag, results in ended.items():
            assert len(results) == len(keys)
            for each in results:
                if isinstance(each.end, Result):
                    (started, *_) = await log.client.history(each.run)
                    assert isinstance(started.data, RunStarted)
                    assert started.data.tags == (tag,)
                    given[tag].add(each.run)
                else:
                    assert "was used for other tags" in str(each.end)
    assert len(given["one"] | given["other"]) == len(keys)


async def test_a_step_that_fails_is_tried_again_and_that_is_no_iteration(settings: Settings):
    attempts: list[int] = []

    @critic
    async def moody(draft: Draft, context: Context) -> Critique:
        attempts.append(context.attempt)
        if context.attempt < 3:
            raise ConnectionError("the model is busy")
        return Critique(1.0)

    patient = step(moody, retry=Retry(attempts=3, initial=0.01))
    result = await refine(workflow(patient, improve), "abc", settings=settings)
    assert (result.outcome, result.iterations, attempts) == ("accepted", 1, [1, 2, 3])


async def test_a_step_that_fails_for_good_ends_the_run_as_failed(settings: Settings):
    @critic
    def broken(draft: Draft) -> Critique:
        raise PermanentError("the dictionary is missing")

    result = await refine(workflow(broken, improve), "abc", settings=settings)
    assert result.outcome == "failed"
    assert result.reason == "Refinement[1]/broken failed for good: the dictionary is missing"
    assert not result.publications


async def test_a_failed_step_may_publish_the_best_draft_so_far(settings: Settings):
    @refiner
    async def once(draft: Draft) -> str:
        if draft.version == 2:
            raise PermanentError("out of ideas")
        return draft.text + "x"

    plan = workflow(judge, once).on_failure("publish_best")
    result = await refine(plan, "abc", settings=settings)
    assert (result.outcome, result.text, len(result.publications)) == ("failed", "abcx", 1)
    assert "out of ideas" in result.reason


async def test_a_refiner_that_returns_the_same_text_for_ever_ends_the_run(settings: Settings):
    @refiner
    async def stubborn(draft: Draft) -> str:
        return draft.text

    exhausted = await refine(workflow(judge, stubborn), "abc", settings=settings)
    assert (exhausted.outcome, exhausted.iterations) == ("exhausted", 5)
    plan = workflow(judge, stubborn, until=(score >= 1.0) | plateau(gain=0.01, over=1))
    plateaued = await refine(plan, "abc", settings=settings)
    assert (plateaued.outcome, plateaued.iterations) == ("plateaued", 2)


async def test_the_refiner_is_told_what_was_raised_fixed_and_came_back(settings: Settings):
    told: list[History] = []
    faults = iter([("a", "b"), ("b",), ("a",), ()])

    @critic
    async def finds(draft: Draft) -> Critique:
        found = next(faults)
        return Critique(1.0 - len(found) / 10, errors=found)

    @refiner
    async def notes(draft: Draft, history: History) -> str:
        told.append(history)
        return draft.text + "."

    await refine(workflow(finds, notes), "abc", settings=settings)
    assert [each.raised for each in told] == [("a", "b"), ("b",), ("a",)]
    assert [each.fixed for each in told] == [(), ("a",), ("b",)]
    assert [each.returned for each in told] == [(), (), ("a",)]
    assert [each.draft.version for each in told[-1].rounds] == [1, 2, 3]


async def test_a_panel_waits_for_the_first_and_a_late_verdict_changes_nothing(settings: Settings):
    release = asyncio.Event()

    @critic
    async def slow(draft: Draft) -> Critique:
        await release.wait()
        return Critique(0.1)

    @critic
    async def quick(draft: Draft) -> Critique:
        return Critique(1.0)

    panel = parallel("Panel", slow, quick, wait="first")
    async with open_local(settings, [write, slow, quick, improve, save]) as runtime:
        run = await runtime.client.submit(workflow(panel, improve), "abc")
        result = await asyncio.wait_for(runtime.client.wait(run), 60)
        release.set()
    assert (result.outcome, result.score) == ("accepted", 1.0)


async def test_a_request_that_is_sent_twice_is_worked_on_once(settings: Settings):
    calls, started, release = 0, asyncio.Event(), asyncio.Event()

    @critic
    async def costly(draft: Draft) -> Critique:
        nonlocal calls
        calls += 1
        started.set()
        await release.wait()
        return Critique(1.0)

    plan = workflow(costly, improve)
    async with open_local(settings, plan.actors.values()) as runtime:
        run = await runtime.client.submit(plan, "abc")
        await started.wait()
        async for event in runtime.client.subscribe(run=run):
            if isinstance(event.data, StepRequested) and event.data.role == "critic":
                doubtful = CritiqueDraft(
                    Request("x", run, event.data.path, "costly", 1, 5.0, Brief("abc"), sent=2), new_draft(1, "abc")
                )
                break
        release.set()
        assert (await asyncio.wait_for(runtime.client.wait(run), 60)).outcome == "accepted"
        name, body = encode_message(doubtful)
        await runtime.bus.publish(
            work_queue("critic", "costly"), [BusMessage(name, body, Origin("late", "relay"), run)]
        )
        again = await runtime.client.submit(plan, "abc")
        assert (await asyncio.wait_for(runtime.client.wait(again), 60)).outcome == "accepted"
    assert calls == 2


async def test_blocking_functions_do_not_block_each_other(settings: Settings):
    both = threading.Barrier(2, timeout=60)

    @critic
    def one(draft: Draft) -> Critique:
        both.wait()
        return Critique(1.0)

    @critic
    def two(draft: Draft) -> Critique:
        both.wait()
        return Critique(1.0)

    result = await refine(workflow(parallel("Panel", one, two), improve), "abc", settings=settings)
    assert result.outcome == "accepted"


async def test_a_run_can_be_cancelled_while_a_step_is_under_way(settings: Settings):
    started = asyncio.Event()

    @critic
    async def hangs(draft: Draft) -> Critique:
        started.set()
        await asyncio.Event().wait()
        return Critique(1.0)

    async with open_local(settings, [write, hangs, improve, save]) as runtime:
        run = await runtime.client.submit(workflow(hangs, improve), "abc")
        await started.wait()
        await runtime.client.cancel(run, "no longer needed")
        result = await asyncio.wait_for(runtime.client.wait(run), 60)
    assert (result.outcome, result.reason) == ("cancelled", "no longer needed")


async def test_what_a_panel_went_on_without_is_stopped_when_the_run_ends(settings: Settings):
    stopped = asyncio.Event()

    @critic
    async def slow(draft: Draft) -> Critique:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise
        return Critique(1.0)

    @critic
    async def fast(draft: Draft) -> Critique:
        return Critique(1.0)

    panel = parallel("Panel", fast, slow, wait=1)
    async with open_local(settings, [write, fast, slow, improve, save]) as runtime:
        run = await runtime.client.submit(workflow(panel, improve), "abc")
        result = await asyncio.wait_for(runtime.client.wait(run), 60)
        await asyncio.wait_for(stopped.wait(), 60)
    assert result.outcome == "accepted"


async def test_a_retry_that_is_awaited_survives_a_restart(settings: Settings):
    failing = True

    @critic
    async def moody(draft: Draft) -> Critique:
        if failing:
            raise ConnectionError("busy")
        return Critique(1.0)

    plan = workflow(step(moody, retry=Retry(attempts=2, initial=0.2)), improve)
    async with open_local(settings, plan.actors.values()) as runtime:
        run = await runtime.client.submit(plan, "abc")
        async for event in runtime.client.subscribe(run=run):
            if isinstance(event.data, StepFailed):
                assert event.data.retry_at is not None
                break
    failing = False
    async with open_local(settings, plan.actors.values(), resume=[run]) as runtime:
        result = await asyncio.wait_for(runtime.client.wait(run), 60)
    assert (result.outcome, result.iterations) == ("accepted", 1)


async def test_what_comes_when_its_time_has_come_names_the_event_that_said_when(settings: Settings):
    failing = True

    @critic
    async def moody(draft: Draft) -> Critique:
        nonlocal failing
        failing, failed = False, failing
        if failed:
            raise ConnectionError("busy")
        return Critique(1.0)

    people = approve("editor", deadline=0.05, on_deadline="approve")
    plan = Workflow("in-time").start_with(write, step(moody, retry=Retry(attempts=2, initial=0.01)), people, save)
    async with open_local(settings, plan.actors.values()) as runtime:
        run = await runtime.client.submit(plan, "abc")
        assert (await asyncio.wait_for(runtime.client.wait(run), 60)).outcome == "accepted"
        events = await runtime.client.history(run)
    by_time = [event for event in events if event.actor == "timekeeper"]
    assert [type(event.data) for event in by_time] == [StepRequested, ApprovalExpired]
    (failure,) = (event for event in events if isinstance(event.data, StepFailed))
    (asked,) = (event for event in events if isinstance(event.data, ApprovalRequested))
    assert [event.causation for event in by_time] == [failure.id, asked.id]


@pytest.mark.check
async def test_many_runs_at_once_each_with_a_history_of_its_own(settings: Settings):
    async with open_local(settings, workflow().actors.values()) as runtime:
        runs = [await runtime.client.submit(workflow(), "x" * (number % 9 + 1)) for number in range(100)]
        results = await asyncio.wait_for(asyncio.gather(*(runtime.client.wait(run) for run in runs)), 60)
        for run, result in zip(runs, results, strict=True):
            assert result.run == run
            assert await runtime.store.verify(run) > 5
            ends = [event for event in await runtime.client.history(run) if isinstance(event.data, RunEnded)]
            assert len(ends) == 1


async def test_two_processes_may_resume_one_run_and_its_history_has_no_doubles(settings: Settings):
    gate = asyncio.Event()

    @critic
    async def gated(draft: Draft) -> Critique:
        await gate.wait()
        return Critique(min(1.0, len(draft.text) / 10))

    plan = workflow(gated, improve)
    async with open_local(settings, plan.actors.values()) as runtime:
        run = await runtime.client.submit(plan, "abcdef")
        async for event in runtime.client.subscribe(run=run):
            if event.version == 5:
                break
    async with AsyncExitStack() as stack:
        houses = [
            await stack.enter_async_context(open_local(settings, plan.actors.values(), resume=[run])) for _ in range(2)
        ]
        gate.set()
        results = await asyncio.wait_for(asyncio.gather(*(runtime.client.wait(run) for runtime in houses)), 60)
        events = await houses[0].client.history(run)
    assert results[0] == results[1]
    judged = [event.data.path for event in events if isinstance(event.data, DraftCritiqued)]
    assert len(judged) == len(set(judged))
    assert [event.version for event in events] == list(range(1, len(events) + 1))


async def test_a_process_leaves_the_runs_of_others_alone(settings: Settings):
    started, release = asyncio.Event(), asyncio.Event()
    calls = 0

    @critic
    async def gated(draft: Draft) -> Critique:
        nonlocal calls
        calls += 1
        started.set()
        await release.wait()
        return Critique(1.0)

    plan = workflow(gated, improve)
    async with open_local(settings, plan.actors.values()) as first:
        run = await first.client.submit(plan, "abc")
        await started.wait()
        async with open_local(settings, workflow().actors.values()) as second:
            other = await second.client.submit(workflow(), "abcdefghij")
            assert (await asyncio.wait_for(second.client.wait(other), 60)).outcome == "accepted"
        release.set()
        assert (await asyncio.wait_for(first.client.wait(run), 60)).outcome == "accepted"
    assert calls == 1


async def test_waiting_for_a_run_that_has_ended_or_is_not_there(settings: Settings):
    result = await refine(workflow(), "abcdefghij", settings=settings)
    async with open_local(settings, []) as runtime:
        assert await asyncio.wait_for(runtime.client.wait(result.run), 60) == result
        with pytest.raises(NoSuchRun):
            await runtime.client.history("nobody")
    with pytest.raises(NoSuchRun):
        async with open_local(settings, [], resume=["nobody"]):
            pass


async def test_a_brief_that_is_empty_or_too_large_is_refused_before_anything_is_recorded(settings: Settings):
    with pytest.raises(ContentError, match="empty"):
        await refine(workflow(), "  ", settings=settings)
    small = read_settings(store=settings.store, max_draft_bytes=10)
    with pytest.raises(ContentError, match="11 bytes, more than the limit of 10"):
        await refine(workflow(), "x" * 11, settings=small)
    async with open_readonly(settings) as runtime:
        assert await runtime.store.head() == 0
        with pytest.raises(BusError, match="cannot be submitted here"):
            await runtime.client.submit(workflow(), "abc")


async def test_a_subscriber_gets_every_event_once_in_order_first_the_past_then_the_present(settings: Settings):
    await refine(workflow(), "abcdef", settings=settings)
    async with open_local(settings, workflow().actors.values()) as runtime:
        run = await runtime.client.submit(workflow(), "abc")
        seen = []
        async for event in runtime.client.subscribe(after=3):
            seen.append(event.position)
            if event.run == run and isinstance(event.data, RunEnded):
                break
    assert seen == list(range(4, seen[-1] + 1))


LOOP = Workflow("loop").start_with(write).repeat_until(score >= 0.9, max_iterations=5, body=[judge, improve])


async def test_a_result_holds_the_texts_before_and_after_each_refinement(settings: Settings):
    result = await refine(LOOP, "tides")
    assert [(each.text_before, each.text_after) for each in result.attempts] == [
        ("tides", "tidesxx"),
        ("tidesxx", "tidesxxxx"),
    ]
    assert [each.text_after for each in result.without_texts().attempts] == ["", ""]


async def test_what_is_said_to_a_run_that_has_ended_is_refused(settings: Settings):
    result = await refine(LOOP, "tides", settings=settings)
    async with open_local(settings, [write, judge, improve]) as runtime:
        refused = f"run {result.run} has ended as accepted and takes no more messages; fork it, or begin another"
        for said in (runtime.client.guide(result.run, "more"), runtime.client.pause(result.run)):
            with pytest.raises(InputError, match=refused):
                await said
        await runtime.client.cancel(result.run)  # nothing is left to stop, and that is what was wanted


@pytest.mark.parametrize("position", [2**63, 10**30, -1, True, 1.5])
async def test_a_position_that_no_log_has_is_refused(settings: Settings, position: int):
    async with open_local(settings, []) as runtime:
        for begin in (
            lambda: runtime.client.subscribe(position),
            lambda: runtime.client.subscribe(position, name="mine"),
            lambda: runtime.client.deliver("mine", print, position),
            lambda: runtime.client.wait_for(position),
        ):
            with pytest.raises(InputError, match=r"position .* is none; give a whole number from 0 to 9,223,372"):
                await begin()


async def test_an_exception_names_the_line_of_the_function_and_its_traceback_is_logged(
    settings: Settings, caplog: pytest.LogCaptureFixture
):
    @critic
    def broken(draft: Draft) -> float:
        return len(draft.txt)  # type: ignore[attr-defined]

    loop = Workflow("broken").start_with(write).repeat_until(score >= 1, max_iterations=2, body=[broken, improve])
    result = await refine(loop, "tides", settings=settings)
    line = broken.function.__code__.co_firstlineno + 2
    assert result.outcome == "failed"
    said = f"raised AttributeError: 'Draft' object has no attribute 'txt' (tests/app/runs/test_refine.py:{line})"
    assert result.reason.endswith(f"broken {said}")
    logged = [record for record in caplog.records if record.name == "redraft.actors"]
    assert len(logged) == 1  # it is not tried again
    assert logged[0].exc_info
    assert isinstance(logged[0].exc_info[1], AttributeError)
