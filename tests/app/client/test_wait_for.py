"""Reading what was written: a read model counts an event once its position was waited for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import pytest
from tests.app.subscribers import DEADLINE, write_run
from tests.events.rabbit_server import URL, new_prefix, require_rabbitmq

from redraft.actors import Critique, Draft, Workflow, critic, generator, refiner, score
from redraft.app import open_client, open_local, open_readonly
from redraft.app.settings.settings import Settings, views_path
from redraft.events.backends import open_store
from redraft.events.errors import BusError
from redraft.events.messages.domain_events import DraftCritiqued, RunEnded
from redraft.projections import catch_up, list_runs, open_views
from redraft.projections.backends import FOLLOWED


@generator
async def write() -> str:
    return "one"


@critic
async def judge(draft: Draft) -> Critique:
    return Critique(min(1.0, draft.version / 4))


@refiner
async def improve(draft: Draft) -> str:
    return f"{draft.text} more"


@generator
async def never() -> str:
    return await asyncio.get_running_loop().create_future()


SLOW = Workflow("slow").start_with(never)
LOOP = Workflow("loop").start_with(write).repeat_until(score >= 1, max_iterations=6, name="Loop", body=[judge, improve])


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        f"sqlite:///{tmp_path / 'log.db'}"
        if request.param == "sqlite"
        else str(request.getfixturevalue("postgres_url"))
    )


async def test_a_run_is_listed_as_it_was_when_an_event_was_seen(url: str) -> None:
    async with asyncio.timeout(DEADLINE), open_local(Settings(store=url), LOOP.actors.values()) as runtime:
        for _ in range(20):
            run = await runtime.client.submit(LOOP, "a text")
            good = await runtime.client.wait(run, until="score >= 0.5")
            assert isinstance(good.data, DraftCritiqued)
            assert good.data.critique.score == 0.5
            assert await runtime.client.wait_for(good.position) >= good.position
            assert (await list_runs(runtime.views))[0].position >= good.position
            end = await runtime.client.wait(run, until="end")
            assert isinstance(end.data, RunEnded)
            await runtime.client.wait_for(end.position)
            (found,) = [each for each in await list_runs(runtime.views) if each.run == run]
            assert (found.status, found.position) == ("ended", end.position)


async def test_one_who_looks_sees_what_others_have_written_since(url: str) -> None:
    async with asyncio.timeout(DEADLINE), open_store(url) as store, open_readonly(Settings(store=url)) as log:
        assert await list_runs(log.views) == []
        await write_run(store, "a", 30)
        assert await log.client.wait_for(30) == 30
        assert [each.run for each in await list_runs(log.views)] == ["a"]


@pytest.mark.parametrize("opened", ["open_readonly", "open_client"])
async def test_one_without_a_broker_subscribes_and_waits_for_a_run_of_another_process(url: str, opened: str) -> None:
    settings = Settings(store=url)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(DEADLINE))
        runtime = await stack.enter_async_context(open_local(settings, SLOW.actors.values()))
        if opened == "open_readonly":
            client = (await stack.enter_async_context(open_readonly(settings))).client
        else:
            client = await stack.enter_async_context(open_client(settings))
        run = await runtime.client.submit(SLOW, "a text")
        result = asyncio.create_task(client.wait(run))
        end = asyncio.create_task(client.wait(run, until="end"))
        async with aclosing(client.subscribe(run=run, types=["step.requested"])) as events:
            assert (await anext(events)).version == 2
        assert not result.done()
        with pytest.raises(BusError, match="this process only reads the log"):
            await client.cancel(run)
        with pytest.raises(BusError, match="cannot be submitted here"):
            await client.submit(SLOW, "a text")
        await runtime.client.cancel(run)
        assert (await result).outcome == "cancelled"
        assert isinstance((await end).data, RunEnded)


async def test_a_client_of_a_deployment_waits_for_its_coordinator(url: str) -> None:
    """The read models are made by another process; here by hand."""
    require_rabbitmq()
    settings = Settings(store=url, bus=URL, broker_prefix=new_prefix())
    async with (
        asyncio.timeout(DEADLINE),
        open_store(url) as store,
        open_client(settings) as client,
        open_views(views_path(url), FOLLOWED) as views,
    ):
        await write_run(store, "a", 30)
        waiting = asyncio.create_task(client.wait_for(30))
        first = [event async for batch in store.tail(0, follow=False) for event in batch][:10]
        await views.write(first, 0)
        assert await client.wait_for(10) == 10
        assert not waiting.done()
        await catch_up(views, store)
        assert await waiting == 30
