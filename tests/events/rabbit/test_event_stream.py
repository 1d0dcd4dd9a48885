"""Announcing recorded events on RabbitMQ, and reading them again from its stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import aio_pika
import msgspec
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aiormq import Channel
from msgspec.structs import replace
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.events.errors import BusError
from redraft.events.messages.codec import GENESIS, decode_event, encode_event
from redraft.events.messages.domain_events import DomainEvent, IterationStarted, RunEnded, StepFailed
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.filters import RunFacts
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.cloudevents import event_headers
from redraft.events.rabbit.structured_events import BATCH

START = datetime(2026, 3, 1, 12, 0, 0, 125001, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def recorded(first: int, last: int, *, step: int = 1, by: str = "critic prüfer") -> list[Recorded]:
    """Events with the positions `first`, `first + step` … `last`, as they come from the store."""
    return [_event(position, by) for position in range(1, last + 1)][first - 1 :: step]


@cache
def _event(position: int, by: str) -> Recorded:
    run, version = f"прогон-{position % 3}", (position + 2) // 3
    previous = _event(position - 3, by).hash if position > 3 else GENESIS
    data: DomainEvent = StepFailed("Loop[1]/prüfer", position, "error", "京都 🌊")
    if position % 2:
        data = IterationStarted("Loop", position)
    origin = Origin(f"id-{position}", by, "cause", "start", *((TRACE, "first") if position % 2 else ()))
    stored = encode_event(run, version, previous, START + timedelta(seconds=position), origin, data)
    return decode_event(run, version, stored.name, stored.state, position)


def facts(events: Sequence[Recorded]) -> dict[str, RunFacts]:
    return {event.run: RunFacts("my.article", ("spring", "v:2")) for event in events}


@asynccontextmanager
async def in_time(prefix: str = "") -> AsyncIterator[RabbitBus]:
    async with asyncio.timeout(60), rabbit(prefix=prefix) as bus:
        yield bus


async def announce(bus: RabbitBus, events: Sequence[Recorded]) -> None:
    await bus.publish_events(events, facts(events))


async def first(events: AsyncGenerator[Recorded, None], number: int) -> list[Recorded]:
    return [await anext(events) for _ in range(number)]


async def test_events_come_as_they_were_recorded_those_kept_and_those_to_come() -> None:
    async with in_time() as bus:
        await announce(bus, recorded(1, 10))
        await announce(bus, [])
        async with aclosing(bus.subscribe_stream()) as events, aclosing(bus.subscribe_stream(7)) as later:
            assert await first(events, 10) == recorded(1, 10)
            assert await first(later, 3) == recorded(8, 10)
            waiting = asyncio.create_task(first(events, 2))
            await announce(bus, recorded(11, 11))
            await announce(bus, recorded(12, 12))
            assert await waiting == recorded(11, 12)
            assert await first(later, 2) == recorded(11, 12)


async def test_a_subscriber_may_come_before_the_first_event() -> None:
    async with in_time() as bus, aclosing(bus.subscribe_stream()) as events:
        waiting = asyncio.create_task(first(events, 3))
        await asyncio.sleep(0)
        await announce(bus, recorded(1, 3))
        assert await waiting == recorded(1, 3)


async def test_doubles_are_dropped_and_positions_may_have_holes() -> None:
    async with in_time() as bus:
        log = recorded(1, 400, step=3)
        await announce(bus, log[:60])
        await announce(bus, log[40:80])
        await announce(bus, log[:100])
        await announce(bus, log[90:])
        async with aclosing(bus.subscribe_stream()) as events:
            assert await first(events, len(log)) == log
        for after in (1, 2, 3, 150, 299, 301, 396):
            expected = [event for event in log if event.position > after]
            async with aclosing(bus.subscribe_stream(after)) as events:
                assert await first(events, len(expected)) == expected


async def test_an_event_that_comes_too_early_waits_for_those_before_it() -> None:
    """As when the server loses one of several that were under way: all from there on are sent again."""
    async with in_time(prefix := new_prefix()) as bus:
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            await announce(bus, recorded(1, 6))
            exchange = await channel.get_exchange(f"{prefix}.events")
            await announce(bus, recorded(7, 7))
            for place in (11, 12, 10, 11, 12):  # told together, so each names the one before it
                (event,) = recorded(place, place)
                headers = event_headers(event, RunFacts(), place - 1)
                message = aio_pika.Message(msgspec.json.encode(event.data), headers=headers, message_id=f"m-{place}")
                await exchange.publish(message, "loop.iteration")
            await announce(bus, recorded(8, 9))
            await announce(bus, recorded(10, 13))
        async with aclosing(bus.subscribe_stream()) as events:
            assert [event.position for event in await first(events, 13)] == list(range(1, 14))


async def test_a_late_subscriber_does_not_read_the_whole_history(monkeypatch: pytest.MonkeyPatch) -> None:
    async with in_time() as bus:
        log = recorded(1, 3000)
        for begin in range(0, 3000, 10):
            await announce(bus, log[begin : begin + 10])
        reads: list[str | int] = []
        consume = Channel.basic_consume

        async def noting(channel: Channel, queue: str, *given: Any, **named: Any) -> object:
            reads.append(named["arguments"]["x-stream-offset"])
            return await consume(channel, queue, *given, **named)

        monkeypatch.setattr(Channel, "basic_consume", noting)
        async with aclosing(bus.subscribe_stream(2900)) as events:
            assert await first(events, 100) == log[2900:]
        assert isinstance(reads[-1], int)
        assert 250 <= reads[-1] <= 290, "each of 300 messages has ten events"


async def test_a_history_that_begins_too_late_is_told() -> None:
    async with in_time() as bus:
        await announce(bus, recorded(500, 520))
        async with aclosing(bus.subscribe_stream(498)) as events:
            with pytest.raises(BusError, match=r"kept from position 500 on.*subscribe after position 499"):
                await anext(events)
        async with aclosing(bus.subscribe_stream(499)) as events:
            assert await first(events, 21) == recorded(500, 520)


async def test_a_log_that_was_set_back_is_told_to_those_who_saw_it_and_to_those_who_come() -> None:
    async with in_time() as bus:
        log, other = recorded(1, 12), recorded(1, 20, by="critic else")
        await announce(bus, log)
        async with aclosing(bus.subscribe_stream()) as events:
            assert await first(events, 12) == log
            await announce(bus, other[9:10])  # the place of another event, which is not told again
            with pytest.raises(
                BusError, match=r"the log was set back: event 4 of run прогон-1, at position 10, does not continue"
            ):
                await anext(events)
        async with aclosing(bus.subscribe_stream()) as events:
            with pytest.raises(BusError, match="the log was set back: event 4 of run прогон-1, at position 10"):
                await first(events, 13)
    async with in_time() as bus:
        await announce(bus, [*log, *other[12:13]])  # a new place, after an event that was not the last of its run
        async with aclosing(bus.subscribe_stream()) as events:
            assert await first(events, 12) == log
            with pytest.raises(BusError, match="the log was set back: event 5 of run прогон-1, at position 13"):
                await anext(events)


async def test_closing_the_bus_ends_a_subscription() -> None:
    async with in_time() as bus:
        await announce(bus, recorded(1, 1))
        async with aclosing(bus.subscribe_stream()) as events:
            await anext(events)
            waiting = asyncio.create_task(first(events, 1))
            await asyncio.sleep(0)
            await bus.close()
            with pytest.raises(BusError, match="closed"):
                await waiting
        with pytest.raises(BusError, match="closed"):
            bus.subscribe_stream()
        with pytest.raises(BusError, match="closed"):
            await announce(bus, recorded(2, 2))


async def test_anybody_can_subscribe_to_a_kind_of_event_by_the_topic() -> None:
    async with in_time(prefix := new_prefix()) as bus:
        await announce(bus, recorded(1, 1))
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            mine = await channel.declare_queue(exclusive=True)
            await mine.bind(f"{prefix}.events", "step.failed.*")
            await announce(bus, recorded(2, 5))
            (event, other) = recorded(2, 4, step=2)
            message = await mine.get()
            assert message.routing_key == "step.failed.my%2Earticle"
            assert msgspec.json.decode(message.body, type=StepFailed) == event.data
            assert message.headers == {
                "cloudEvents:specversion": "1.0",
                "cloudEvents:id": "id-2",
                "cloudEvents:source": "/redraft/critic%20pr%C3%BCfer",
                "cloudEvents:type": "step.failed.v1",
                "cloudEvents:subject": "прогон-2",
                "cloudEvents:causationid": "cause",
                "cloudEvents:correlationid": "start",
                "cloudEvents:time": "2026-03-01T12:00:02.125001Z",
                "cloudEvents:workflow": "my.article",
                "cloudEvents:tags": "spring v:2",
                "cloudEvents:position": 2,
                "cloudEvents:version": 1,
                "cloudEvents:hash": event.hash,
                "cloudEvents:previoushash": GENESIS,
            }
            follower = await mine.get()
            assert follower.headers["cloudEvents:id"] == other.id
            assert follower.headers["cloudEvents:follows"] == 3


async def test_events_are_together_in_the_stream_and_a_bound_queue_gets_each_in_order() -> None:
    """Also one that is bound later, or unbound and bound again; the stream has no binding any more."""
    async with (
        in_time(prefix := new_prefix()) as bus,
        await aio_pika.connect(URL) as connection,
        connection.channel() as channel,
    ):
        await announce(bus, recorded(1, 20))
        stream = await kept(channel, prefix, 1)
        assert [message.content_type for message in stream] == [BATCH]
        mine = await channel.declare_queue(exclusive=True)
        topic = await channel.get_exchange(f"{prefix}.events", ensure=False)
        for first_position, key in ((21, "step.failed.*"), (41, "#"), (61, "")):
            if key:
                await mine.bind(topic, key)
            await announce(bus, recorded(first_position, first_position + 19))
        heard = [await position_of(mine) for _ in range(10 + 20 + 20)]
        assert heard == [*range(22, 41, 2), *range(41, 81)]
        for key in ("step.failed.*", "#"):
            await mine.unbind(topic, key)
        await announce(bus, recorded(81, 100))
        await mine.bind(topic, "iteration.#")
        await announce(bus, recorded(101, 102))
        assert await position_of(mine) == 101
        assert [message.content_type for message in await kept(channel, prefix, 6)] == [BATCH] * 6
        async with aclosing(bus.subscribe_stream()) as events:
            assert await first(events, 102) == recorded(1, 102)


async def test_what_an_earlier_release_has_bound_and_kept_is_read_beside_batches() -> None:
    prefix = new_prefix()
    async with in_time(prefix) as bus, await aio_pika.connect(URL) as connection, connection.channel() as channel:
        await announce(bus, recorded(1, 1))
        await (await channel.get_queue(f"{prefix}.events", ensure=False)).bind(f"{prefix}.events", "#")
        await announce(bus, recorded(2, 10))  # the stream has these twice
        async with RabbitBus(URL, prefix=prefix) as another:
            await announce(another, recorded(11, 20))
        async with aclosing(bus.subscribe_stream()) as events:
            assert await first(events, 20) == recorded(1, 20)


async def kept(channel: AbstractChannel, prefix: str, number: int) -> list[AbstractIncomingMessage]:
    """The first messages of the stream."""
    await channel.set_qos(prefetch_count=100)
    queue = await channel.get_queue(f"{prefix}.events", ensure=False)
    found: list[AbstractIncomingMessage] = []
    async with queue.iterator(arguments={"x-stream-offset": "first"}) as messages:
        async for message in messages:
            await message.ack()
            found.append(message)
            if len(found) == number:
                break
    return found


async def position_of(queue: AbstractQueue) -> int:
    message = await queue.get()
    await message.ack()
    return int(str(message.headers["cloudEvents:position"]))


async def test_two_who_announce_the_same_do_no_harm() -> None:
    async with in_time(prefix := new_prefix()) as bus, RabbitBus(URL, prefix=prefix) as standby:
        log = recorded(1, 300)
        await asyncio.gather(announce(bus, log), announce(standby, log))
        async with aclosing(bus.subscribe_stream()) as events:
            assert await first(events, 300) == log


@pytest.mark.parametrize("few", [3, 600])
async def test_what_somebody_else_put_into_the_stream_is_passed_over(few: int) -> None:
    """Before, among and behind the events; more of it than is read ahead, too."""
    prefix = new_prefix()
    events = recorded(1, 600)

    async def junk() -> None:
        async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
            exchange = await channel.get_exchange(f"{prefix}.events", ensure=False)
            for _ in range(few):
                await exchange.publish(aio_pika.Message(b"{torn"), "somebody.else", mandatory=False)

    async with in_time(prefix) as bus:
        await announce(bus, events[:1])
        await junk()
        await announce(bus, events[1:500])
        await junk()
        for after in (0, 450):
            async with aclosing(bus.subscribe_stream(after)) as stream:
                got = [await anext(stream) for _ in range(500 - after)]
                if after:
                    await announce(bus, events[500:])
                    got += [await anext(stream) for _ in range(100)]
            assert got == events[after : after + len(got)]


@pytest.mark.parametrize("number", [3, 60])
async def test_workers_are_told_of_runs_that_end_and_may_have_left_steps_and_of_no_others(number: int) -> None:
    events = [
        replace(event, run=f"run-{event.position}", data=RunEnded("accepted", "score >= 1", 1))
        for event in recorded(1, number)
    ]
    left, last = events[1].run, events[-1].run
    over = RunEnded("over_budget", "the wall time is over", 1)
    events[-1] = replace(events[-1], data=over)
    known = {event.run: RunFacts("loop", may_leave=event.run == left) for event in events}
    listening = asyncio.Event()
    async with in_time() as bus:
        await bus.publish_events(events[:1], {})
        async with aclosing(bus.cancellations(listening.set)) as ended:
            first_told = asyncio.create_task(anext(ended))
            await listening.wait()
            await bus.publish_events(events, known)
            assert [await first_told, await anext(ended)] == [left, last]
        async with aclosing(bus.subscribe_stream()) as stream:
            assert [each.run for each in await first(stream, number)] == [each.run for each in events]
