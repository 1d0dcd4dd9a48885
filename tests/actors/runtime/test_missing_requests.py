"""A request that a broker confirmed and lost is sent again; one that lies in a queue or with a worker is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

import aio_pika
import pytest
from msgspec.structs import replace
from tests.actors.neighbourhood import Neighbourhood
from tests.actors.runtime.test_worker import Held
from tests.events.rabbit_server import URL, new_prefix, rabbit
from tests.projections.logs import view_of
from tests.properties.test_deciding_properties import NOW
from tests.streams import recorded

from redraft.actors.runtime.coordinating.answer_routes import AnswerRoutes
from redraft.actors.runtime.working import in_flight
from redraft.actors.runtime.working.in_flight import (
    LOOKS,
    ROLL_CALL,
    InFlightRequests,
    MissingRequests,
    Note,
    ask_peers,
)
from redraft.actors.runtime.working.worker import Worker
from redraft.app.process.lifecycle import together
from redraft.app.wiring.coordinator_views import StepsAgenda
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import (
    INBOX,
    Bus,
    BusMessage,
    PeerChannel,
    Queues,
    inbox_queues,
    reply_key,
    reply_queue,
    work_queue,
)
from redraft.events.errors import BusError
from redraft.events.messages.codec import encode_message
from redraft.events.messages.commands import Generate, Request
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import DomainEvent, RunPaused, StepRequested
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.rabbit.bus import RabbitBus
from redraft.events.rabbit.survey import Survey
from redraft.events.rabbit.topology import Kind, Names
from redraft.projections.engine.views import Views

QUEUE = work_queue("generator", "write")

TWO_ANSWERS = [BusMessage("answer", b"", Origin(each, "worker")) for each in ("one", "two")]
"""Of which a consumer of a single message leaves one in its queue."""


def log_of(*events: DomainEvent) -> list[Recorded]:
    """The events of one run as a log holds them, their positions those of their versions."""
    stream = recorded("r", [("coordinator", event) for event in events])
    return [replace(each, time=NOW, position=each.version) for each in stream]


def asked(path: str = "p") -> StepRequested:
    return StepRequested(path, "generator", "write", 1, NOW)


def bus_message(event: Recorded) -> BusMessage:
    """The request that a relay makes of an event."""
    assert isinstance(event.data, StepRequested)
    path = event.data.path
    name, body = encode_message(Generate(Request(f"r/{path}#1", "r", path, "write", 1, 60.0, Brief("b"))))
    return BusMessage(name, body, Origin(event.id, "relay"), "r")


class Search:
    """Looks that are made here, and what was sent again in each of them."""

    def __init__(
        self,
        views: Views,
        queues: Queues,
        room: PeerChannel,
        put: Callable[[str], int] = lambda queue: 100,
        inbox: tuple[str, ...] = (INBOX,),
        **settings: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.sent: list[str] = []
        agenda, routes = StepsAgenda(views, None), AnswerRoutes(len(inbox) - 1)
        self.missing = MissingRequests(
            agenda, queues, room, put, self._again, "search", inbox, routes.queues, **settings
        )
        self._more = asyncio.Event()

    async def until_sent(self, number: int) -> None:
        while len(self.sent) < number:
            self._more.clear()
            await self._more.wait()

    async def looks(self, number: int) -> list[list[str]]:
        found = []
        for _ in range(number):
            self.sent = []
            await self.missing.look()
            found.append(self.sent)
        return found

    async def _again(self, run: str, path: str) -> None:
        self.sent.append(path)
        self._more.set()


@asynccontextmanager
async def at_work(held: Held, bus: Bus, room: PeerChannel, *, says: bool = True) -> AsyncIterator[None]:
    """A worker, which says what it has or does not."""
    ids = count()
    worker = Worker([held.actor()], bus, lambda: f"id{next(ids)}", 1, peers=room)
    async with together([worker.run(), *([worker.answer_peers()] if says else [])]):
        yield


@pytest.mark.parametrize("served", [False, True])
async def test_what_is_in_no_queue_and_with_no_worker_is_sent_again_after_some_looks_and_then_less_often(served: bool):
    room = Neighbourhood()
    async with LocalBus() as bus, view_of(log_of(asked())) as views, AsyncExitStack() as stack:
        if served:
            await stack.enter_async_context(at_work(Held(), bus, room))
            await room.until_heard_by(1, QUEUE)
        nothing: list[str] = []
        search = Search(views, bus, room)
        assert await search.looks(LOOKS) == [nothing] * (LOOKS - 1) + [["p"]]
        assert await search.looks(LOOKS) == [nothing] * (LOOKS - 1) + [["p"]]
        assert await search.looks(2 * LOOKS) == [nothing] * (2 * LOOKS - 1) + [["p"]]


async def test_what_waits_in_its_queue_or_is_at_work_is_not_sent_again() -> None:
    held, room, log = Held(), Neighbourhood(), log_of(asked())
    async with LocalBus() as bus, view_of(log) as views:
        search = Search(views, bus, room)
        await bus.publish(QUEUE, [bus_message(log[0])])
        assert await search.looks(2 * LOOKS) == [[]] * 2 * LOOKS
        async with at_work(held, bus, room):
            await room.until_heard_by(1, QUEUE)
            await held.begun.wait()
            assert await search.looks(2 * LOOKS) == [[]] * 2 * LOOKS


async def test_where_not_every_worker_says_what_it_has_nothing_is_sent_again() -> None:
    held, room, log = Held(), Neighbourhood(), log_of(asked())
    async with LocalBus() as bus, view_of(log) as views, at_work(held, bus, room, says=False):
        await bus.publish(QUEUE, [bus_message(log[0])])
        await held.begun.wait()
        assert await Search(views, bus, room).looks(LOOKS) == [[]] * LOOKS
        async with at_work(Held(), bus, room):
            await room.until_heard_by(1, QUEUE)
            assert await Search(views, bus, room).looks(LOOKS) == [[]] * LOOKS


async def test_while_answers_wait_in_the_inbox_nothing_is_sent_again() -> None:
    async with LocalBus() as bus, view_of(log_of(asked())) as views:
        await bus.publish(INBOX, [BusMessage("answer", b"", Origin("answer", "worker"))])
        assert await Search(views, bus, Neighbourhood()).looks(LOOKS) == [[]] * LOOKS


async def test_a_look_that_does_not_count_sends_nothing_once_more() -> None:
    async with LocalBus() as bus, view_of(log_of(asked())) as views:
        search = Search(views, bus, Neighbourhood())
        assert await search.looks(LOOKS) == [[]] * (LOOKS - 1) + [["p"]]
        await bus.publish(QUEUE, [BusMessage("another", b"", Origin("another", "relay"))])
        assert await search.looks(LOOKS) == [[]] * LOOKS


async def test_answers_that_wait_in_a_part_of_the_inbox_concern_the_runs_of_that_part_alone() -> None:
    inbox, own = inbox_queues(4), reply_queue(reply_key("r", 4))
    async with LocalBus() as bus, view_of(log_of(asked())) as views, AsyncExitStack() as stack:
        for queue in inbox[1:]:
            await stack.enter_async_context(bus.consume(queue, 1))
            if queue != own:
                await bus.publish(queue, TWO_ANSWERS)
        assert await Search(views, bus, Neighbourhood(), inbox=inbox).looks(LOOKS) == [[]] * (LOOKS - 1) + [["p"]]
        await bus.publish(own, TWO_ANSWERS)
        assert await Search(views, bus, Neighbourhood(), inbox=inbox).looks(LOOKS) == [[]] * LOOKS


async def test_answers_in_a_part_of_the_inbox_that_nobody_reads_may_be_those_of_any_run() -> None:
    """A coordinator that died may have had the answers of all its runs sent there, and nobody knows which those are."""
    inbox = inbox_queues(4)
    other = next(queue for queue in inbox[1:] if queue != reply_queue(reply_key("r", 4)))
    async with LocalBus() as bus, view_of(log_of(asked())) as views:
        await bus.publish(other, TWO_ANSWERS)
        search = Search(views, bus, Neighbourhood(), inbox=inbox)
        assert await search.looks(LOOKS) == [[]] * LOOKS
        async with bus.consume(other, 10):
            assert await search.looks(LOOKS) == [[]] * (LOOKS - 2) + [["p"], []]


@pytest.mark.parametrize("is_exclusive", [False, True])
async def test_a_part_of_the_inbox_that_is_a_strangers_keeps_no_request_from_being_sent_again(
    is_exclusive: bool,
) -> None:
    """Each of the parts but one, that of the run among them: as after a change of REDRAFT_QUEUE_TYPE."""
    prefix, inbox = new_prefix(), inbox_queues(4)
    async with (
        asyncio.timeout(60),
        rabbit(prefix=prefix, partitions=4, queues=[INBOX, QUEUE]) as bus,
        await aio_pika.connect(URL) as connection,
        connection.channel() as channel,
        Survey(URL, prefix) as survey,
        view_of(log_of(asked())) as views,
    ):
        for queue in inbox[2:]:
            there = Names(prefix).there(queue)
            await channel.declare_queue(there, durable=not is_exclusive, exclusive=is_exclusive)
            await channel.default_exchange.publish(aio_pika.Message(b"{}"), there, mandatory=True)
        await bus.prepare()
        search = Search(views, survey, bus, inbox=inbox, is_ours=partial(survey.fits, kind="quorum"))
        assert await search.looks(LOOKS) == [[]] * (LOOKS - 1) + [["p"]]
        ours = Names(prefix).there(inbox[1])
        await channel.default_exchange.publish(aio_pika.Message(b"{}"), ours, mandatory=True)
        search = Search(views, survey, bus, inbox=inbox, is_ours=partial(survey.fits, kind="quorum"))
        assert await search.looks(LOOKS) == [[]] * LOOKS, "nobody reads what may be an answer"


async def test_when_the_broker_may_have_restarted_there_are_looks_at_once_and_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise one waits: here for ever."""
    monkeypatch.setattr(in_flight, "SOON", 0.001)
    monkeypatch.setattr(in_flight, "EVERY", 3600.0)
    async with asyncio.timeout(30), LocalBus() as bus, view_of(log_of(asked())) as views:
        search = Search(views, bus, Neighbourhood())
        async with together([search.missing.run()]):
            await search.until_sent(2)  # a new one looks as if it had: after LOOKS and 2 * LOOKS looks
            search.missing.hurry()
            await search.until_sent(3)


