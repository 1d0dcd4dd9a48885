"""Verdicts that are taken again in forks, wherever a fork begins, also between such a verdict and its request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from redraft.actors import Brief, Critique, Draft, Workflow, critic, generator, parallel, publisher, refiner, step
from redraft.app import Settings, read_settings
from redraft.app.record.auditing.record_faults import check_run
from redraft.app.wiring.local import open_local
from redraft.app.wiring.stores import open_store_of
from redraft.events.messages.domain_events import DraftCritiqued, StepRequested
from redraft.events.messages.envelope import Recorded


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings(store=f"sqlite:///{tmp_path / 'log.db'}")


@generator
async def write(brief: Brief) -> str:
    return "a"


@refiner
async def swap(draft: Draft) -> str:
    return "b" if draft.text == "a" else "a"


@publisher
async def save(draft: Draft) -> str:
    return "here"


def judging(calls: list[str], name: str = "judge"):
    @critic(name=name, version="1")
    async def judge(draft: Draft) -> Critique:
        calls.append(f"{name} {draft.text}")
        return Critique(0.5, suggestions=(f"not {draft.text}",))

    return judge


def flow(*critics, most: int = 3) -> Workflow:
    made = Workflow("again").start_with(write)
    return made.repeat_until("score >= 0.9", max_iterations=most, name="Loop", body=[*critics, swap]).finally_(save)


def alone(calls: list[str]) -> Workflow:
    return flow(step(judging(calls), reuse="run"))


def beside_another(calls: list[str]) -> Workflow:
    other, judge = judging(calls, "other"), judging(calls)
    return flow(parallel("Panel", other, step(judge, reuse="run"), step(judge, name="always", reuse="always")))


def for_two_of_three(calls: list[str]) -> Workflow:
    others = judging(calls, "other"), judging(calls, "third")
    return flow(parallel("Panel", others[0], step(judging(calls), reuse="run"), others[1], wait=2))


def taken_again(events: list[Recorded]) -> list[int]:
    """The versions of the requests to which the verdict is there already."""
    return [each.version for each in events if isinstance(each.data, StepRequested) and each.data.reused]


@pytest.mark.parametrize("made", [alone, beside_another, for_two_of_three])
async def test_a_fork_at_a_request_that_takes_a_verdict_again_takes_it_too(
    settings: Settings, made: Callable[[list[str]], Workflow]
):
    calls: list[str] = []
    workflow = made(calls)
    async with open_local(settings, tuple(workflow.actors.values())) as runtime, open_store_of(settings) as store:
        parent = await runtime.client.submit(workflow, "tides")
        await runtime.client.wait(parent)
        events = list(await store.read(parent))
        assert taken_again(events)
        for at in taken_again(events):
            calls.clear()
            fork = await runtime.client.fork(parent, at, plan=workflow)
            await runtime.client.wait(fork)
            assert not [each for each in calls if each.startswith("judge")], at
            made_anew = (await store.read(fork))[at:]
            request = next(each for each in made_anew if isinstance(each.data, StepRequested) and each.data.reused)
            verdict = made_anew[made_anew.index(request) + 1].data
            assert isinstance(verdict, DraftCritiqued)
            assert verdict.reused == request.data.reused
            assert verdict.reused.run == fork, "its own copy of what its parent recorded"
            assert verdict.usage.is_nothing
            assert (await check_run(store, fork)).findings == ()


async def test_a_fork_with_another_actor_there_asks_it(settings: Settings):
    calls: list[str] = []
    workflow = alone(calls)
    async with open_local(settings, tuple(workflow.actors.values())) as runtime, open_store_of(settings) as store:
        parent = await runtime.client.submit(workflow, "tides")
        await runtime.client.wait(parent)
        at = taken_again(list(await store.read(parent)))[0]
        calls.clear()
        strict = flow(step(judging(calls), reuse="run", options={"strict": True}))
        fork = await runtime.client.fork(parent, at, plan=strict)
        await runtime.client.wait(fork)
        assert sorted(calls) == ["judge a", "judge b"]
        assert (await check_run(store, fork)).findings == ()


def all_always(calls: list[str]) -> Workflow:
    names = ("one", "two", "three")
    return flow(parallel("Panel", *(step(judging(calls, each), reuse="always") for each in names), wait=1), most=2)


@pytest.mark.check
@pytest.mark.parametrize("made", [alone, beside_another, for_two_of_three, all_always])
async def test_the_record_of_a_fork_at_any_event_is_sound(settings: Settings, made: Callable[[list[str]], Workflow]):
    workflow = made([])
    async with open_local(settings, tuple(workflow.actors.values())) as runtime, open_store_of(settings) as store:
        parent = await runtime.client.submit(workflow, "tides")
        await runtime.client.wait(parent)
        for at in range(1, len(await store.read(parent))):
            fork = await runtime.client.fork(parent, at, plan=workflow)
            await runtime.client.wait(fork)
            assert (await check_run(store, fork)).findings == (), at


async def test_a_fork_that_knows_no_versions_asks_anew(settings: Settings):
    calls: list[str] = []
    workflow = alone(calls)
    async with open_local(settings, tuple(workflow.actors.values())) as runtime, open_store_of(settings) as store:
        parent = await runtime.client.submit(workflow, "tides")
        await runtime.client.wait(parent)
        at = taken_again(list(await store.read(parent)))[0]
        calls.clear()
        fork = await runtime.client.fork(parent, at)
        await runtime.client.wait(fork)
        assert sorted(calls) == ["judge a", "judge b"]
        assert (await check_run(store, fork)).findings == ()
