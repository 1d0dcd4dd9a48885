"""A program in another language follows real events from a real broker, and holds them against the contract."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aio_pika
import msgspec
import pytest
from aio_pika import ExchangeType
from aio_pika.abc import AbstractExchange
from tests.app.cli_calls import call
from tests.app.node import ROOT, installed
from tests.events.rabbit_server import URL, new_prefix, rabbit, require_rabbitmq

from redraft.events.messages.codec import decode_event
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.topology import Names

pytestmark = pytest.mark.check

DEADLINE = 60.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as its README sets it up."""
    require_rabbitmq()
    folder = installed("examples/subscribe-node", tmp_path_factory.mktemp("node"))
    (folder / "contract.json").write_text(call("contract", "--json").out)
    return folder


@asynccontextmanager
async def topic() -> AsyncIterator[tuple[RabbitBus, AbstractExchange]]:
    """A bus, and its topic of events, which is there already."""
    prefix = new_prefix()
    async with rabbit(prefix=prefix) as bus, await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        yield bus, await channel.declare_exchange(Names(prefix).events, ExchangeType.TOPIC, durable=True)


@asynccontextmanager
async def following(program: Path, *options: str, url: str = URL) -> AsyncIterator[Process]:
    """The program, once it says that it follows."""
    process = await asyncio.create_subprocess_exec(
        "node", "subscribe.mjs", *options, cwd=program, env={**os.environ, "REDRAFT_BUS": url}, stdout=PIPE, stderr=PIPE
    )
    try:
        assert "following" in await line_of(process.stderr)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def line_of(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    async with asyncio.timeout(DEADLINE):
        return (await stream.readline()).decode()


async def told(process: Process, count: int) -> list[tuple[int, str, str, object]]:
    """What the next lines say: position, run, name, data."""
    lines = [(await line_of(process.stdout)).split(" ", 3) for _ in range(count)]
    return [(int(position), run, name, json.loads(data)) for position, run, name, data in lines]


def golden() -> list[Recorded]:
    lines = (ROOT / "tests/golden/v1/every-event.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in lines]
    return [
        decode_event(each["run"], each["version"], each["name"], each["state"].encode(), 10 * place)
        for place, each in enumerate(kept, 1)
    ]


def expected(events: Sequence[Recorded]) -> list[tuple[int, str, str, object]]:
    return [
        (each.position, each.run, each.name, msgspec.json.decode(msgspec.json.encode(each.data))) for each in events
    ]


async def test_it_prints_every_event_once_those_to_come_and_those_that_were(program: Path) -> None:
    events = golden()
    async with topic() as (bus, exchange):
        async with following(program, "--exchange", exchange.name) as process:
            await bus.publish_events(events[:-1], {"golden-run": RunFacts("article")})
            assert await told(process, len(events) - 1) == expected(events[:-1])
            await bus.publish_events(events, {"golden-run": RunFacts("article")})
            assert await told(process, 1) == expected(events[-1:])
        async with following(program, "--exchange", exchange.name, "--from-start") as process:
            assert await told(process, len(events)) == expected(events)


async def test_it_is_sent_only_what_it_is_bound_to(program: Path) -> None:
    events = golden()
    wanted = [each for each in events if each.name == "draft.critiqued.v1"]
    async with (
        topic() as (bus, exchange),
        following(program, "--exchange", exchange.name, "--bind", "draft.critiqued.article") as process,
    ):
        await bus.publish_events(events, {"golden-run": RunFacts("other")})
        await bus.publish_events(events, {"golden-run": RunFacts("article")})
        assert await told(process, len(wanted)) == expected(wanted)


@pytest.mark.parametrize(
    ("change", "body", "says"),
    [
        ({}, b'{"path":"Refinement","iteration":"one"}', "payload: data/iteration must be integer"),
        ({}, b"not JSON", "payload: data must be object"),
        ({"cloudEvents:time": "yesterday"}, b"{}", "headers: data/cloudEvents:time must match format"),
        ({"cloudEvents:type": "iteration.started.v9"}, b"{}", "not in the contract"),
    ],
)
async def test_it_tells_what_does_not_fit_and_goes_on(
    program: Path, change: dict[str, str], body: bytes, says: str
) -> None:
    events = golden()
    headers: dict[str, str | int] = {
        "cloudEvents:specversion": "1.0",
        "cloudEvents:id": "x",
        "cloudEvents:source": "/redraft/stranger",
        "cloudEvents:type": "iteration.started.v1",
        "cloudEvents:subject": "run",
        "cloudEvents:time": "2026-03-01T12:00:00Z",
        "cloudEvents:position": 5,
        "cloudEvents:version": 1,
        "cloudEvents:hash": "0" * 64,
        "cloudEvents:previoushash": "0" * 64,
        **change,
    }
    async with (
        topic() as (bus, exchange),
        following(program, "--exchange", exchange.name) as process,
    ):
        await exchange.publish(aio_pika.Message(body, headers=dict(headers)), "iteration.started.x")
        assert says in await line_of(process.stderr)
        await bus.publish_events(events[:1], {})
        assert await told(process, 1) == expected(events[:1])


@pytest.mark.parametrize(
    ("options", "url", "says"),
    [
        ((), "amqp://127.0.0.1:1", "ECONNREFUSED"),
        (("--exchange", "redraft-test-nothing"), URL, "no exchange 'redraft-test-nothing'"),
        (("--from-start", "--exchange", "redraft-test-nothing"), URL, "no queue 'redraft-test-nothing'"),
        (("--contract", "nowhere.json"), URL, "nowhere.json"),
        (("--unheard",), URL, "--unheard"),
    ],
)
async def test_it_ends_with_one_line(program: Path, options: tuple[str, ...], url: str, says: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "node", "subscribe.mjs", *options, cwd=program, env={**os.environ, "REDRAFT_BUS": url}, stderr=PIPE
    )
    async with asyncio.timeout(DEADLINE):
        _, err = await process.communicate()
    assert process.returncode == 1
    [line] = err.decode().splitlines()
    assert line.startswith("subscribe: ")
    assert says in line
