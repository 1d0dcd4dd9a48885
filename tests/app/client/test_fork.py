"""Forks that workers work on for real: at every event of a run, of forks, with another plan, on both stores."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.streams import recorded

from redraft.actors import Critique, Retry, StepError, Workflow, critic, generator, publisher, refiner, score, step
from redraft.actors.deciding.policy import with_limits
from redraft.app.client.result import Change, Result, fork_of
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import LocalRuntime, open_local
from redraft.app.workflows.run_settings import apply_settings
from redraft.events.errors import InputError, NoSuchRun, PlanError
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    Parent,
    RunEnded,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.plan import Plan, Repeat, Step
from redraft.projections.read_models.runs_query import find_run

ANSWERS = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished
DONE: Counter[str] = Counter()
WHEN = datetime(2026, 3, 1, tzinfo=UTC)


@generator
def write(brief):
    DONE["write"] += 1
    return brief.text


@critic
def judge(draft):
    DONE["judge"] += 1
    return Critique(min(1.0, draft.text.count("!") / 4))


@refiner
def improve(draft):
    DONE["improve"] += 1
    return draft.text + "!"


@publisher
def save(draft):
    DONE["save"] += 1
    return "nowhere"


LOUD = (
    Workflow("loud")
    .start_with(write)
    .repeat_until(score >= 0.5, max_iterations=5, name="Loop", body=[judge, improve])
    .finally_(save)
)


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = f"sqlite:///{tmp_path / 'log.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return Settings(store=url)


async def ended(runtime: LocalRuntime, run: str) -> Result:
    return await asyncio.wait_for(runtime.client.wait(run), 30)


async def begun(runtime: LocalRuntime) -> str:
    run = await runtime.client.submit(LOUD, "Tides", tags=("sea",))
    assert (await ended(runtime, run)).text == "Tides!!"
    return run


async def test_a_fork_at_every_event_ends_as_its_parent_and_does_only_what_was_not_done(settings: Settings):
    async with open_local(settings, LOUD.actors.values()) as runtime:
        run = await begun(runtime)
        parent = await runtime.store.read(run)
        for at in range(1, len(parent)):
            DONE.clear()
            fork = await runtime.client.fork(run, at)
            result = await ended(runtime, fork)
            assert (result.outcome, result.text, result.score) == ("accepted", "Tides!!", 0.5)
            left = [event.data for event in parent[at:] if isinstance(event.data, ANSWERS)]
            assert DONE.total() == len(left)
            assert await runtime.store.verify(fork) == len(await runtime.store.read(fork))


@pytest.mark.parametrize("plan", [None, "the same"])
def test_a_fork_whose_condition_no_run_begins_with_any_more_says_what_to_set(plan: str | None):
    loop = Repeat("Loop", score >= 0, 3, (Step("critic", "judge", "judge"), Step("refiner", "improve", "improve")))
    old = Plan("old", (Step("generator", "write", "write"), loop))
    past = recorded("old", [("coordinator", RunStarted(old, Brief("a"), WHEN))])
    with pytest.raises(PlanError) as caught:
        fork_of(past, 1, "new", "", Change(old if plan else None))
    assert str(caught.value) == (
        "Loop: until: the condition always holds, as scores are 0..1, so score >= 0 decides nothing; change the number"
        "; a fork needs another: --set 'Loop.until=score >= 90 of 100'"
    )
    better = apply_settings(old, ["Loop.until=score >= 90 of 100"]).plan
    assert fork_of(past, 1, "new", "", Change(better)).plan == better


async def test_a_fork_is_listed_with_its_parent_and_counts_only_its_own_work(settings: Settings):
    async with open_local(settings, LOUD.actors.values()) as runtime:
        run = await begun(runtime)
        fork = await runtime.client.fork(run, 5)
        await ended(runtime, fork)
        again = await runtime.client.fork(fork, 9, tags=("fork",))
        await ended(runtime, again)
        await asyncio.wait_for(runtime.views.wait_for(await runtime.store.head()), 60)
        lines = [await find_run(runtime.views, each) for each in (run, fork, again)]
    assert [line.parent for line in lines] == [None, Parent(run, 5), Parent(fork, 9)]
    assert [line.tags for line in lines] == [("sea",), ("sea",), ("fork",)]
    assert [line.steps for line in lines] == [7, 6, 4]


async def test_a_fork_goes_its_own_way_with_another_plan_and_brief(settings: Settings):
    async with open_local(settings, LOUD.actors.values()) as runtime:
        run = await begun(runtime)
        events = await runtime.store.read(run)
        last = next(event.version for event in reversed(events) if isinstance(event.data, DraftCritiqued))
        plan = with_limits(LOUD.plan, "Loop", score >= 1, None)
        assert (await ended(runtime, await runtime.client.fork(run, last, plan=plan))).text == "Tides!!!!"
        other = await runtime.client.fork(run, 1, brief=Brief("Moons"))
        assert (await ended(runtime, other)).text == "Moons!!"
        first = (await runtime.store.read(other))[0].data
        assert isinstance(first, RunStarted)
        assert (first.brief.text, first.parent) == ("Moons", Parent(run, 1))


async def test_the_same_key_is_the_same_fork(settings: Settings):
    async with open_local(settings, LOUD.actors.values()) as runtime:
        run = await begun(runtime)
        DONE.clear()
        forks = {await runtime.client.fork(run, 5, key="k") for _ in range(3)}
        assert len(forks) == 1
        await ended(runtime, forks.pop())
        assert DONE.total() == 6


async def test_a_fork_that_was_cut_off_goes_on(settings: Settings):
    """The process ends at once after the fork is recorded: another asks again for what is open, not for the rest."""
    async with open_local(settings, LOUD.actors.values()) as runtime:
        run = await begun(runtime)
        asked = next(
            e.version
            for e in await runtime.store.read(run)
            if isinstance(e.data, StepRequested) and e.data.path == "Loop[2]/judge"
        )
    async with open_local(settings, ()) as runtime:
        fork = await runtime.client.fork(run, asked)
        async with asyncio.timeout(60):
            async for event in runtime.client.subscribe(run=fork):
                if isinstance(event.data, StepRequested) and not event.repeats:
                    break
    DONE.clear()
    async with open_local(settings, LOUD.actors.values(), resume=[fork]) as runtime:
        assert (await ended(runtime, fork)).text == "Tides!!"
    assert DONE == {"judge": 2, "improve": 1, "save": 1}


async def test_a_fork_at_a_failed_attempt_tries_again(settings: Settings):
    broken = [StepError("busy"), StepError("busy")]

    @refiner(name="improve")
    def flaky(draft):
        if broken:
            raise broken.pop()
        return draft.text + "!"

    body = [judge, step(flaky, retry=Retry(attempts=3, initial=0.01))]
    retrying = Workflow("loud").start_with(write).repeat_until(score >= 0.5, max_iterations=5, name="Loop", body=body)
    async with open_local(settings, retrying.actors.values()) as runtime:
        run = await runtime.client.submit(retrying, "Tides")
        await ended(runtime, run)
        failed = [event.version for event in await runtime.store.read(run) if isinstance(event.data, StepFailed)]
        assert len(failed) == 2
        for at, attempt in zip(failed, (2, 3), strict=True):
            fork = await runtime.client.fork(run, at)
            assert (await ended(runtime, fork)).text == "Tides!!"
            asked = [event for event in await runtime.store.read(fork) if isinstance(event.data, StepRequested)]
            own = next(event.data for event in asked if not event.repeats)
            assert isinstance(own, StepRequested)
            assert (own.path, own.attempt) == ("Loop[1]/improve", attempt)


async def test_what_cannot_be_forked_is_told_and_leaves_nothing(settings: Settings):
    async with open_local(settings, LOUD.actors.values()) as runtime:
        run = await begun(runtime)
        count = len(await runtime.store.read(run))
        head = await runtime.store.head()
        for at in (0, -1, count + 1):
            with pytest.raises(InputError, match=f"has {count} events, and none is number {at}; give 1 to {count}"):
                await runtime.client.fork(run, at)
        with pytest.raises(InputError, match=f"had already ended at event {count}"):
            await runtime.client.fork(run, count)
        with pytest.raises(NoSuchRun):
            await runtime.client.fork("nobody", 1)
        with pytest.raises(InputError, match="it cannot be forked: its plan has other steps"):
            await runtime.client.fork(run, 3, plan=Workflow("other").start_with(write, judge, save))
        with pytest.raises(InputError, match="brief: the text is empty"):
            await runtime.client.fork(run, 3, brief=" ")
        with pytest.raises(InputError, match="tag 'a b'"):
            await runtime.client.fork(run, 3, tags=["a b"])
        with pytest.raises(PlanError):
            await runtime.client.fork(run, 3, plan=with_limits(LOUD.plan, "Loop", None, 0))
        assert await runtime.store.head() == head
        assert not [e for e in await runtime.store.read(run) if isinstance(e.data, RunEnded)][1:]
