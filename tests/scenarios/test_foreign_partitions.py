"""What a stranger declared on the broker: no run waits for a partition of it, and doctor names all of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from tests.app.deployments import PARTITIONS, Deployment, deployment
from tests.events.rabbit_server import URL, clear, new_prefix, require_rabbitmq

from redraft.app.cli.doctor.system_checks import broker_checks
from redraft.app.settings.settings import read_settings
from redraft.events.bus.port import DELIVERY_LIMIT, partition_of, work_queue
from redraft.events.rabbit.topology import Kind, Names, queue_arguments

pytestmark = pytest.mark.check

FOREIGN = 1


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Deployment]:
    with deployment(tmp_path) as made:
        yield made


def on_the_broker(work: Callable[[aio_pika.abc.AbstractChannel], Awaitable[object]]) -> None:
    async def done() -> None:
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            await work(channel)

    asyncio.run(done())


def declare(name: str, **arguments: Any) -> None:
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    on_the_broker(lambda channel: channel.declare_queue(name, durable=True, arguments=given))


def begin(there: Deployment) -> None:
    for name in ("first", "second"):
        there.start(name, "coordinator")
        there.serving(name)
    there.start("worker", "worker", "loop.py")
    there.serving("worker")


def submit_to_each(there: Deployment) -> list[str]:
    """Runs in each of the partitions, the foreign one among them."""
    runs: dict[str, int] = {}
    while set(runs.values()) != set(range(PARTITIONS)):
        run = there.submit()
        runs[run] = partition_of(run, PARTITIONS)
    return list(runs)


def is_used_by_more_runs(there: Deployment) -> bool:
    """Whether more runs end, and a coordinator has had a message from the partition: before that they use the inbox."""
    there.ended(*submit_to_each(there))
    return any(there.said(name, "queue can be used") for name in ("first", "second"))


def told(there: Deployment) -> list[dict[str, Any]]:
    return [line for name in ("first", "second") for line in there.said(name, "queue cannot be used")]


def interrupted(there: Deployment) -> list[dict[str, Any]]:
    return [line for name in ("first", "second", "worker") for line in there.said(name, "interrupted")]


def check_of(there: Deployment, queue: str) -> list[tuple[str, str]]:
    checks = json.loads(there.call("doctor", "--json").out)["checks"]
    return [(each["level"], each["message"]) for each in checks if f"{queue} is there" in each["message"]]


def test_a_partition_with_the_settings_of_a_stranger_stops_no_run(there: Deployment) -> None:
    queue = f"{there.prefix}.inbox.{FOREIGN}"
    declare(queue, x_queue_type="classic")
    begin(there)
    there.until("it is told", lambda: bool(told(there)))
    assert {line["queue"] for line in told(there)} == {queue}
    assert f"queue {queue} is there with other settings" in told(there)[0]["error"]
    there.ended(*submit_to_each(there))
    [(level, message)] = check_of(there, queue)
    assert level == "fail"
    assert "delete the queue when it is empty" in message
    on_the_broker(lambda channel: channel.queue_delete(queue))
    there.until("it is made again and used", lambda: is_used_by_more_runs(there))
    assert check_of(there, queue) == []
    assert interrupted(there) == []


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"x_queue_type": "stream"}, id="stream"),
        pytest.param({"x_max_length": 0, "x_overflow": "reject-publish"}, id="takes nothing", marks=pytest.mark.check),
    ],
)
def test_a_partition_that_a_stranger_puts_in_place_of_ours_stops_no_run(
    there: Deployment, arguments: dict[str, Any]
) -> None:
    queue = f"{there.prefix}.inbox.{FOREIGN}"
    begin(there)
    there.ended(*submit_to_each(there))

    async def put(channel: aio_pika.abc.AbstractChannel) -> None:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        while True:
            await channel.queue_delete(queue)
            try:
                made = await channel.declare_queue(queue, durable=True, arguments=given)
            except aio_pika.exceptions.ChannelPreconditionFailed:  # its reader had made it again before us
                await channel.reopen()
            else:
                break
        if "x-max-length" in given:
            await made.bind(f"{there.prefix}.incoming", f"inbox.{FOREIGN}")

    on_the_broker(put)
    there.until("it is told", lambda: bool(told(there)))
    there.ended(*submit_to_each(there))
    assert interrupted(there) == []
    on_the_broker(lambda channel: channel.queue_delete(queue))
    there.ended(*submit_to_each(there))


async def test_doctor_names_exchanges_and_a_stream_with_the_settings_of_a_stranger(tmp_path: Path) -> None:
    require_rabbitmq()
    prefix = new_prefix()
    foreign = [f"{prefix}.{name}" for name in ("incoming", "events", "cancellations", "critic.judge")]
    settings = read_settings(store=f"sqlite:///{tmp_path / 'store.db'}", broker_prefix=prefix, bus=URL)

    async def failed() -> list[str]:
        return [each.message for each in await broker_checks(settings, [("critic", "judge")]) if each.level == "fail"]

    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        try:
            for name in foreign:
                await channel.declare_exchange(name, "fanout", durable=True)
            for name in ("events", "dead-letters", "critic.judge"):
                arguments = (
                    queue_arguments(*judge_of(prefix)) if name == "critic.judge" else {"x-queue-type": "classic"}
                )
                await channel.declare_queue(f"{prefix}.{name}", durable=True, arguments=arguments)
            topology, queue = await failed()
            there = ", ".join(f"exchange {name}" for name in foreign[:3])
            queues = f"queue {prefix}.events, queue {prefix}.dead-letters"
            assert topology.startswith(f"there with other settings: {there}, {queues}; delete it")
            assert queue.startswith(f"the exchange {prefix}.critic.judge is there with other settings; delete it")
            for name in foreign:
                await channel.exchange_delete(name)
            for name in ("events", "dead-letters"):
                await channel.queue_delete(f"{prefix}.{name}")
            assert await failed() == []
        finally:
            await clear(URL, prefix, ["redraft.critic.judge"])


def judge_of(prefix: str) -> tuple[str, Kind, Names, int]:
    return work_queue("critic", "judge"), "quorum", Names(prefix), DELIVERY_LIMIT
