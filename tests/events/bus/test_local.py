"""What only the bus of one process promises: exact order, exact counts, exact bounds, and turns that are never lost."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dead_letters import dead_letters_on

from redraft.events.bus.local import LARGEST, LocalBus
from redraft.events.bus.port import DELIVERY_LIMIT, INBOX, BusMessage, Consumer, Delivery
from redraft.events.errors import BusError, InputError, MessageTooLarge
from redraft.events.messages.envelope import Origin

QUEUE = "redraft.critic.judge"


@asynccontextmanager
async def local(
    *, capacity: int = 10_000, delivery_limit: int = DELIVERY_LIMIT, largest: int = LARGEST
) -> AsyncIterator[LocalBus]:
    """A bus, and 30 seconds: a test that waits in vain fails."""
    async with asyncio.timeout(30), LocalBus(capacity=capacity, delivery_limit=delivery_limit, largest=largest) as bus:
        yield bus


def bus_messages(first: int, last: int) -> list[BusMessage]:
    return [BusMessage("n", b"%d" % number, Origin("i", "a")) for number in range(first, last + 1)]


def numbers(deliveries: Sequence[Delivery]) -> list[int]:
    return [int(delivery.bus_message.body) for delivery in deliveries]


async def turns() -> None:
    """Lets everybody run who can, as often as the longest chain of wakings in these tests needs."""
    for _ in range(20):
        await asyncio.sleep(0)


async def cancel(task: asyncio.Task[None] | asyncio.Task[Sequence[Delivery]]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_queue_holds_its_capacity_and_no_more() -> None:
    async with local(capacity=10) as bus, bus.consume(QUEUE, 1000) as consumer:
        publishing = [
            asyncio.create_task(bus.publish(QUEUE, bus_messages(first, first + 24))) for first in range(1, 500, 25)
        ]
        await turns()
        got: list[int] = []
        for _ in range(50):
            assert [task.done() for task in publishing] == [len(got) + 10 >= 25 * n for n in range(1, 21)]
            taken = await consumer.take(1000)
            assert len(taken) == 10
            got += numbers(taken)
            await turns()
        assert got == list(range(1, 501))


async def test_publishers_that_wait_are_served_in_the_order_they_came() -> None:
    async with local(capacity=2) as bus, bus.consume(QUEUE, 10) as consumer:
        await bus.publish(QUEUE, bus_messages(1, 2))
        publishing = [asyncio.create_task(bus.publish(QUEUE, bus_messages(n, n))) for n in range(3, 7)]
        await turns()
        for expected in range(1, 7):
            assert [task.done() for task in publishing] == [n < expected + 2 for n in range(3, 7)]
            assert numbers(await consumer.take(1)) == [expected]
            await turns()


async def test_a_cancelled_publisher_has_put_the_first_of_its_letters_and_puts_no_more() -> None:
    async with local(capacity=2) as bus, bus.consume(QUEUE, 100) as consumer:
        half = asyncio.create_task(bus.publish(QUEUE, bus_messages(1, 4)))
        none = asyncio.create_task(bus.publish(QUEUE, bus_messages(5, 8)))
        behind = asyncio.create_task(bus.publish(QUEUE, bus_messages(9, 10)))
        await turns()
        await cancel(none)
        half.cancel()  # and room is made before it hears of it
        assert numbers(await consumer.take(2)) == [1, 2]
        assert numbers(await consumer.take(2)) == [9, 10]
        await behind
        with pytest.raises(asyncio.CancelledError):
            await half
        await bus.publish(QUEUE, bus_messages(11, 11))
        assert numbers(await consumer.take(9)) == [11]


async def test_a_publisher_cancelled_with_room_just_made_has_put_all() -> None:
    async with local(capacity=1) as bus, bus.consume(QUEUE, 100) as consumer:
        publishing = asyncio.create_task(bus.publish(QUEUE, bus_messages(1, 2)))
        await turns()
        assert numbers(await consumer.take(9)) == [1]
        await cancel(publishing)
        assert numbers(await consumer.take(9)) == [2]


async def test_what_is_offered_is_put_at_once_or_not_at_all() -> None:
    async with local(capacity=3, largest=100) as bus, bus.consume(QUEUE, 10) as consumer:
        waiting = asyncio.create_task(consumer.take(10))
        await turns()
        assert bus.offer(QUEUE, bus_messages(1, 2))
        assert numbers(await waiting) == [1, 2]
        assert bus.offer(QUEUE, bus_messages(3, 4))
        assert not bus.offer(QUEUE, bus_messages(5, 6)), "there is room for one of them"
        assert bus.offer(QUEUE, bus_messages(7, 7))
        assert numbers(await consumer.take(10)) == [3, 4, 7]
        with pytest.raises(MessageTooLarge):
            bus.offer(QUEUE, [BusMessage("n", b"x" * (bus.largest + 1), Origin("i", "a"))])
    with pytest.raises(BusError):
        bus.offer(QUEUE, bus_messages(8, 8))


@pytest.mark.check
async def test_nothing_is_kept_of_those_who_gave_up_or_left() -> None:
    def alive(kind: type) -> int:
        return sum(issubclass(type(thing), kind) for thing in gc.get_objects())

    (waiting,) = bus_messages(2, 2)
    async with local(capacity=1) as bus:
        await bus.publish(QUEUE, bus_messages(1, 1))
        async with bus.consume("another", 1) as consumer:
            references, futures, consumers = sys.getrefcount(waiting), alive(asyncio.Future), alive(type(consumer))
            for _ in range(50):
                publishing = asyncio.create_task(bus.publish(QUEUE, [waiting]))
                taking = asyncio.create_task(consumer.take(1))
                await turns()
                await cancel(publishing)
                await cancel(taking)
                async with bus.consume("a third", 1):
                    pass
            assert sys.getrefcount(waiting) < references + 10  # the last tasks and their errors are still here
            assert alive(asyncio.Future) < futures + 10
            assert alive(type(consumer)) < consumers + 10


@pytest.mark.parametrize("first_to_leave", [0, 1])
async def test_what_comes_back_takes_its_old_place_whoever_leaves_first(first_to_leave: int) -> None:
    async with local() as bus, AsyncExitStack() as rest:
        stacks = [AsyncExitStack(), AsyncExitStack()]
        one, two = [await stack.enter_async_context(bus.consume(QUEUE, 4)) for stack in stacks]
        await bus.publish(QUEUE, bus_messages(1, 7))
        assert [numbers(await consumer.take(2)) for consumer in (one, two, one)] == [[1, 2], [3, 4], [5, 6]]
        await stacks[first_to_leave].aclose()
        await stacks[1 - first_to_leave].aclose()
        again = await (await rest.enter_async_context(bus.consume(QUEUE, 9))).take(9)
        assert numbers(again) == [1, 2, 3, 4, 5, 6, 7]
        assert [delivery.count for delivery in again] == [2, 2, 2, 2, 2, 2, 1]


async def test_what_comes_back_may_take_a_queue_above_its_capacity() -> None:
    async with local(capacity=2) as bus, bus.consume(QUEUE, 9) as other:
        async with bus.consume(QUEUE, 9) as consumer:
            await bus.publish(QUEUE, bus_messages(1, 2))
            await consumer.take(2)
            publishing = asyncio.create_task(bus.publish(QUEUE, bus_messages(3, 5)))
            await turns()
        assert numbers(await other.take(2)) == [1, 2]
        await turns()
        assert not publishing.done()
        assert numbers(await other.take(9)) == [3, 4]
        await publishing
        assert numbers(await other.take(9)) == [5]


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_turn_of_a_cancelled_take_goes_to_the_next(cancelled_first: bool) -> None:
    async with local() as bus, bus.consume(QUEUE, 1) as one, bus.consume(QUEUE, 1) as two:
        first, second = asyncio.create_task(one.take(1)), asyncio.create_task(two.take(1))
        await turns()
        if cancelled_first:
            first.cancel()
        await bus.publish(QUEUE, bus_messages(1, 1))
        first.cancel()
        assert numbers(await second) == [1]


async def test_a_letter_given_back_wakes_who_is_idle() -> None:
    async with local() as bus, bus.consume(QUEUE, 1) as one, bus.consume(QUEUE, 1) as two:
        await bus.publish(QUEUE, bus_messages(1, 1))
        (delivery,) = await one.take(1)
        taking = asyncio.create_task(two.take(1))
        await turns()
        await one.reject(delivery, requeue=True)
        assert [one.count for one in await taking] == [2]


async def test_a_turn_given_to_a_consumer_that_is_full_goes_to_the_next() -> None:
    async with local() as bus, bus.consume(QUEUE, 1) as one, bus.consume(QUEUE, 1) as two:
        taking = [asyncio.create_task(consumer.take(1)) for consumer in (one, one, two)]
        await turns()
        await bus.publish(QUEUE, bus_messages(1, 2))
        assert numbers(await taking[0]) == [1]
        assert numbers(await taking[2]) == [2]
        assert not taking[1].done()
        await bus.publish(QUEUE, bus_messages(3, 3))
        await one.ack(taking[0].result())
        assert numbers(await taking[1]) == [3]


@pytest.mark.parametrize("published_first", [True, False])
async def test_a_consumer_that_left_takes_nothing_and_keeps_nobody_waiting(published_first: bool) -> None:
    async with local() as bus, bus.consume(QUEUE, 1) as staying:
        async with bus.consume(QUEUE, 1) as leaving:
            taking, other = asyncio.create_task(leaving.take(1)), asyncio.create_task(staying.take(1))
            await turns()
            if published_first:
                await bus.publish(QUEUE, bus_messages(1, 1))
        if not published_first:
            await bus.publish(QUEUE, bus_messages(1, 1))
        with pytest.raises(BusError, match=r"left redraft\.critic\.judge"):
            await taking
        assert numbers(await other) == [1]


async def test_a_consumer_that_left_settles_nothing() -> None:
    async with local() as bus:
        async with bus.consume(QUEUE, 1) as leaving:
            await bus.publish(QUEUE, bus_messages(1, 1))
            (held,) = await leaving.take(1)
            taking = asyncio.create_task(leaving.take(1))
            await turns()
        for call in (taking, leaving.take(1), leaving.ack([held]), leaving.reject(held, requeue=True)):
            with pytest.raises(BusError, match=r"left redraft\.critic\.judge"):
                await call
        async with bus.consume(QUEUE, 1) as consumer:
            assert [one.count for one in await consumer.take(1)] == [2]


async def test_full_dead_letter_queue_refuses_and_the_letter_stays_where_it_was() -> None:
    async with local(capacity=2, delivery_limit=1) as bus:
        async with bus.consume(QUEUE, 9) as consumer:
            await bus.publish(QUEUE, bus_messages(1, 2))
            one, two = await consumer.take(9)
            await bus.publish(QUEUE, bus_messages(3, 4))
            three, four = await consumer.take(9)
            await consumer.reject(one, requeue=False, reason="bad")
            await consumer.reject(two, requeue=True, reason="worse")
            for requeue in (False, True):
                with pytest.raises(BusError, match=r"cannot keep n from redraft\.critic\.judge .*there are 2 already"):
                    await consumer.reject(three, requeue=requeue, reason="worst")
            await consumer.ack([four])
        dead_letters = [(int(one.bus_message.body), one.reason) for one in await dead_letters_on(bus)]
        assert dead_letters == [(1, "bad"), (2, "delivered 1 times, the last time: worse")]
        async with bus.consume(QUEUE, 9) as consumer:
            (again,) = await consumer.take(9)
            assert (numbers([again]), again.count) == ([3], 2)
            await consumer.ack([again])


async def test_what_its_coordinator_leaves_in_the_inbox_is_delivered_again_however_often() -> None:
    async with local(delivery_limit=2) as bus:
        await bus.publish(INBOX, bus_messages(1, 2))
        for expected in range(1, 6):
            async with bus.consume(INBOX, 9) as consumer:
                taken = await consumer.take(9)
                assert (numbers(taken), {each.count for each in taken}) == ([1, 2], {expected})
        assert await dead_letters_on(bus) == []


async def test_the_reason_of_what_is_dead_lettered_is_never_empty() -> None:
    async with local(delivery_limit=2) as bus:
        await bus.publish(QUEUE, bus_messages(1, 2))
        for _ in range(2):
            async with bus.consume(QUEUE, 9) as consumer:
                await consumer.reject((await consumer.take(9))[0], requeue=False)
        assert [one.reason for one in await dead_letters_on(bus)] == ["rejected", "rejected"]
        await bus.publish(QUEUE, bus_messages(3, 3))
        for _ in range(2):
            async with bus.consume(QUEUE, 9) as consumer:
                await consumer.take(9)
        *_, last = await dead_letters_on(bus)
        assert last.reason == "delivered 2 times, the last time: its consumer left before it was settled"


async def test_numbers_below_one_are_refused() -> None:
    async def use(prefetch: int = 1, limit: int = 1, **options: int) -> None:
        async with local(**options) as bus, bus.consume(QUEUE, prefetch) as consumer:
            await consumer.take(limit)

    bad = {
        "prefetch is 0": use(prefetch=0),
        "limit is -1": use(limit=-1),
        "capacity is 0": use(capacity=0),
        "delivery_limit is 0": use(delivery_limit=0),
    }
    for message, doing in bad.items():
        with pytest.raises(InputError, match=f"{message}: it must be at least 1"):
            await doing


async def test_a_bus_that_is_closed_is_not_opened_again_and_says_what_it_did_not_take() -> None:
    bus = LocalBus(capacity=1)
    publishing = asyncio.create_task(bus.publish(QUEUE, bus_messages(1, 3)))
    await turns()
    await bus.close()
    with pytest.raises(BusError, match=r"before 2 messages found room in redraft\.critic\.judge"):
        await publishing
    with pytest.raises(BusError, match="closed"):
        await bus.__aenter__()


Doing: TypeAlias = Literal["publish", "take", "ack", "requeue", "dead-letter", "leave"]
Act: TypeAlias = tuple[Doing, int, int]
Held: TypeAlias = tuple[int, int]

CAPACITY, PREFETCH, LIMIT = 5, 4, 3


class Model:
    """The bus as a reader of its documentation would write it down: plain lists, messages as (number, count)."""

    def __init__(self) -> None:
        self.published = 0
        self.ready: list[Held] = []
        self.waiting: deque[int] = deque()
        self.held: dict[int, list[Held]] = {0: [], 1: [], 2: []}
        self.dead_letters: list[int] = []

    def admit(self) -> None:
        while self.waiting and len(self.ready) < CAPACITY:
            self.ready.append((self.waiting.popleft(), 1))

    def publish(self, amount: int) -> list[BusMessage]:
        first, self.published = self.published + 1, self.published + amount
        self.waiting.extend(range(first, self.published + 1))
        self.admit()
        return bus_messages(first, self.published)

    def take(self, who: int, most: int) -> list[Held]:
        most = min(most, PREFETCH - len(self.held[who]))
        taken, self.ready = self.ready[:most], self.ready[most:]
        self.held[who] += taken
        self.admit()
        return taken

    def leave(self, who: int) -> None:
        for number, count in self.held[who]:
            if count >= LIMIT and len(self.dead_letters) < CAPACITY:
                self.dead_letters.append(number)
            else:
                self.ready = sorted([*self.ready, (number, count + 1)])
        self.held[who].clear()

    def reject(self, who: int, held: Held, requeue: bool) -> bool:
        """False when the bus must refuse: the message has to become a dead letter, and their queue is full."""
        number, count = held
        refused = not requeue or count >= LIMIT
        if refused and len(self.dead_letters) == CAPACITY:
            return False
        self.held[who].remove(held)
        if refused:
            self.dead_letters.append(number)
        else:
            self.ready = sorted([*self.ready, (number, count + 1)])
        return True


async def replay(acts: list[Act]) -> None:
    """Does the acts on the bus and on the model, and compares after each."""
    model, publishing = Model(), []
    deliveries: dict[Held, Delivery] = {}
    async with local(capacity=CAPACITY, delivery_limit=LIMIT) as bus, AsyncExitStack() as all_of_them:
        stacks: dict[int, AsyncExitStack] = {}
        consumers: dict[int, Consumer] = {}

        async def enter(who: int) -> None:
            stacks[who] = await all_of_them.enter_async_context(AsyncExitStack())
            consumers[who] = await stacks[who].enter_async_context(bus.consume(QUEUE, PREFETCH))

        async def take(who: int, most: int) -> None:
            if model.ready and len(model.held[who]) < PREFETCH:
                expected = model.take(who, most)
                taken = await consumers[who].take(most)
                assert [(int(one.bus_message.body), one.count) for one in taken] == expected
                deliveries.update(zip(expected, taken, strict=True))

        for who in model.held:
            await enter(who)
        for doing, who, amount in acts:
            mine = model.held[who]
            match doing:
                case "publish":
                    publishing.append(asyncio.create_task(bus.publish(QUEUE, model.publish(amount))))
                case "take":
                    await take(who, amount)
                case "ack":
                    await consumers[who].ack([deliveries[held] for held in mine[:amount]])
                    del mine[:amount]
                case "leave":
                    await stacks[who].aclose()
                    model.leave(who)
                    await enter(who)
                case "requeue" | "dead-letter" if mine:
                    held = mine[amount % len(mine)]
                    fits = model.reject(who, held, doing == "requeue")
                    with nullcontext() if fits else pytest.raises(BusError, match="cannot keep"):
                        await consumers[who].reject(deliveries[held], requeue=doing == "requeue")
                case _:
                    pass
            await turns()
            assert [int(one.bus_message.body) for one in await dead_letters_on(bus)] == model.dead_letters
            assert bool(model.waiting) == any(not task.done() for task in publishing)
        while model.ready:
            await consumers[0].ack([deliveries[held] for held in model.held[0]])
            model.held[0].clear()
            await take(0, 9)
            await turns()
        assert all(task.done() for task in publishing)


DOINGS: list[Doing] = ["publish", "take", "take", "ack", "requeue", "dead-letter", "leave"]
ACTS = st.lists(st.tuples(st.sampled_from(DOINGS), st.integers(0, 2), st.integers(1, 7)), max_size=60)


@given(ACTS)
def test_whatever_is_done_the_bus_does_as_the_model(acts: list[Act]) -> None:
    asyncio.run(replay(acts))
