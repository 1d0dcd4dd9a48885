"""One bad run, one bad queue, one bad message: what a deployment on real servers makes of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import aio_pika
import pytest
from msgspec.structs import replace
from tests.app.deployments import Deployment, deployment
from tests.events.rabbit_server import URL

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.state import RunState
from redraft.actors.plans.paths import map_steps
from redraft.actors.runtime.coordinating.decisions import new_events
from redraft.app.workflows.sources import read_source
from redraft.events.backends import open_store
from redraft.events.bus.port import INBOX, BusMessage
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import StartRun
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import Parent, RunEnded, StepFailed
from redraft.events.messages.envelope import Origin
from redraft.events.messages.plan import Plan
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.structured_events import BATCH

pytestmark = pytest.mark.check


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        yield made


@pytest.fixture
def on_postgres(tmp_path: Path, postgres_url: str) -> Iterator[Deployment]:
    with deployment(tmp_path, postgres_url) as made:
        yield made


def begin(there: Deployment, *workers: str) -> None:
    there.start("coordinator", "coordinator")
    for name in workers:
        there.start(name, "worker", f"loop.py:{name}")


def on_the_broker(work: Callable[[aio_pika.abc.AbstractChannel], Awaitable[object]]) -> None:
    async def done() -> None:
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            await work(channel)

    asyncio.run(done())


def recorded_before_it_was_refused(there: Deployment, run: str, letters: int) -> None:
    """A run of a plan whose first actor has a name that no broker takes, as an earlier release would have begun it."""
    plan: Plan = read_source(str(there.folder / "loop.py:loop")).plan
    bad = replace(plan, steps=map_steps(plan.steps, lambda path, step: replace(step, actor="京" * letters)))
    now = datetime.now(UTC)
    events = handle(RunState(), StartRun(run, bad, Brief("a text")), now).events

    async def done() -> None:
        async with open_store(there.store) as store:
            await store.append(run, 0, new_events(Origin(f"start {run}", "test"), run, events, now))

    asyncio.run(done())


async def what_no_part_sends(there: Deployment) -> None:
    """On the inbox: a source of 360 KB, and a fork at a version that no store has."""
    plan = read_source(str(there.folder / "loop.py:loop")).plan
    fork = StartRun("fork", plan, Brief("a text"), parent=Parent("bad", 2**63))
    async with RabbitBus(URL, prefix=there.prefix) as bus:
        await bus.publish(INBOX, [BusMessage(*encode_message(fork), Origin("fork", "test"), "fork")])
    event = {"specversion": "1.0", "id": "i", "type": "run.cancel.v1", "data": {"run": "bad", "reason": "x"}}
    body = json.dumps([{**event, "source": "/redraft/" + 360_000 * "x"}]).encode()
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        message = aio_pika.Message(body, content_type=BATCH)
        await channel.default_exchange.publish(message, f"{there.prefix}.inbox", mandatory=True)


def test_a_bad_run_and_bad_messages_stop_nobody_else_also_after_a_restart(on_postgres: Deployment) -> None:
    there = on_postgres
    recorded_before_it_was_refused(there, "bad", letters=28)
    recorded_before_it_was_refused(there, "short", letters=13)
    begin(there, "write", "judge", "improve", "save")
    there.serving("coordinator")
    good = there.submit()
    asyncio.run(what_no_part_sends(there))
    there.ended(good, "bad", "short", there.submit())
    for run in ("bad", "short"):
        *_, failed, ended = there.history(run)
        assert isinstance(failed.data, StepFailed)
        assert (failed.data.kind, failed.data.retry_at, failed.actor) == ("invalid", None, "relay")
        assert "is too long: exchanges have names of at most 127 bytes" in failed.data.message
        assert isinstance(ended.data, RunEnded)
        assert ended.data.outcome == "failed"
    refused = there.said("coordinator", "step refused")
    assert sorted((line["run"], line["position"]) for line in refused) == [("bad", 2), ("short", 4)]
    there.until("both are dead-lettered", lambda: len(there.json("dead-letters", "list")) == 2)
    reasons = sorted(each["reason"] for each in there.json("dead-letters", "list"))
    assert reasons[0].startswith("9223372036854775808 cannot be the version of an event")
    assert "its attribute actor has 360,000 bytes" in reasons[1]
    assert there.said("coordinator", "interrupted") == []
    assert "2 steps failed because its request could not be made or sent" in there.call("doctor").out
    there.start("second", "coordinator")
    there.serving("second")
    there.ended(there.submit())
    assert there.said("second", "step refused") == []


def test_a_queue_with_the_settings_of_a_stranger_waits_alone_and_is_used_once_it_is_mended(there: Deployment) -> None:
    judge = f"{there.prefix}.critic.judge"
    on_the_broker(lambda channel: channel.declare_queue(judge, durable=True, arguments={"x-max-length": 1}))
    begin(there, "judge", "write")
    first = there.submit()
    for name in ("judge", "coordinator"):
        there.until(f"{name} is told", lambda name=name: bool(there.said(name, "queue cannot be used")))
        told = there.said(name, "queue cannot be used")
        assert {line["queue"] for line in told} == {judge}
        assert f"queue {judge} is there with other settings" in told[0]["error"]
    second = there.submit()
    there.until("others are served", lambda: there.worked().count("write#1") == 2)
    assert f"{judge} is there with other settings" in there.call("doctor").out
    there.start("improve", "worker", "loop.py:improve", "loop.py:save")
    on_the_broker(lambda channel: channel.queue_delete(judge))
    there.ended(first, second)
    assert there.said("coordinator", "interrupted") == there.said("judge", "interrupted") == []


def test_a_worker_that_starts_after_a_cancel_does_not_work_on_what_was_cancelled(there: Deployment) -> None:
    begin(there, "write", "improve", "save")
    cancelled, other = there.submit(), there.submit()

    def waiting() -> int:
        found = [line["message"] for line in there.json("doctor")["checks"] if "critic.judge" in line["message"]]
        return int("2 messages waiting" in found[0]) if found else 0

    there.until("both requests wait", lambda: bool(waiting()))
    assert there.call("cancel", cancelled, "--reason", "late").code == 0
    there.start("judge", "worker", "loop.py:judge")
    there.ended(other)
    worked = [each for each in there.worked() if "judge" in each]
    assert worked == ["Loop[1]/judge#1", "Loop[2]/judge#1", "Loop[3]/judge#1"], "those of the other run alone"
