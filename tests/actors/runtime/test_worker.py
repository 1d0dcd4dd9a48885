from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count

import aio_pika
import pytest
from tests.actors.neighbourhood import Neighbourhood
from tests.dead_letters import dead_letters_on
from tests.events.rabbit.test_queues import dead_letters_when
from tests.events.rabbit_server import URL, new_prefix, rabbit

from redraft.actors.runtime.relaying.queue_publisher import Blocked, Freed, Trouble
from redraft.actors.runtime.working.active_calls import Differs
from redraft.actors.runtime.working.worker import Worker
from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.roles import critic, generator
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import INBOX, Bus, BusMessage, Consumer, Delivery, work_queue
from redraft.events.errors import BusError, BusUnusable, MessageTooLarge
from redraft.events.messages.codec import decode_message, encode_message
from redraft.events.messages.commands import ConfirmStep, CritiqueDraft, Failed, Generate, Generated, Message, Request
from redraft.events.messages.content import Brief, Critique, new_draft
from redraft.events.messages.envelope import Origin

NOON = datetime(2026, 1, 1, 12)


@asynccontextmanager
async def working(
    *actors: Actor, concurrency: int = 4, differs: Differs = ignore
) -> AsyncIterator[tuple[LocalBus, Worker, asyncio.Task[None]]]:
    ids = count()
    async with LocalBus() as bus:
        worker = Worker(actors, bus, lambda: f"id{next(ids)}", concurrency, differs=differs)
        task = asyncio.create_task(worker.run())
        try:
            yield bus, worker, task
        finally:
            task.cancel()
            await asyncio.wait([task])


async def ask(bus: Bus, actor: str, number: int = 1, version: str = "") -> None:
    work = Generate(Request(f"r/p{number}#1", "r", f"p{number}", actor, 1, 5.0, Brief("b"), version=version))
    name, body = encode_message(work)
    await bus.publish(
        work_queue("generator", actor), [BusMessage(name, body, Origin(f"request{number}", "relay"), "r")]
    )


@asynccontextmanager
async def left_by_a_dead_worker() -> AsyncIterator[LocalBus]:
    """A bus with a request that a worker had which is gone."""
    async with LocalBus() as bus:
        await ask(bus, "write")
        async with bus.consume(work_queue("generator", "write"), 1) as crashed:
            await crashed.take(1)
        yield bus


async def answers(bus: Bus, most: int) -> list[tuple[Origin, Message]]:
    found: list[tuple[Origin, Message]] = []
    async with asyncio.timeout(60), bus.consume(INBOX, 100) as inbox:
        while len(found) < most:
            deliveries = await inbox.take(100)
            found += [
                (each.bus_message.origin, decode_message(each.bus_message.name, each.bus_message.body))
                for each in deliveries
            ]
            await inbox.ack(deliveries)
    return found


async def test_an_outcome_names_its_cause_and_has_an_id_of_its_own():
    @generator
    def write(brief):
        return "text"

    async with working(write) as (bus, _, _):
        await ask(bus, "write")
        ((origin, message),) = await answers(bus, 1)
    assert (origin.id, origin.actor, origin.causation) == ("id0", "generator write", "request1")
    assert message.run == "r"


async def test_how_long_an_outcome_has_not_been_reported_is_known():
    @generator
    def write(brief):
        return "text"

    async with asyncio.timeout(60), LocalBus(capacity=1) as bus:
        await bus.publish(INBOX, [BusMessage("run.cancel.v1", b"{}", Origin("first", "test"), "r")])
        worker = Worker((write,), bus, lambda: "id")
        task = asyncio.create_task(worker.run())
        assert worker.longest_wait() == 0
        await ask(bus, "write")
        while worker.longest_wait() == 0:  # noqa: ASYNC110
            await asyncio.sleep(0)
        async with bus.consume(INBOX, 10) as inbox:
            for _ in range(2):
                await inbox.ack(await inbox.take(1))
        while worker.longest_wait() > 0:  # noqa: ASYNC110
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])