@pytest.mark.parametrize(
    ("events", "put"), [([asked()], 0), ([asked(), RunPaused("ann")], 100)], ids=["not put yet", "its run is paused"]
)
async def test_what_is_not_to_be_worked_on_is_not_sent_again(events: list[DomainEvent], put: int) -> None:
    async with LocalBus() as bus, view_of(log_of(*events)) as views:
        assert await Search(views, bus, Neighbourhood(), lambda queue: put).looks(LOOKS) == [[]] * LOOKS


async def test_of_each_actor_what_was_put_into_its_queue_is_looked_for() -> None:
    """Otherwise a queue that nobody can use keeps what was lost of all other actors from being sent again."""
    put = {QUEUE: 1, work_queue("generator", "other"): 2}
    events = [
        asked("early"),
        asked("late"),
        replace(asked("elsewhere"), actor="other"),
    ]
    async with LocalBus() as bus, view_of(log_of(*events[:2])) as views, view_of(log_of(*events)) as more:
        assert (await Search(views, bus, Neighbourhood(), put.__getitem__).looks(LOOKS))[-1] == ["early"]
        put[work_queue("generator", "other")] = 3
        assert sorted((await Search(more, bus, Neighbourhood(), put.__getitem__).looks(LOOKS))[-1]) == [
            "early",
            "elsewhere",
        ]


