"""Reading what was written: a read model counts an event once its position was waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.app.subscribing import DEADLINE, write_run
from tests.events.rabbit_server import URL, new_prefix, require_rabbitmq

from redraft.actors import Critique, Draft, Workflow, critic, generator, refiner, score
from redraft.app import open_client, open_house, open_log
from redraft.app.compose import PROJECTIONS
from redraft.app.settings import Settings, views_path
from redraft.events.domain_events import DraftCritiqued, RunEnded
from redraft.events.store import open_store
from redraft.projections import catch_up, list_runs, open_views


@generator
async def write() -> str:
    return "one"


@critic
async def judge(draft: Draft) -> Critique:
    return Critique(min(1.0, draft.version / 4))


@refiner
async def improve(draft: Draft) -> str:
    return f"{draft.text} more"


LOOP = Workflow("loop").start_with(write).repeat_until(score >= 1, max_iterations=6, name="Loop", body=[judge, improve])


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        f"sqlite:///{tmp_path / 'log.db'}"
        if request.param == "sqlite"
        else str(request.getfixturevalue("postgres_url"))
    )


async def test_a_run_is_listed_as_it_was_when_an_event_was_seen(url: str) -> None:
    async with asyncio.timeout(DEADLINE), open_house(Settings(store=url), LOOP.actors.values()) as house:
        for _ in range(20):
            run = await house.client.submit(LOOP, "a text")
            good = await house.client.wait(run, until="score >= 0.5")
            assert isinstance(good.data, DraftCritiqued)
            assert good.data.critique.score == 0.5
            assert await house.client.wait_for(good.position) >= good.position
            assert (await list_runs(house.views))[0].position >= good.position
            end = await house.client.wait(run, until="end")
            assert isinstance(end.data, RunEnded)
            await house.client.wait_for(end.position)
            (found,) = [each for each in await list_runs(house.views) if each.run == run]
            assert (found.status, found.position) == ("ended", end.position)


async def test_one_who_looks_sees_what_others_have_written_since(url: str) -> None:
    async with asyncio.timeout(DEADLINE), open_store(url) as store, open_log(Settings(store=url)) as log:
        assert await list_runs(log.views) == []
        await write_run(store, "a", 30)
        assert await log.client.wait_for(30) == 30
        assert [each.run for each in await list_runs(log.views)] == ["a"]


async def test_a_client_of_a_deployment_waits_for_its_coordinator(url: str) -> None:
    """The read models are made by another process; here by hand."""
    require_rabbitmq()
    settings = Settings(store=url, bus=URL, prefix=new_prefix())
    async with (
        asyncio.timeout(DEADLINE),
        open_store(url) as store,
        open_client(settings) as client,
        await open_views(views_path(url), PROJECTIONS) as views,
    ):
        await write_run(store, "a", 30)
        waiting = asyncio.create_task(client.wait_for(30))
        assert not (await asyncio.wait({waiting}, timeout=0.2))[0]
        await catch_up(views, store)
        assert await waiting == 30