async def test_of_a_plan_with_another_version_it_is_told_once_and_each_answer_says_it():
    told: list[tuple[str, str, str]] = []

    @generator(version="2")
    def write(brief):
        return "text"

    def differs(actor: Actor, version: str, run: str) -> None:
        told.append((actor.name, version, run))

    async with working(write, differs=differs) as (bus, _, _):
        for number, version in enumerate(["1", "1", "2", "", "3"]):
            await ask(bus, "write", number, version)
        found = await answers(bus, 5)
    signed = {(message.path, origin.actor) for origin, message in found if isinstance(message, Generated)}
    other, same = "generator write@2", "generator write"
    assert signed == {("p0", other), ("p1", other), ("p2", same), ("p3", same), ("p4", other)}
    assert sorted(told) == [("write", "1", "r"), ("write", "3", "r")]


async def test_work_goes_on_at_once_up_to_the_concurrency():
    under_way, most = 0, 0
    full = asyncio.Event()

    @generator
    async def write(brief):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 3:
            full.set()
        await full.wait()
        under_way -= 1
        return "text"

    async with working(write, concurrency=3) as (bus, _, _):
        for number in range(9):
            await ask(bus, "write", number)
        await answers(bus, 9)
    assert most == 3


async def test_draining_finishes_what_is_under_way_and_takes_nothing_new():
    started, release = asyncio.Event(), asyncio.Event()

    @generator
    async def write(brief):
        started.set()
        await release.wait()
        return "text"

    async with working(write, concurrency=1) as (bus, worker, task):
        await ask(bus, "write", 1)
        await ask(bus, "write", 2)
        await started.wait()
        worker.drain()
        release.set()
        await asyncio.wait_for(task, 60)
        ((origin, _),) = await answers(bus, 1)
        assert origin.causation == "request1"
        async with bus.consume(work_queue("generator", "write"), 1) as left:
            (waiting,) = await left.take(1)
    assert waiting.bus_message.origin.id == "request2"
    assert waiting.count == 1


async def test_work_of_a_worker_that_is_stopped_is_delivered_again():
    started = asyncio.Event()

    @generator
    async def write(brief):
        started.set()
        await asyncio.Event().wait()
        return "never"

    async with working(write) as (bus, _, task):
        await ask(bus, "write")
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with bus.consume(work_queue("generator", "write"), 1) as left:
            (again,) = await left.take(1)
    assert (again.bus_message.origin.id, again.count) == ("request1", 2)


async def test_a_request_that_may_have_been_served_is_confirmed_before_the_work_starts():
    calls = 0

    @generator
    def write(brief):
        nonlocal calls
        calls += 1
        return "text"

    async with working(write) as (bus, _, _):
        for sent, confirmed in ((2, False), (3, True)):
            request = Request("r/p#1", "r", "p", "write", 1, 5.0, Brief("b"), sent=sent, confirmed=confirmed)
            name, body = encode_message(Generate(request))
            await bus.publish(work_queue("generator", "write"), [BusMessage(name, body, Origin("again", "relay"), "r")])
        doubted, done = sorted((message for _, message in await answers(bus, 2)), key=lambda each: type(each).__name__)
    assert doubted == ConfirmStep("r", "p", 1, 2)
    assert done == Generated("r", "p", 1, "text")
    assert calls == 1


async def test_a_request_that_another_worker_had_is_confirmed_first():
    @generator
    def write(brief):
        return "text"

    async with left_by_a_dead_worker() as bus:
        task = asyncio.create_task(Worker([write], bus, lambda: "id").run())
        ((_, message),) = await answers(bus, 1)
        task.cancel()
        await asyncio.wait([task])
    assert message == ConfirmStep("r", "p1", 1, 2)


async def test_a_second_copy_of_a_request_that_another_worker_had_is_no_new_one():
    """The relay was killed just after it had sent the request, and the worker after it."""
    again: list[str] = []

    @generator
    def write(brief):
        return "text"

    async with left_by_a_dead_worker() as bus:
        worker = Worker([write], bus, lambda: "id", on_restart=lambda request: again.append(request.path))
        task = asyncio.create_task(worker.run())
        ((_, first),) = await answers(bus, 1)
        await ask(bus, "write")
        ((_, second),) = await answers(bus, 1)
        assert (first, second) == (ConfirmStep("r", "p1", 1, 2), ConfirmStep("r", "p1", 1, 1))
        await bus.publish(work_queue("generator", "write"), [copy(3, confirmed=True)])
        ((_, done),) = await answers(bus, 1)
        task.cancel()
        await asyncio.wait([task])
    assert (done, again) == (Generated("r", "p1", 1, "text"), ["p1"])


