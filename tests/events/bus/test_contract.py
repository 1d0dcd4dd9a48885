"""What every bus keeps, asserted through the port alone. A bus joins by its factory in `BUSES`."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import TypeAlias

import pytest
from msgspec.structs import replace
from tests.dead_letters import dead_letters_on
from tests.events.rabbit_server import rabbit

from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import (
    DELIVERY_LIMIT,
    INBOX,
    LARGEST_BODY,
    LARGEST_REQUEST,
    Bus,
    BusMessage,
    Consumer,
    DeadLetter,
    Delivery,
    work_queue,
)
from redraft.events.errors import BusError, MessageTooLarge
from redraft.events.messages.envelope import Origin

DEADLINE = 30.0
"""Seconds after which a test that waits in vain fails."""

QUEUE = work_queue("critic", "judge")
BODIES = [b"", bytes(range(256)), "Zürich, 京都, 🌊\n\0".encode(), bytes(range(256)) * 8192]


Opens: TypeAlias = Callable[..., AbstractAsyncContextManager[Bus]]
"""Takes `capacity` and `delivery_limit`, and gives each test a bus of its own: nothing of an earlier test is in it."""


@asynccontextmanager
async def local(*, capacity: int = 10_000, delivery_limit: int = DELIVERY_LIMIT) -> AsyncIterator[Bus]:
    largest = {"largest": LARGEST_BODY, "largest_request": LARGEST_REQUEST}
    async with LocalBus(capacity=capacity, delivery_limit=delivery_limit, **largest) as bus:
        yield bus


BUSES = [
    pytest.param(local, id="local"),
    pytest.param(rabbit, id="rabbit"),
    pytest.param(partial(rabbit, kind="classic"), id="rabbit-classic"),
]


@pytest.fixture(params=BUSES)
def opened(request: pytest.FixtureRequest) -> Opens:
    factory: Opens = request.param

    @asynccontextmanager
    async def in_time(**options: int) -> AsyncIterator[Bus]:
        async with asyncio.timeout(DEADLINE), factory(**options) as bus:
            yield bus

    return in_time


class Crash(Exception): ...


def bus_message(number: int) -> BusMessage:
    return BusMessage("draft.critiqued.v1", b"%d" % number, Origin(f"id-{number}", "judge"), f"run-{number % 7}")


def bus_messages(last: int) -> list[BusMessage]:
    return [bus_message(number) for number in range(1, last + 1)]


def numbers(deliveries: Sequence[Delivery]) -> list[int]:
    return [int(delivery.bus_message.body) for delivery in deliveries]


async def some_turns(random: Random) -> None:
    for _ in range(random.randrange(4)):
        await asyncio.sleep(0)


async def take_exactly(consumer: Consumer, wanted: int) -> list[Delivery]:
    taken: list[Delivery] = []
    while len(taken) < wanted:
        taken += await consumer.take(wanted - len(taken))
    return taken


async def dead_letters_when(bus: Bus, enough: Callable[[int], bool]) -> Sequence[DeadLetter]:
    """What is dead-lettered, once it is enough: a broker dead-letters a moment after a message was given back, and
    tells nobody.
    """
    while not enough(len(dead_letters := await dead_letters_on(bus))):  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    return dead_letters


async def park(bus: Bus, consumer: Consumer, deliveries: Sequence[Delivery]) -> Sequence[DeadLetter]:
    """Has these set aside; gives what is dead-lettered, once that is as many."""
    for delivery in deliveries:
        await consumer.reject(delivery, requeue=False, reason="never")
    return await dead_letters_when(bus, lambda n: n == len(deliveries))


async def test_one_consumer_gets_the_letters_of_a_queue_in_order(opened: Opens) -> None:
    async with opened() as bus, bus.consume(QUEUE, 100) as consumer:
        await bus.publish(QUEUE, bus_messages(3))
        await bus.publish(QUEUE, [])
        for number in range(4, 51):
            await bus.publish(QUEUE, [bus_message(number)])
        first = await consumer.take(7)
        assert 1 <= len(first) <= 7
        taken = [*first, *await take_exactly(consumer, 50 - len(first))]
        assert [delivery.bus_message for delivery in taken] == bus_messages(50)
        assert {delivery.count for delivery in taken} == {1}
        assert {delivery.queue for delivery in taken} == {QUEUE}
        assert len({delivery.tag for delivery in taken}) == 50


@pytest.mark.parametrize("queue", [INBOX, QUEUE])
async def test_the_largest_letter_travels_and_one_that_is_larger_is_refused_with_all_that_came_with_it(
    opened: Opens, queue: str
) -> None:
    async with opened() as bus, bus.consume(queue, 100) as consumer:
        assert bus.largest == LARGEST_BODY < 16 * 1024**2
        assert bus.largest_request == LARGEST_REQUEST
        most = LARGEST_BODY if queue == INBOX else LARGEST_REQUEST
        larger = BusMessage("draft.critiqued.v1", bytes(most + 1), Origin("large", "judge"))
        with pytest.raises(MessageTooLarge, match=rf"draft.critiqued.v1 for {queue}: {most + 1:,} bytes"):
            await bus.publish(queue, [bus_message(1), larger])
        largest = BusMessage("draft.critiqued.v1", bytes(most), Origin("large", "judge"))
        await bus.publish(queue, [largest, bus_message(2)])
        taken = await take_exactly(consumer, 2)
        assert [each.bus_message for each in taken] == [largest, bus_message(2)]
        assert not await dead_letters_on(bus)
        await consumer.ack(taken)


async def test_a_letter_above_what_brokers_take_comes_whole_as_often_as_it_has_to(opened: Opens) -> None:
    body = random.Random(3).randbytes(LARGEST_BODY + 5_000_000)
    large = BusMessage("draft.critique.v1", body, Origin("large", "relay"), "r")
    async with opened() as bus:
        await bus.publish(QUEUE, [bus_message(1), large, bus_message(2)])
        async with bus.consume(QUEUE, 100) as gone:
            taken = await take_exactly(gone, 3)
            assert taken[1].bus_message == large
            await gone.ack(taken[:1])
        async with bus.consume(QUEUE, 100) as consumer:
            again = await take_exactly(consumer, 2)
            assert [each.bus_message for each in again] == [large, bus_message(2)]
            assert [each.count for each in again] == [2, 2]
            await consumer.reject(again[0], requeue=True)
            (third,) = await take_exactly(consumer, 1)
            assert (third.bus_message, third.count) == (large, 3)
            await consumer.reject(third, requeue=False, reason="to see it")
            (dead,) = await dead_letters_on(bus)
            assert await bus.retry(dead.id)
            (fourth,) = await take_exactly(consumer, 1)
            assert fourth.bus_message.body == body
            await consumer.ack([again[1], fourth])
        async with bus.consume(QUEUE, 100) as rest:
            await bus.publish(QUEUE, [bus_message(3)])
            assert numbers(await take_exactly(rest, 1)) == [3]


async def test_letters_wait_for_the_first_consumer_and_stay_in_their_queue(opened: Opens) -> None:
    async with opened() as bus:
        await bus.publish(QUEUE, [bus_message(1)])
        await bus.publish(INBOX, [bus_message(2)])
        async with bus.consume(INBOX, 5) as inbox, bus.consume(QUEUE, 5) as work:
            assert numbers(await inbox.take(5)) == [2]
            assert numbers(await work.take(5)) == [1]


@pytest.mark.parametrize("body", BODIES, ids=len)
async def test_a_letter_arrives_as_it_was_sent(opened: Opens, body: bytes) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    origin = Origin("ид-1", "Prüfer 京都", "cause ✓", "начало", trace)
    sent = BusMessage("черновик.geprüft.v1", body, origin, "прогон №7")
    queue = work_queue("critic", "prüfer-京都")
    async with opened() as bus, bus.consume(queue, 2) as consumer:
        await bus.publish(queue, [sent, BusMessage("a", b"b", Origin("c", "d"))])
        first, second = await take_exactly(consumer, 2)
        assert replace(first, waited=False, user="") == Delivery(sent, queue, first.tag, 1)
        assert second.bus_message == BusMessage("a", b"b", Origin("c", "d"), "")


async def test_consumers_compete_and_none_gets_more_than_its_share(opened: Opens) -> None:
    """50 consumers that may hold one message each take from 50 messages at once: each must get one."""
    async with opened() as bus:

        async def take_one() -> Delivery:
            async with bus.consume(QUEUE, 1) as consumer:
                (delivery,) = await consumer.take(10)
                await everybody_has_one.wait()
                await consumer.ack([delivery])
                return delivery

        everybody_has_one = asyncio.Barrier(50)
        taking = [asyncio.create_task(take_one()) for _ in range(50)]
        await bus.publish(QUEUE, bus_messages(50))
        assert sorted(numbers(await asyncio.gather(*taking))) == list(range(1, 51))


async def test_prefetch_bounds_what_is_not_settled(opened: Opens) -> None:
    async with opened() as bus, bus.consume(QUEUE, 3) as first, bus.consume(QUEUE, 2) as second:
        await bus.publish(QUEUE, bus_messages(5))
        held = await take_exactly(first, 3)
        others = await take_exactly(second, 2)
        assert sorted(numbers(held) + numbers(others)) == [1, 2, 3, 4, 5]
        await bus.publish(QUEUE, [bus_message(6)])
        waiting = asyncio.create_task(first.take(3))
        async with bus.consume(QUEUE, 1) as third:  # the sixth is free, so `first` did not get it
            assert numbers(await third.take(3)) == [6]
            assert not waiting.done()
            await first.ack(held[:1])
            await bus.publish(QUEUE, [bus_message(7)])
            assert numbers(await waiting) == [7]


async def test_what_is_settled_does_not_come_back(opened: Opens) -> None:
    async with opened() as bus:
        await bus.publish(QUEUE, bus_messages(10))
        async with bus.consume(QUEUE, 10) as consumer:
            taken = await take_exactly(consumer, 10)
            await consumer.ack(taken[2:9])
            await consumer.ack([taken[0], taken[4]])
            await consumer.ack([])
        async with bus.consume(QUEUE, 10) as consumer:
            assert numbers(await take_exactly(consumer, 2)) == [2, 10]


@pytest.mark.parametrize("prefetch", [1, 10])
@pytest.mark.parametrize("death", [Crash, asyncio.CancelledError])
async def test_the_letters_of_a_dead_consumer_are_delivered_again(
    opened: Opens, death: type[BaseException], prefetch: int
) -> None:
    """They come before those that were never delivered, unless these were sent ahead."""
    async with opened() as bus:
        holding = asyncio.Event()

        async def die() -> None:
            async with bus.consume(QUEUE, 4) as consumer:
                taken = await take_exactly(consumer, 4)
                await consumer.ack(taken[1:2])
                holding.set()
                if death is Crash:
                    raise Crash
                await asyncio.Event().wait()

        await bus.publish(QUEUE, bus_messages(6))
        dying = asyncio.create_task(die())
        await holding.wait()
        if death is not Crash:
            dying.cancel()
        with pytest.raises(death):
            await dying
        async with bus.consume(QUEUE, prefetch) as consumer:
            again: list[Delivery] = []
            while len(again) < 5:
                again += await consumer.take(5)
                await consumer.ack(again)
            counts = [(int(delivery.bus_message.body), delivery.count) for delivery in again]
            assert (counts if prefetch == 1 else sorted(counts)) == [(1, 2), (3, 2), (4, 2), (5, 1), (6, 1)]


async def test_a_letter_given_back_comes_before_those_that_wait(opened: Opens) -> None:
    async with opened() as bus, bus.consume(QUEUE, 1) as consumer:
        await bus.publish(QUEUE, bus_messages(3))
        (first,) = await consumer.take(1)
        taking = asyncio.create_task(consumer.take(1))
        await asyncio.sleep(0)
        await consumer.reject(first, requeue=True, reason="not now")
        taken = [*await taking]
        while len(taken) < 3:
            await consumer.ack(taken[-1:])
            taken += await consumer.take(1)
        assert [(int(one.bus_message.body), one.count) for one in taken] == [(1, 2), (2, 1), (3, 1)]


async def test_what_is_settled_already_is_passed_over(opened: Opens) -> None:
    async with opened() as bus:
        async with bus.consume(QUEUE, 1) as consumer:
            await bus.publish(QUEUE, bus_messages(2))
            (old,) = await consumer.take(1)
            await consumer.reject(old, requeue=True)
            (new,) = await consumer.take(1)
            await consumer.ack([old])  # speaks of the first delivery, which came back: the second is still open
            await consumer.reject(old, requeue=False, reason="too late")
            assert (new.bus_message, new.count) == (bus_message(1), 2)
        async with bus.consume(QUEUE, 1) as consumer:
            (third,) = await consumer.take(1)
            assert (third.bus_message, third.count) == (bus_message(1), 3)
            await consumer.ack([third])
            await consumer.ack([third, third])
            await consumer.reject(third, requeue=True)
            assert numbers(await consumer.take(1)) == [2]
        assert list(await dead_letters_on(bus)) == []


async def test_a_refused_letter_is_dead_lettered_with_its_reason(opened: Opens) -> None:
    async with opened() as bus, bus.consume(QUEUE, 3) as consumer:
        await bus.publish(QUEUE, bus_messages(3))
        first, second, third = await take_exactly(consumer, 3)
        await consumer.reject(second, requeue=False, reason="kein JSON: Zeile 1, „ö“")
        await dead_letters_when(bus, lambda n: n == 1)
        await consumer.reject(first, requeue=False, reason="unknown name")
        dead_letters = await dead_letters_when(bus, lambda n: n == 2)
        assert [(one.bus_message, one.queue) for one in dead_letters] == [
            (bus_message(2), QUEUE),
            (bus_message(1), QUEUE),
        ]
        assert [one.reason for one in dead_letters] == ["kein JSON: Zeile 1, „ö“", "unknown name"]
        assert len({one.id for one in dead_letters}) == 2
        await consumer.ack([third])
        await bus.publish(QUEUE, [bus_message(4)])
        assert numbers(await consumer.take(3)) == [4]


async def test_a_dead_lettered_letter_is_retried_as_if_it_were_new(opened: Opens) -> None:
    async with opened(delivery_limit=2) as bus, bus.consume(QUEUE, 5) as consumer:
        await bus.publish(QUEUE, bus_messages(3))
        for delivery in await take_exactly(consumer, 3):
            await consumer.reject(delivery, requeue=False, reason="the judge is ill")
        first, second, third = await dead_letters_when(bus, lambda n: n == 3)
        assert list(await dead_letters_on(bus)) == [first, second, third], "looking changes nothing"
        assert await bus.retry(second.id) is True
        assert await bus.retry(second.id) is False
        assert await bus.retry("nobody") is False
        assert list(await dead_letters_on(bus)) == [first, third]
        for expected in [1, 2]:
            (again,) = await consumer.take(5)
            assert (again.bus_message, again.queue, again.count) == (bus_message(2), QUEUE, expected)
            await consumer.reject(again, requeue=True, reason="still ill")
        dead_letters = await dead_letters_when(bus, lambda n: n == 3)
        assert [one.bus_message for one in dead_letters] == [bus_message(1), bus_message(3), bus_message(2)]


async def test_a_discarded_letter_is_gone(opened: Opens) -> None:
    async with opened() as bus, bus.consume(QUEUE, 20) as consumer:
        await bus.publish(QUEUE, bus_messages(20))
        dead_letters = await park(bus, consumer, await take_exactly(consumer, 20))
        assert [one.bus_message for one in dead_letters] == bus_messages(20)
        assert await bus.discard(dead_letters[4].id) is True
        assert await bus.discard(dead_letters[4].id) is False
        assert await bus.retry(dead_letters[4].id) is False
        assert await bus.discard("nobody") is False
        assert list(await dead_letters_on(bus)) == [*dead_letters[:4], *dead_letters[5:]]


async def test_all_that_is_dead_lettered_is_retried_or_discarded_at_once(opened: Opens) -> None:
    async with opened() as bus, bus.consume(QUEUE, 20) as consumer:
        await bus.publish(QUEUE, bus_messages(20))
        dead_letters = await park(bus, consumer, await take_exactly(consumer, 20))
        assert await bus.retry_all() == [each.id for each in dead_letters]
        again = await take_exactly(consumer, 20)
        assert [(each.bus_message, each.count) for each in again] == [(each, 1) for each in bus_messages(20)]
        dead_letters = await park(bus, consumer, again)
        assert await bus.discard_all() == [each.id for each in dead_letters]
        assert list(await dead_letters_on(bus)) == []
        assert (await bus.retry_all(), await bus.discard_all()) == ([], [])


async def test_looking_keeps_the_order_of_many_dead_lettered_letters(opened: Opens) -> None:
    number = 600
    async with opened() as bus, bus.consume(QUEUE, number) as consumer:
        await bus.publish(QUEUE, bus_messages(number))
        dead_letters = await park(bus, consumer, await take_exactly(consumer, number))
        assert [one.bus_message for one in dead_letters] == bus_messages(number)
        assert await bus.discard(dead_letters[40].id) is True
        assert list(await dead_letters_on(bus)) == [*dead_letters[:40], *dead_letters[41:]]
        assert list(await dead_letters_on(bus)) == [*dead_letters[:40], *dead_letters[41:]]


async def test_several_look_at_what_is_dead_lettered_at_once_and_each_sees_all(opened: Opens) -> None:
    async with opened() as bus, bus.consume(QUEUE, 9) as consumer:
        await bus.publish(QUEUE, bus_messages(9))
        for delivery in await take_exactly(consumer, 9):
            await consumer.reject(delivery, requeue=False)
        dead_letters = await dead_letters_when(bus, lambda n: n == 9)
        looks = [dead_letters_on(bus) for _ in range(5)]
        gone, retried, *seen = await asyncio.gather(
            bus.discard(dead_letters[0].id), bus.retry(dead_letters[8].id), *looks
        )
        assert (gone, retried) == (True, True)
        assert all(set(look) >= set(dead_letters[1:8]) for look in seen)
        assert list(await dead_letters_on(bus)) == list(dead_letters[1:8])
        assert numbers(await consumer.take(9)) == [9]


async def test_a_letter_rejected_too_often_is_dead_lettered(opened: Opens) -> None:
    async with opened(delivery_limit=3) as bus, bus.consume(QUEUE, 1) as consumer:
        await bus.publish(QUEUE, bus_messages(2))
        for expected in [1, 2, 3]:
            (delivery,) = await consumer.take(1)
            assert (delivery.bus_message, delivery.count) == (bus_message(1), expected)
            await consumer.reject(delivery, requeue=True, reason="the judge is asleep")
        assert numbers(await consumer.take(1)) == [2]
        (dead_letter,) = await dead_letters_when(bus, lambda n: n == 1)
        assert (dead_letter.bus_message, dead_letter.queue, bool(dead_letter.reason)) == (bus_message(1), QUEUE, True)


async def test_a_letter_that_was_left_too_often_is_dead_lettered(opened: Opens) -> None:
    async with opened(delivery_limit=3) as bus:
        await bus.publish(QUEUE, bus_messages(2))
        for expected in [1, 2, 3]:
            async with bus.consume(QUEUE, 1) as consumer:
                (delivery,) = await consumer.take(1)
                assert (delivery.bus_message, delivery.count) == (bus_message(1), expected)
        async with bus.consume(QUEUE, 1) as consumer:
            assert numbers(await consumer.take(1)) == [2]
        (dead_letter,) = await dead_letters_when(bus, lambda n: n == 1)
        assert (dead_letter.bus_message, dead_letter.queue, bool(dead_letter.reason)) == (bus_message(1), QUEUE, True)


@pytest.mark.parametrize("seed", range(3))
async def test_a_cancelled_take_loses_nothing(opened: Opens, seed: int) -> None:
    random = Random(seed)
    got: list[Delivery] = []
    async with opened() as bus, bus.consume(QUEUE, 5) as consumer:
        for number in range(1, 201):
            taking = asyncio.create_task(consumer.take(5))
            await some_turns(random)
            await bus.publish(QUEUE, [bus_message(number)])
            await some_turns(random)
            taking.cancel()
            with suppress(asyncio.CancelledError):
                got += await taking
                await consumer.ack(got[-5:])
        while len(got) < 200:
            got += await consumer.take(5)
            await consumer.ack(got[-5:])
    assert numbers(got) == list(range(1, 201))
    assert {delivery.count for delivery in got} == {1}


async def test_a_full_queue_makes_the_publisher_wait_and_go_on(opened: Opens) -> None:
    taken: list[Delivery] = []
    taken_when_done: list[int] = []
    async with opened(capacity=10) as bus:
        publishing = asyncio.create_task(bus.publish(QUEUE, bus_messages(400)))
        publishing.add_done_callback(lambda _: taken_when_done.append(len(taken)))
        async with bus.consume(QUEUE, 5) as consumer:
            while len(taken) < 400:
                taken += await consumer.take(5)
                await consumer.ack(taken[-5:])
            await publishing
    assert numbers(taken) == list(range(1, 401))
    assert taken_when_done[0] >= 200, "the publisher went on while the queue was full"


async def test_closing_wakes_everybody_who_waits(opened: Opens) -> None:
    async with opened(capacity=1) as bus:
        await bus.publish(INBOX, [bus_message(1)])
        async with bus.consume(QUEUE, 1) as full, bus.consume(QUEUE, 1) as idle:
            await bus.publish(QUEUE, [bus_message(2)])
            await full.take(1)
            waits = [idle.take(1), full.take(1), bus.publish(INBOX, bus_messages(100))]
            waiting = asyncio.gather(*waits, return_exceptions=True)
            await asyncio.sleep(0)
            await bus.close()
            ends = await waiting
            assert [type(end) for end in ends] == [BusError] * 3


async def test_a_closed_bus_refuses_everything(opened: Opens) -> None:
    async with opened() as bus:
        await bus.publish(QUEUE, [bus_message(1)])
        async with bus.consume(QUEUE, 5) as consumer:
            (delivery,) = await consumer.take(1)
            await bus.close()
            await bus.close()
            refused: list[Callable[[], Awaitable[object]]] = [
                lambda: consumer.take(1),
                lambda: consumer.ack([delivery]),
                lambda: consumer.reject(delivery, requeue=True),
                lambda: bus.publish(QUEUE, [bus_message(2)]),
                lambda: dead_letters_on(bus),
                lambda: bus.retry("1"),
                lambda: bus.discard("1"),
                bus.consume(QUEUE, 1).__aenter__,
            ]
            for call in refused:
                with pytest.raises(BusError):
                    await call()


async def test_a_letter_is_given_back_right_after_those_around_it_were_acknowledged(opened: Opens) -> None:
    """What ends several letters at once must not reach the server before the return of one among them."""
    async with opened() as bus, bus.consume(QUEUE, 3) as consumer:
        await bus.publish(QUEUE, bus_messages(6))
        await consumer.ack(await take_exactly(consumer, 3))
        first, second, third = await take_exactly(consumer, 3)
        more = asyncio.create_task(consumer.take(1))
        await asyncio.sleep(0)  # acknowledgements are sent at once for a reader that waits
        await consumer.ack([first, third])
        await consumer.reject(second, requeue=True)
        assert numbers(await more) == [5]


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.check) for seed in range(2, 5))])
async def test_nothing_is_lost_or_doubled_when_consumers_die_at_random(opened: Opens, seed: int) -> None:
    """50 consumers that ack, reject, crash and are cancelled: each message ends once, each delivery counts higher."""
    random = Random(seed)
    total, limit = 500, 6
    seen: defaultdict[str, list[int]] = defaultdict(list)
    acked: list[str] = []
    settling: set[int] = set()  # a consumer that is killed while it settles cannot know whether it did

    async def live(bus: Bus, number: int) -> None:
        async with bus.consume(QUEUE, random.randint(1, 8)) as consumer:
            while True:
                taken = await consumer.take(random.randint(1, 8))
                for delivery in taken:
                    seen[delivery.bus_message.origin.id].append(delivery.count)
                await some_turns(random)
                settling.add(number)
                await settle(consumer, taken)
                settling.discard(number)
                if random.random() < 0.1:
                    raise Crash

    async def settle(consumer: Consumer, taken: Sequence[Delivery]) -> None:
        done = [delivery for delivery in taken if random.random() < 0.8]
        await consumer.ack(done)
        acked.extend(delivery.bus_message.origin.id for delivery in done)
        for delivery in taken:
            if delivery not in done and random.random() < 0.8:  # the others are kept until the consumer dies
                await consumer.reject(delivery, requeue=random.random() < 0.9, reason="a bad day")
        if len(done) < len(taken):
            raise Crash

    async def live_on(bus: Bus, number: int) -> None:
        while True:
            settling.discard(number)
            with suppress(Crash):
                await live(bus, number)

    async with opened(capacity=40, delivery_limit=limit) as bus:
        publishing = asyncio.create_task(bus.publish(QUEUE, bus_messages(total)))
        living = {number: asyncio.create_task(live_on(bus, number)) for number in range(50)}
        for _ in range(60):
            await asyncio.sleep(0)
            if victims := [number for number in living if number not in settling]:
                victim = random.choice(victims)
                living[victim].cancel()
                with pytest.raises(asyncio.CancelledError):
                    await living[victim]
                living[victim] = asyncio.create_task(live_on(bus, victim))
        await publishing
        dead_letters = await dead_letters_when(bus, lambda n: len(acked) + n >= total)
        for task in living.values():
            task.cancel()
        ends = await asyncio.gather(*living.values(), return_exceptions=True)
        assert {type(end) for end in ends} == {asyncio.CancelledError}

    assert sorted(acked + [one.bus_message.origin.id for one in dead_letters]) == sorted(
        one.origin.id for one in bus_messages(total)
    )
    assert all(one.bus_message == bus_message(int(one.bus_message.body)) and one.reason for one in dead_letters)
    assert all(found == sorted(set(found)) and found[-1] <= limit for found in seen.values())
    assert any(len(found) > 1 for found in seen.values()), (
        "nobody died while holding a message: the test tested nothing"
    )


async def test_letters_of_very_different_sizes_come_once_and_in_order(opened: Opens) -> None:
    """How many a server sends ahead depends on their sizes."""
    random = Random(5)
    sizes = [random.choice((10, 10, 10, 3_000_000)) if 100 < number < 160 else 10 for number in range(400)]
    sent = [replace(bus_message(number), body=b"%d " % number + bytes(size)) for number, size in enumerate(sizes)]
    async with opened() as bus:
        await bus.publish(QUEUE, sent)
        came: list[int] = []
        async with bus.consume(QUEUE, 300) as consumer:
            while len(came) < len(sent):
                taken = await consumer.take(50)
                came += [int(delivery.bus_message.body.split()[0]) for delivery in taken]
                await some_turns(random)
                await consumer.ack(taken)
    assert came == list(range(len(sent)))
