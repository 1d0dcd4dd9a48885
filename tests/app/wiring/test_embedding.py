"""A program of one's own runs a coordinator and a worker of a deployment inside."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq
from tests.proxy import Proxy

from redraft.app import (
    InputError,
    Settings,
    Workflow,
    critic,
    generator,
    open_client,
    publisher,
    refiner,
    run_coordinator,
    run_worker,
    score,
)
from redraft.events.bus.port import work_queue

DEADLINE = 60


@generator
def write(brief):
    return brief.text


@critic
def judge(draft):
    return min(1.0, draft.text.count("!") / 2)


@refiner
def improve(draft):
    return draft.text + "!"


@publisher
def save(draft):
    if len(draft.text) > 100:
        raise ValueError("too long")


loop = Workflow("loop").start_with(write).repeat_until(score >= 1, max_iterations=5, body=[judge, improve])
loop = loop.finally_(save)


async def test_a_coordinator_and_a_worker_serve_until_they_are_drained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_rabbitmq()
    settings = Settings(store=f"sqlite:///{tmp_path / 'log.db'}", bus=URL, broker_prefix=new_prefix())
    drain, served, worked = asyncio.Event(), asyncio.Event(), asyncio.Event()
    try:
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            group.create_task(run_coordinator(settings=settings, drain=drain, ready=served.set))
            group.create_task(run_worker(loop, save, settings=settings, drain=drain, ready=worked.set))
            await served.wait()
            await worked.wait()
            async with open_client(settings) as client:
                result = await client.wait(await client.submit(loop, "Tides"))
                assert (result.outcome, result.text) == ("accepted", "Tides!!")
                assert [each.location for each in result.publications] == ["save"]
                with caplog.at_level(logging.ERROR, "redraft"):
                    failed = await client.wait(
                        await client.submit(Workflow("one").start_with(write, judge, save), "x" * 101)
                    )
                assert "save raised ValueError: too long (tests/app/wiring/test_embedding.py:" in failed.reason
                with pytest.raises(InputError, match="has ended as accepted and takes no more messages"):
                    await client.guide(result.run, "more")
            drain.set()
    finally:
        await clear(URL, settings.broker_prefix, [work_queue(each.role, each.name) for each in loop.actors.values()])
    logged = [record.getMessage() for record in caplog.records if "actor raised" in record.getMessage()]
    assert logged
    assert "test_embedding.py" in logged[0]
    assert "ValueError" in logged[0]
    assert "too long" not in logged[0]  # a message may hold a text, and logs hold none


async def test_without_a_broker_they_say_what_is_missing() -> None:
    for serve in (run_coordinator(settings=Settings(bus="local:")), run_worker(judge, settings=Settings(bus="local:"))):
        with pytest.raises(InputError, match="name a RabbitMQ server"):
            await serve


async def test_a_client_goes_on_waiting_where_its_store_was_away(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    require_rabbitmq()
    place = {"port": "5432"} | dict(parse_qsl(urlsplit(postgres_url).query))
    settings = Settings(store=postgres_url, bus=URL, broker_prefix=new_prefix())
    drain, go = asyncio.Event(), asyncio.Event()

    @generator
    async def hold(brief):
        await go.wait()
        return brief.text

    held = Workflow("held").start_with(hold, judge, save)
    try:
        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            group.create_task(run_coordinator(settings=settings, drain=drain))
            group.create_task(run_worker(held, save, settings=settings, drain=drain))
            async with Proxy(int(place["port"])).open() as proxy:
                beside = settings.model_copy(update={"store": _store(place | {"port": str(proxy.port)})})
                async with open_client(beside) as client:
                    run = await client.submit(held, "Tides")
                    waiting = asyncio.create_task(client.wait(run))
                    await client.wait(run, until="step.requested")
                    while "interrupted" not in caplog.text:
                        proxy.cut()
                        await asyncio.sleep(0.01)
                    go.set()
                    assert (await waiting).outcome == "accepted"
            drain.set()
    finally:
        await clear(URL, settings.broker_prefix, [work_queue(each.role, each.name) for each in held.actors.values()])


@pytest.mark.parametrize("most", [0, 1, 2, 3, 5])
async def test_a_coordinator_waits_at_its_start_for_a_store_that_lets_only_some_in(
    postgres_url: str, most: int
) -> None:
    require_rabbitmq()
    place = {"port": "5432"} | dict(parse_qsl(urlsplit(postgres_url).query))
    drain, served = asyncio.Event(), asyncio.Event()
    prefix = new_prefix()
    try:
        async with asyncio.timeout(DEADLINE), Proxy(int(place["port"])).open() as proxy, asyncio.TaskGroup() as group:
            proxy.most = most
            store = _store(place | {"port": str(proxy.port)})
            settings = Settings(store=store, bus=URL, broker_prefix=prefix)
            group.create_task(run_coordinator(settings=settings, drain=drain, ready=served.set))
            await proxy.refused.wait()
            proxy.most = None
            await served.wait()
            drain.set()
    finally:
        await clear(URL, prefix, [])


def _store(place: dict[str, str]) -> str:
    return f"postgresql://?{urlencode(place, quote_via=quote)}"