async def test_words_that_cannot_be_written_are_an_invalid_outcome():
    @generator
    def write(brief):
        return "text"

    @critic
    def judge(draft):
        return Critique(1.0, errors=("\ud800",))

    async with working(write, judge) as (bus, _, _):
        work = CritiqueDraft(Request("r/p#1", "r", "p", "judge", 1, 5.0, Brief("b")), new_draft(1, "text"))
        name, body = encode_message(work)
        await bus.publish(work_queue("critic", "judge"), [BusMessage(name, body, Origin("x", "relay"), "r")])
        ((_, message),) = await answers(bus, 1)
    assert isinstance(message, Failed)
    assert (message.kind, message.attempt) == ("invalid", 1)
    assert "surrogates not allowed" in message.message


async def test_what_cannot_be_read_is_dead_lettered_and_the_rest_goes_on():
    @generator
    def write(brief):
        return "text"

    @critic
    def judge(draft):
        return Critique(1.0)

    async with working(write, judge) as (bus, _, _):
        queue = work_queue("generator", "write")
        await bus.publish(queue, [BusMessage("draft.generate.v1", b"not JSON", Origin("x", "somebody"))])
        await bus.publish(queue, [BusMessage("draft.imagine.v7", b"{}", Origin("y", "somebody"))])
        await ask(bus, "write")
        await answers(bus, 1)
        dead_letters = await dead_letters_on(bus)
    assert [each.bus_message.origin.id for each in dead_letters] == ["x", "y"]
    assert "cannot be read" in dead_letters[0].reason
    assert "no message is named" in dead_letters[1].reason


async def test_an_outcome_that_no_bus_would_take_is_an_invalid_one():
    @generator
    def write(brief):
        return "\x01" * 1000  # six bytes each, as JSON has them

    async with LocalBus(largest=4000) as bus:
        task = asyncio.create_task(Worker([write], bus, lambda: "id").run())
        await ask(bus, "write")
        ((_, message),) = await answers(bus, 1)
        task.cancel()
        await asyncio.wait([task])
    assert isinstance(message, Failed)
    assert message.kind == "invalid"
    assert "bytes as a message, more than the 4,000 that can be sent" in message.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [("x" * 3000, "draft.generate.v1: 3,"), ("x" * 1500, "brief: 1,500 bytes, more than the limit of 1,000")],
)
async def test_a_request_that_is_too_large_is_dead_lettered_and_the_rest_goes_on(text: str, reason: str):
    @generator
    def write(brief):
        return "text"

    async with LocalBus(largest=3000) as bus:
        name, body = encode_message(Generate(Request("r/p#1", "r", "p", "write", 1, 5.0, Brief(text))))
        async with LocalBus() as other:  # a stranger's way in, which looks at no size
            bus.largest_request = other.largest_request
            await bus.publish(work_queue("generator", "write"), [BusMessage(name, body, Origin("large", "x"), "r")])
        bus.largest_request = 3000
        task = asyncio.create_task(Worker([write], bus, lambda: "id", limit=1000).run())
        await ask(bus, "write")
        await answers(bus, 1)
        ((dead_letter),) = await dead_letters_on(bus)
        task.cancel()
        await asyncio.wait([task])
    assert dead_letter.bus_message.origin.id == "large"
    assert reason in dead_letter.reason


class Held:
    """A generator that counts its calls, each of which waits for `go`."""

    def __init__(self) -> None:
        self.calls = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    def actor(self) -> Actor:
        @generator(name="write")
        async def write(brief):
            self.calls += 1
            self.begun.set()
            await self.go.wait()
            return "text"

        return write


