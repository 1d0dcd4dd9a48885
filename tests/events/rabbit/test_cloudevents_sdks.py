"""The inbox understands what the official SDKs of CloudEvents send, in every way in which they write an event."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from cloudevents.core.bindings import amqp, rabbitmq
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from tests.app.node import LIBRARIES, installed
from tests.dead_letters import dead_letters_on
from tests.events.rabbit.test_queues import KINDS, hold_and_die
from tests.events.rabbit.test_strangers import opened
from tests.events.rabbit_server import URL

from redraft.actors.runtime.admission import Admission
from redraft.events.bus.port import INBOX, BusMessage
from redraft.events.messages.commands import CancelRun
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.topology import Kind

Sent = tuple[bytes, str | None, Mapping[str, Any]]

DOOR = Admission(1000, 100_000)
NAME = "run.cancel.v1"
CONTENT = CancelRun("the-run", "enough", "ann")
DATA = {"run": "the-run", "reason": "enough", "by": "ann"}
JSON = "application/json"


def event(data: object = DATA, **attributes: object) -> CloudEvent:
    given = {"id": "one", "source": "/redraft/someone", "type": NAME, "subject": "the-run", "datacontenttype": JSON}
    time = {"specversion": "1.0", "time": datetime(2026, 3, 1, tzinfo=UTC)}
    return CloudEvent({**time, **given, **attributes}, data)  # type: ignore[arg-type]


def by_amqp(write: Callable[..., amqp.AMQPMessage], **attributes: object) -> Sent:
    made = write(event(**attributes), JSONFormat())
    return made.application_data, made.properties.get("content-type"), made.application_properties


def by_rabbitmq(write: Callable[..., rabbitmq.RabbitMQMessage], **attributes: object) -> Sent:
    made = write(event(**attributes), JSONFormat())
    return made.body, made.content_type, made.headers


def with_colons() -> Sent:
    body, media_type, headers = by_amqp(amqp.to_binary)
    return body, media_type, {name.replace("cloudEvents_", "cloudEvents:"): value for name, value in headers.items()}


def with_media_type(sent: Sent, media_type: str) -> Sent:
    return sent[0], media_type, sent[2]


WAYS: dict[str, Sent] = {
    "cloudEvents_": by_amqp(amqp.to_binary),
    "cloudEvents:": with_colons(),
    "ce-": by_rabbitmq(rabbitmq.to_binary),
    "structured": by_amqp(amqp.to_structured),
    "structured, by RabbitMQ's binding": by_rabbitmq(rabbitmq.to_structured),
    "structured, with base64": by_amqp(amqp.to_structured, data=json.dumps(DATA).encode()),
    "with a parameter": with_media_type(by_amqp(amqp.to_binary), "application/json; charset=utf-8"),
    "structured, with a parameter": with_media_type(
        by_amqp(amqp.to_structured), "Application/CloudEvents+JSON ; charset=UTF-8"
    ),
}


async def put(queue: str, *messages: Sent) -> None:
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        for body, media_type, headers in messages:
            message = aio_pika.Message(body, headers=dict(headers), content_type=media_type)
            await channel.default_exchange.publish(message, queue, mandatory=True)


async def taken(bus: RabbitBus, count: int) -> Sequence[BusMessage]:
    """Messages of the inbox that the door lets in, acknowledged."""
    found: list[BusMessage] = []
    async with bus.consume(INBOX, 10) as consumer:
        while len(found) < count:
            deliveries = await consumer.take(10)
            found += [each.bus_message for each in deliveries]
            await consumer.ack(deliveries)
    return found


@pytest.mark.parametrize("way", WAYS)
async def test_an_event_of_the_python_sdk_is_understood(way: str) -> None:
    async with opened() as (bus, queue):
        await put(queue, WAYS[way])
        (message,) = await taken(bus, 1)
    assert (message.name, message.run) == (NAME, "the-run")
    assert (message.origin.id, message.origin.actor) == ("one", "someone")
    assert DOOR.message(message) == CONTENT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["cloudEvents_", "ce-", "structured"])
async def test_it_is_still_understood_when_it_comes_again_and_from_the_dead_letters(kind: Kind, way: str) -> None:
    async with opened(kind) as (bus, queue):
        await put(queue, WAYS[way])
        await hold_and_die(queue, 1)
        async with bus.consume(INBOX, 10) as consumer:
            (again,) = await consumer.take(1)
            assert again.count > 1
            await consumer.reject(again, requeue=False, reason="not now")
        (dead,) = await dead_letters_on(bus)
        assert DOOR.message(dead.bus_message) == DOOR.message(again.bus_message) == CONTENT
        assert await bus.retry(dead.id)
        (message,) = await taken(bus, 1)
        assert DOOR.message(message) == CONTENT


async def test_a_damaged_structured_event_is_refused() -> None:
    bad = (
        b'{"specversion": "1.0"',
        b"[]",
        b'{"specversion":"1.0","id":"x","source":"/x","type":"t","data_base64":"?"}',
    )
    async with opened() as (bus, queue):
        await put(queue, *((body, "application/cloudevents+json", {}) for body in bad))
        found = await taken(bus, len(bad))
    assert [each.name for each in found] == ["", "", ""]


@pytest.mark.check
async def test_events_of_the_javascript_sdk_are_understood(tmp_path: Path) -> None:
    async with opened() as (bus, queue):
        folder = installed(LIBRARIES, tmp_path)
        command = ["node", "cloudevents.mjs", URL, queue, NAME, "the-run", json.dumps(DATA)]
        await asyncio.to_thread(subprocess.run, command, cwd=folder, check=True, timeout=60)
        found = await taken(bus, 4)
    assert [each.origin.id for each in found] == ["structured", "binary", "first", "second"]
    for message in found:
        assert DOOR.message(message) == CONTENT