async def test_who_serves_a_queue_says_all_that_it_has_and_who_does_not_says_nothing() -> None:
    room = Neighbourhood()
    serving, away = (InFlightRequests(QUEUE, name, room) for name in ("serving", "away"))
    tasks = [asyncio.create_task(each.answer_peers()) for each in (serving, away)]
    await room.until_heard_by(2, QUEUE)
    for each in (serving, away):
        each.begin("r/p#1")
    with serving.serving(lambda: ["message"]):
        said = await ask_peers(room, QUEUE, "search", 2, silence=0.05)
    assert said == [Note(ROLL_CALL, "serving", asks=False, has=("r/p#1", "message"))]
    assert await ask_peers(room, QUEUE, "search", 1, silence=0.05) == []
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_one_answer_may_be_for_several_consumers() -> None:
    room = Neighbourhood()
    server = InFlightRequests(QUEUE, "server", room)
    task = asyncio.create_task(server.answer_peers())
    await room.until_heard_by(1, QUEUE)
    with server.serving(tuple, lambda: 3):
        async with asyncio.timeout(60):
            said = await ask_peers(room, QUEUE, "search", 3, silence=3_600)
    assert said == [Note(ROLL_CALL, "server", asks=False, consumers=3)]
    task.cancel()
    await asyncio.wait({task})


async def test_where_nobody_can_be_asked_nobody_has_said_anything() -> None:
    class Away(Neighbourhood):
        async def broadcast(self, queue: str, note: bytes) -> None:
            raise BusError("away")

    assert await ask_peers(Away(), QUEUE, "search", 1, silence=0.01) == []


async def purged(prefix: str) -> int:
    """Empties the queue by hand; how many messages were in it."""
    async with await aio_pika.connect(URL) as connection, connection.channel() as channel:
        return (await (await channel.get_queue(Names(prefix).there(QUEUE))).purge()).message_count or 0


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_of_a_queue_on_rabbitmq_that_was_purged_only_what_no_worker_has_is_sent_again(kind: Kind) -> None:
    """Of eight requests one is at work, three came with it in one message and wait in the worker, four are gone."""
    log, prefix, held = log_of(*(asked(f"p{number}") for number in range(8))), new_prefix(), Held()
    async with (
        asyncio.timeout(60),
        rabbit(kind=kind, prefix=prefix, batch=4, queues=[INBOX, QUEUE]) as bus,
        Survey(URL, prefix) as survey,
        view_of(log) as views,
    ):
        assert isinstance(bus, RabbitBus)
        async with at_work(held, bus, bus):
            while (depth := await survey.queue(QUEUE)) is None or not depth.consumers:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
            await bus.publish(QUEUE, [bus_message(each) for each in log])
            await held.begun.wait()
            search = Search(views, survey, bus)
            assert await search.looks(2 * LOOKS) == [[]] * 2 * LOOKS, "the queue is not empty"
            assert await purged(prefix) == 1
            looks: list[list[str]] = []
            while not any(looks):
                looks += await search.looks(1)
            assert looks[-1] == ["p4", "p5", "p6", "p7"]
            assert held.calls == 1