def copy(sent: int, *, confirmed: bool = False) -> BusMessage:
    name, body = encode_message(
        Generate(Request("r/p1#1", "r", "p1", "write", 1, 60.0, Brief("b"), sent=sent, confirmed=confirmed))
    )
    return BusMessage(name, body, Origin(f"request{sent}", "relay"), "r")


async def kinds(bus: LocalBus, most: int) -> list[tuple[str, str]]:
    return [(type(message).__name__, origin.causation) for origin, message in await answers(bus, most)]


@pytest.mark.parametrize("confirmed", [False, True])
async def test_a_copy_of_what_is_under_way_here_waits_for_it_and_is_then_asked_about(confirmed: bool):
    held = Held()
    async with working(held.actor()) as (bus, _, _):
        await ask(bus, "write")
        await held.begun.wait()
        await bus.publish(work_queue("generator", "write"), [copy(2, confirmed=confirmed), copy(3)])
        for _ in range(20):
            await asyncio.sleep(0)
        held.go.set()
        assert await kinds(bus, 3) == [
            ("Generated", "request1"),
            ("ConfirmStep", "request2"),
            ("ConfirmStep", "request3"),
        ]
    assert held.calls == 1


@asynccontextmanager
async def two_workers(held: Held) -> AsyncIterator[tuple[LocalBus, list[asyncio.Task[None]]]]:
    """Both know of each other; each takes one request at a time, so that the second one goes to the other."""
    ids = count()
    room = Neighbourhood()
    async with LocalBus() as bus:
        workers = [Worker([held.actor()], bus, lambda: f"id{next(ids)}", 1, peers=room) for _ in range(2)]
        tasks = [asyncio.create_task(part) for worker in workers for part in (worker.run(), worker.answer_peers())]
        await room.until_heard_by(2, work_queue("generator", "write"))
        try:
            yield bus, tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


@pytest.mark.parametrize("confirmed", [False, True])
async def test_a_copy_of_what_is_under_way_elsewhere_waits_for_it_and_is_then_asked_about(confirmed: bool):
    held = Held()
    async with two_workers(held) as (bus, _):
        await ask(bus, "write")
        await held.begun.wait()
        await bus.publish(work_queue("generator", "write"), [copy(2, confirmed=confirmed)])
        for _ in range(50):
            await asyncio.sleep(0)
        held.go.set()
        assert await kinds(bus, 2) == [("Generated", "request1"), ("ConfirmStep", "request2")]
    assert held.calls == 1


async def test_what_a_worker_that_died_was_at_is_asked_about_and_served_when_it_is_confirmed():
    held, room, ids, queue = Held(), Neighbourhood(), count(), work_queue("generator", "write")
    async with LocalBus() as bus:

        def started(concurrency: int) -> list[asyncio.Task[None]]:
            worker = Worker([held.actor()], bus, lambda: f"id{next(ids)}", concurrency, peers=room)
            return [asyncio.create_task(worker.run()), asyncio.create_task(worker.answer_peers())]

        dies = started(1)
        await ask(bus, "write")
        await held.begun.wait()
        lives = started(4)
        await room.until_heard_by(2, queue)
        await bus.publish(queue, [copy(2)])
        for task in dies:
            task.cancel()
        await asyncio.wait(dies)
        assert set(await kinds(bus, 2)) == {("ConfirmStep", "request1"), ("ConfirmStep", "request2")}
        assert held.calls == 1
        held.go.set()
        await bus.publish(queue, [copy(3, confirmed=True)])
        assert await kinds(bus, 1) == [("Generated", "request3")]
        for task in lives:
            task.cancel()
        await asyncio.wait(lives)


async def test_a_request_in_the_queue_of_another_actor_is_dead_lettered_and_not_carried_out():
    worked: list[str] = []

    @generator
    def write(brief, context):
        worked.append(context.path)
        return "text"

    @critic
    def judge(draft, context):
        worked.append(context.path)
        return Critique(1.0)

    draft = new_draft(1, "text")
    works = {
        "as a critic's": CritiqueDraft(Request("r/a#1", "r", "a", "write", 1, 5.0, Brief("b")), draft),
        "of another": Generate(Request("r/b#1", "r", "b", "somebody", 1, 5.0, Brief("b"))),
        "right": Generate(Request("r/c#1", "r", "c", "write", 1, 5.0, Brief("b"))),
    }
    async with working(write, judge) as (bus, _, _):
        bus_messages = [BusMessage(*encode_message(work), Origin(name, "relay"), "r") for name, work in works.items()]
        await bus.publish(work_queue("generator", "write"), bus_messages)
        ((_, message),) = await answers(bus, 1)
        assert isinstance(message, Generated)
        assert worked == ["c"]
        assert [each.reason for each in await dead_letters_on(bus)] == [
            "it is for the critic 'write', but is in the queue of the generator write",
            "it is for the generator 'somebody', but is in the queue of the generator write",
        ]


async def test_what_waited_before_the_worker_came_is_asked_about_and_what_comes_later_is_not():
    """The run may have been cancelled before the worker came to hear of that."""
    worked: list[str] = []
    queue = work_queue("generator", "write")

    @generator
    def write(brief, context):
        worked.append(context.path)
        return "text"

    async with rabbit(queues=(INBOX, queue)) as bus:
        await ask(bus, "write", 1)
        await ask(bus, "write", 2)
        ids = count()
        task = asyncio.create_task(Worker([write], bus, lambda: f"id{next(ids)}").run())
        try:
            asked = [message for _, message in await answers(bus, 2)]
            assert asked == [ConfirmStep("r", f"p{number}", 1, 0) for number in (1, 2)]
            assert worked == []
            await ask(bus, "write", 3)
            work = Generate(Request("r/p1#1", "r", "p1", "write", 1, 5.0, Brief("b"), confirmed=True))
            await bus.publish(queue, [BusMessage(*encode_message(work), Origin("again", "relay"), "r")])
            assert all(isinstance(message, Generated) for _, message in await answers(bus, 2))
            assert sorted(worked) == ["p1", "p3"]
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_a_queue_with_the_settings_of_a_stranger_waits_and_the_others_are_served():
    troubles: list[Trouble] = []
    prefix = new_prefix()
    queues = (INBOX, work_queue("generator", "write"), work_queue("generator", "other"))

    def both(brief):
        return "text"

    async with rabbit(prefix=prefix, queues=queues) as bus, await aio_pika.connect(URL) as connection:
        channel = await connection.channel()
        await channel.declare_queue(f"{prefix}.generator.write", durable=False)
        actors = [generator(name=name)(both) for name in ("write", "other")]
        task = asyncio.create_task(Worker(actors, bus, lambda: "id", on_trouble=troubles.append).run())
        try:
            await ask(bus, "other")
            await answers(bus, 1)
            async with asyncio.timeout(60):
                while not troubles:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.01)
            (blocked,) = troubles
            assert isinstance(blocked, Blocked)
            assert blocked.queue == "redraft.generator.write"
            assert f"the queue {prefix}.generator.write is there with other settings" in blocked.fault
            await channel.queue_delete(f"{prefix}.generator.write")
            await ask(bus, "write", 2)
            await answers(bus, 1)
            assert troubles[1:] == [Freed("redraft.generator.write")]
        finally:
            task.cancel()
            await asyncio.wait([task])


class TakenAway(LocalBus):
    """A bus on which a queue turns out to be a stranger's once `found` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.found = asyncio.Event()
        self.served = asyncio.Event()

    @asynccontextmanager
    async def consume(self, queue: str, prefetch: int) -> AsyncIterator[Consumer]:
        async with super().consume(queue, prefetch) as consumer:

            async def take(limit: int) -> Sequence[Delivery]:
                self.served.set()
                await self.found.wait()
                raise BusUnusable("a stranger's queue")

            consumer.take = take  # type: ignore[method-assign]
            yield consumer


@pytest.mark.parametrize("turns", range(8))
async def test_a_worker_that_is_cancelled_as_a_queue_is_found_unusable_ends(turns: int):
    @generator
    async def write(brief):
        return "text"

    async with asyncio.timeout(60), TakenAway() as bus:
        task = asyncio.create_task(Worker([write], bus, lambda: "id").run())
        await bus.served.wait()
        bus.found.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


class Failing(LocalBus):
    """A bus that loses its connection while an outcome is put, once."""

    broken = False

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        if queue == INBOX and not self.broken:
            self.broken = True
            raise BusError("the connection was lost")
        await super().publish(queue, bus_messages)


class Particular(LocalBus):
    """A bus that takes nothing about one step, such as a server that accepts no large messages."""

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        if queue == INBOX and any(b'"p2"' in each.body for each in bus_messages):
            raise MessageTooLarge("RabbitMQ refuses a message of 5,000,000 bytes")
        await super().publish(queue, bus_messages)


async def test_an_outcome_that_the_bus_refuses_keeps_no_other_back_and_its_request_is_dead_lettered():
    begun = 0
    all_begun = asyncio.Event()

    @generator
    async def write(brief):
        nonlocal begun
        begun += 1
        if begun == 3:
            all_begun.set()
        await all_begun.wait()
        return "text"

    async with Particular() as bus:
        for number in (1, 2, 3):
            await ask(bus, "write", number)
        task = asyncio.create_task(Worker([write], bus, lambda: "id").run())
        assert {message.path for _, message in await answers(bus, 2) if isinstance(message, Generated)} == {"p1", "p3"}
        await ask(bus, "write", 4)
        await answers(bus, 1)
        [dead_letter] = await dead_letters_on(bus)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
    assert dead_letter.bus_message.origin.id == "request2"
    assert dead_letter.reason == "its answer cannot be sent: RabbitMQ refuses a message of 5,000,000 bytes"


@pytest.mark.parametrize("times", [{"asked": NOON}, {"asked": NOON.replace(tzinfo=UTC), "confirmed_at": NOON}])
async def test_a_request_with_a_time_without_zone_is_a_dead_letter(times: dict[str, datetime]):
    @generator
    def write(brief):
        return "text"

    async with LocalBus() as bus:
        task = asyncio.create_task(Worker([write], bus, lambda: "id").run())
        odd = Request("x", "r", "p", "write", 1, 5.0, Brief("b"), confirmed="confirmed_at" in times, **times)
        message = BusMessage(*encode_message(Generate(odd)), Origin("stranger", "relay"), "r")
        await bus.publish(work_queue("generator", "write"), [message])
        await ask(bus, "write")
        await answers(bus, 1)
        [dead_letter] = await dead_letters_when(bus, 1)
        assert not task.done()
        task.cancel()
        await asyncio.wait([task])
    assert dead_letter.bus_message.origin.id == "stranger"


@pytest.mark.parametrize(("run", "key"), [("r" * 9_000, ""), ("r", "inbox." + "1" * 300)])
async def test_a_strangers_request_whose_answer_no_broker_takes_ends_no_worker(run: str, key: str):
    prefix = new_prefix()
    queues = (INBOX, work_queue("generator", "write"))

    @generator
    def write(brief):
        return "text"

    async with rabbit(prefix=prefix, queues=queues) as bus:
        body = encode_message(Generate(Request("x", run, "p", "write", 1, 5.0, Brief("b"), reply_key=key)))
        await bus.publish(work_queue("generator", "write"), [BusMessage(*body, Origin("stranger", "relay"), "r")])
        task = asyncio.create_task(Worker([write], bus, lambda: "id").run())
        try:
            await ask(bus, "write")
            await answers(bus, 1)
            [dead_letter] = await dead_letters_when(bus, 1)
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.wait([task])
    assert dead_letter.bus_message.origin.id == "stranger"


async def test_who_could_not_report_an_outcome_is_no_longer_at_work_on_it():
    """Found by a simulated history: the request came back, and waited for the worker that had done it already."""

    @generator
    async def write(brief):
        return "text"

    async with Failing() as bus:
        worker = Worker([write], bus, lambda: "id")
        await ask(bus, "write")
        with pytest.raises(ExceptionGroup):
            await worker.run()
        again = asyncio.create_task(worker.run())
        ((_, message),) = await answers(bus, 1)
        assert isinstance(message, ConfirmStep)
        again.cancel()
