"""RabbitMQ killed, restarted, frozen, wiped, and behind TLS: on a node of the tests' own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import aio_pika
import pytest
from tests.dead_letters import dead_letters_on
from tests.events.rabbit.test_event_stream import announce, recorded
from tests.events.rabbit_node import RabbitNode, server_script
from tests.events.rabbit_server import new_prefix
from tests.events.rabbit_tls import make_certificates
from tests.free_ports import free_port

from redraft.events.bus.port import INBOX, BusMessage, Consumer, Delivery, partition_queue, work_queue
from redraft.events.errors import BusError
from redraft.events.messages.envelope import Origin
from redraft.events.rabbit.bus import PATIENCE, RabbitBus
from redraft.events.rabbit.topology import Kind

pytestmark = pytest.mark.check

QUEUE: Final = INBOX
REQUESTS: Final = work_queue("critic", "judge")
SETTLED: Final = 4.0
"""Seconds after which a new quorum queue survives `kill -9`: RabbitMQ 3.10 may bring a younger one back leaderless."""


class Place:
    """The node, its TLS port, and where the certificates are."""

    def __init__(self, folder: Path) -> None:
        make_certificates(folder)
        self.certificates = folder
        self.tls_port = free_port()
        definitions = {
            "vhosts": [{"name": "/"}, {"name": "team/red"}],
            "users": [
                {"name": "guest", "password": "guest", "tags": "administrator"},
                {"name": "weak", "password": "weak", "tags": ""},
            ],
            "permissions": [
                {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
                {"user": "guest", "vhost": "team/red", "configure": ".*", "write": ".*", "read": ".*"},
                {"user": "weak", "vhost": "/", "configure": "^$", "write": ".*", "read": ".*"},
            ],
        }
        (folder / "definitions.json").write_text(json.dumps(definitions))
        settings: dict[str, object] = {
            "load_definitions": folder / "definitions.json",
            "max_message_size": 1_000_000 + 16 * 1024 * 1024,
            "listeners.ssl.default": f"127.0.0.1:{self.tls_port}",
            "ssl_options.cacertfile": folder / "ca.pem",
            "ssl_options.certfile": folder / "server.pem",
            "ssl_options.keyfile": folder / "server.key",
            "ssl_options.verify": "verify_peer",
            "ssl_options.fail_if_no_peer_cert": "true",
        }
        self._settings = settings
        self.node = RabbitNode(folder, server_script(), self._lines())

    @contextmanager
    def taking(self, size: int) -> Iterator[None]:
        """The node, once it is started again, takes messages of up to so many bytes."""
        before = self._settings["max_message_size"]
        self._settings["max_message_size"] = size
        self.node.settings = self._lines()
        try:
            yield
        finally:
            self._settings["max_message_size"] = before
            self.node.settings = self._lines()

    def _lines(self) -> str:
        return "".join(f"{name} = {value}\n" for name, value in self._settings.items())

    def bus(self, patience: float = PATIENCE, queues: Kind = "quorum") -> RabbitBus:
        return RabbitBus(self.node.url, prefix=new_prefix(), patience=patience, queues=queues)

    def secured(self, host: str = "localhost", vhost: str = "", ca: str = "ca", *, mine: bool = True) -> str:
        files = f"?cafile={self.certificates}/{ca}.pem"
        if mine:
            files += f"&certfile={self.certificates}/client.pem&keyfile={self.certificates}/client.key"
        return f"amqps://guest:guest@{host}:{self.tls_port}/{vhost}{files}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A node that runs when a test begins, whatever the one before did to it."""
    there = Place(tmp_path_factory.mktemp("rabbit"))
    there.node.start()
    yield there
    there.node.close()


def bus_message(number: int) -> BusMessage:
    return BusMessage("n.v1", b"%d" % number, Origin(f"id-{number}", "test"), "run")


async def take_all(consumer: Consumer, numbers: set[int]) -> list[Delivery]:
    """Takes until each of these came, in any order."""
    taken: list[Delivery] = []
    while {int(one.bus_message.body) for one in taken} < numbers:
        taken += await consumer.take(len(numbers))
    return taken


class Traffic:
    """Publishes numbers one after the other and takes them again; notes what was published and what was settled."""

    def __init__(self, bus: RabbitBus) -> None:
        self._bus = bus
        self._stopping = False
        self._last: int | None = None
        self.published: list[int] = []
        self.settled: set[int] = set()
        self.counts: dict[int, int] = {}

    async def publish(self) -> None:
        for number in count(1):
            self._last = number if self._stopping else None  # known before it can arrive: nobody waits for one more
            await self._bus.publish(QUEUE, [bus_message(number)])
            self.published.append(number)
            if self._last:
                return

    async def settle(self) -> None:
        async with self._bus.consume(QUEUE, 50) as consumer:
            while not (self._last in self.settled and self.settled.issuperset(self.published)):
                for delivery in (taken := await consumer.take(50)):
                    self.counts[int(delivery.bus_message.body)] = delivery.count
                await consumer.ack(taken)
                self.settled.update(int(delivery.bus_message.body) for delivery in taken)

    def stop(self) -> None:
        """Ends the publishing after one more number, and the settling once all is settled."""
        self._stopping = True

    async def flows(self) -> None:
        """Waits until 50 numbers more were published and settled."""
        enough = (self.published[-1] if self.published else 0) + 50
        while enough not in self.settled:  # noqa: ASYNC110 - a test looks on from outside
            await asyncio.sleep(0.01)


@asynccontextmanager
async def traffic(bus: RabbitBus) -> AsyncIterator[Traffic]:
    """Traffic on a bus whose queue is old enough to survive; at the end all that was published must be settled."""
    async with asyncio.TaskGroup() as group:
        flow = Traffic(bus)
        group.create_task(flow.settle())
        group.create_task(flow.publish())
        begin = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < begin + SETTLED:
            await flow.flows()
        yield flow
        flow.stop()
    assert flow.settled.issuperset(flow.published)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_a_killed_server_comes_back_and_nothing_confirmed_is_lost(place: Place, kind: Kind) -> None:
    """Consumers are there again by themselves, and what was held before settles nothing of what is held after."""
    other = partition_queue(0)
    async with asyncio.timeout(100), place.bus(queues=kind) as bus:
        for number in (1, 2, 3):  # together they would share a message
            await bus.publish(other, [bus_message(number)])
        async with bus.consume(other, 5) as slow:
            old = await take_all(slow, {1, 2, 3})
            async with traffic(bus) as flow:
                place.node.kill()
                await place.node.restart()
                await flow.flows()
            await slow.ack(old[:1])
            new = await take_all(slow, {1, 2, 3})
            assert {one.count for one in new} == {2}
            await slow.ack(old)
            await slow.reject(old[1], requeue=False)
            await slow.reject(old[2], requeue=True)
        async with bus.consume(other, 5) as another:
            assert {one.count for one in await take_all(another, {1, 2, 3})} == {3}
        assert list(await dead_letters_on(bus)) == []


async def test_a_restarted_server_has_the_queues_of_requests_and_nothing_in_them(place: Place) -> None:
    """It tells who relays that it was away; who works on a request goes on, and settles nothing of what is new."""
    reconnected = asyncio.Event()
    async with asyncio.timeout(100), place.bus() as bus, bus.consume(REQUESTS, 1) as consumer:
        await bus.publish(REQUESTS, [bus_message(1), bus_message(2)])
        old = await consumer.take(1)
        with bus.reconnects(reconnected.set):
            await asyncio.to_thread(place.node.stop)
            await place.node.restart()
            await reconnected.wait()
        await bus.publish(REQUESTS, [bus_message(3)])
        await consumer.ack(old)
        new = await consumer.take(2)
        assert [(each.bus_message, each.count) for each in new] == [(bus_message(3), 1)]
        await consumer.ack(new)


async def test_a_frozen_server_is_an_error_and_not_a_cancellation(place: Place) -> None:
    async with asyncio.timeout(100), place.bus(patience=2.0) as bus, bus.consume(QUEUE, 5) as consumer:
        await bus.publish(QUEUE, [bus_message(1)])
        await consumer.ack(await consumer.take(1))
        with place.node.frozen():
            calls = [bus.publish(QUEUE, [bus_message(2)]), bus.publish(QUEUE, [bus_message(3)] * 600)]
            for end in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(end, BusError)
                assert "could not be used for 2 seconds: no message was confirmed" in str(end)
            cancelled = asyncio.create_task(bus.publish(QUEUE, [bus_message(4)]))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
        await bus.publish(QUEUE, [bus_message(5)])
        seen = 0
        while seen != 5:
            for delivery in (taken := await consumer.take(5)):
                seen = int(delivery.bus_message.body)
            await consumer.ack(taken)


async def test_a_bus_closes_though_the_server_is_frozen(place: Place) -> None:
    async with asyncio.timeout(60):
        bus = place.bus(patience=5.0)
        await bus.publish(QUEUE, [bus_message(1)])
        with place.node.frozen():
            publishing = asyncio.create_task(bus.publish(QUEUE, [bus_message(2)]))
            async with bus.consume(QUEUE, 1) as consumer:
                taking = asyncio.create_task(consumer.take(1))
                await asyncio.sleep(0)
                await bus.close()
                for waiting in (publishing, taking):
                    with pytest.raises(BusError, match="closed"):
                        await waiting


async def test_tls_works_with_our_certificate_in_any_virtual_host(place: Place) -> None:
    for vhost in ("", "team%2Fred"):
        async with asyncio.timeout(30), RabbitBus(place.secured(vhost=vhost), prefix=new_prefix()) as bus:
            await bus.publish(QUEUE, [bus_message(1)])
            async with bus.consume(QUEUE, 1) as consumer:
                assert [one.bus_message for one in await consumer.take(1)] == [bus_message(1)]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ca": "stranger"}, r"certificate verify failed.*\?cafile=ca\.pem"),
        ({"host": "127.0.0.1"}, "certificate"),
        ({"mine": False}, r"cannot reach RabbitMQ.*; .*REDRAFT_BUS"),
        ({"vhost": "nobody"}, r"does not open the virtual host.*; name another"),
    ],
)
async def test_tls_refuses_who_is_not_known(place: Place, options: dict[str, str], told: str) -> None:
    url = place.secured(**options)  # type: ignore[arg-type]
    async with asyncio.timeout(30):
        with pytest.raises(BusError, match=told) as refused:
            await RabbitBus(url).__aenter__()
    assert "\n" not in str(refused.value)


async def test_what_the_user_may_not_do_is_told_at_once(place: Place) -> None:
    async with asyncio.timeout(30), RabbitBus(place.node.url.replace("guest:guest", "weak:weak")) as bus:
        with pytest.raises(BusError, match=r"is not there yet, and the user weak may not make it"):
            await bus.publish(QUEUE, [bus_message(1)])
        async with bus.consume(QUEUE, 1) as consumer:
            with pytest.raises(BusError, match=r"dead-letters is not there yet, and the user weak may not make it"):
                await consumer.take(1)


async def test_a_message_larger_than_the_server_takes_is_refused_and_others_go_on(place: Place) -> None:
    async with asyncio.timeout(60), place.bus() as bus, bus.consume(QUEUE, 50) as consumer:
        large = BusMessage("large.v1", b" " * (18 * 1024 * 1024), Origin("large", "test"))
        refused = asyncio.create_task(bus.publish(QUEUE, [large]))
        await bus.publish(QUEUE, [bus_message(number) for number in range(1, 41)])
        with pytest.raises(BusError, match="18,874,368 bytes, more than the 16,711,680 that the bus accepts"):
            await refused
        seen: list[int] = []
        while not set(seen) >= set(range(1, 41)):
            taken = await consumer.take(50)
            seen += [int(delivery.bus_message.body) for delivery in taken]
            await consumer.ack(taken)


@pytest.mark.chaos
async def test_traffic_survives_a_server_that_is_frozen_until_it_is_given_up(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """After three heartbeats the client gives its connections up, and cancels whoever waits on them."""
    async with asyncio.timeout(170), place.bus(patience=120.0) as bus, traffic(bus) as flow:
        with place.node.frozen():
            while sum("was stuck" in record.message for record in caplog.records) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await flow.flows()


@pytest.mark.chaos
async def test_traffic_goes_on_after_the_servers_data_was_wiped(place: Place) -> None:
    """What was confirmed is lost with the data; queues, consumers and the flow come back by themselves."""
    async with asyncio.timeout(150), place.bus() as bus:
        await announce(bus, recorded(1, 10))
        flow = Traffic(bus)
        async with asyncio.TaskGroup() as group, aclosing(bus.subscribe_stream(10)) as events:
            settling = group.create_task(flow.settle())
            publishing = group.create_task(flow.publish())
            await flow.flows()
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(place.node.stop)
            place.node.wipe()
            await place.node.restart()
            await flow.flows()
            await announce(bus, recorded(11, 12))
            assert await waiting == recorded(11, 11)[0]
            flow.stop()
            await publishing
            settling.cancel()


@pytest.mark.chaos
async def test_a_server_that_stays_away_is_told_and_is_used_again_when_it_is_back(place: Place) -> None:
    async with asyncio.timeout(150), place.bus(patience=3.0) as bus, bus.consume(QUEUE, 5) as consumer:
        begin = asyncio.get_running_loop().time()
        flow = Traffic(bus)
        while asyncio.get_running_loop().time() < begin + SETTLED:
            await bus.publish(QUEUE, [bus_message(1)])
            await consumer.ack(await consumer.take(5))
        taking = asyncio.create_task(consumer.take(1))
        place.node.kill()
        calls = [bus.publish(QUEUE, [bus_message(2)]), taking, dead_letters_on(bus), announce(bus, recorded(1, 1))]
        for end in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(end, BusError)
            assert "could not be used for 3 seconds" in str(end)
        await place.node.restart()
        async with asyncio.TaskGroup() as group:
            settling = group.create_task(flow.settle())
            group.create_task(flow.publish())
            await flow.flows()
            flow.stop()
            settling.cancel()


@pytest.mark.chaos
@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_nothing_confirmed_is_lost_over_many_kills(place: Place, kind: Kind) -> None:
    async with asyncio.timeout(170), place.bus(queues=kind) as bus, traffic(bus) as flow:
        for _ in range(5):
            place.node.kill()
            await place.node.restart()
            await flow.flows()
        assert flow.published


@pytest.mark.parametrize("kind", ["quorum", "classic"])
async def test_what_the_server_would_not_take_again_is_set_aside_all_the_same(place: Place, kind: Kind) -> None:
    """It was put there while the server took larger messages: refusing it must not end its reader."""
    prefix, large = new_prefix(), bytes(16 * 1024 * 1024 + 500_000)
    async with asyncio.timeout(120):
        async with RabbitBus(place.node.url, prefix=prefix, queues=kind) as bus, bus.consume(QUEUE, 10):
            await bus.publish(QUEUE, [bus_message(1)])
        async with await aio_pika.connect(place.node.url) as connection, connection.channel() as channel:
            message = aio_pika.Message(large, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, f"{prefix}.inbox", mandatory=True)
        with place.taking(16 * 1024 * 1024):
            await asyncio.to_thread(place.node.stop)
            await place.node.restart()
            async with (
                RabbitBus(place.node.url, prefix=prefix, queues=kind) as bus,
                bus.consume(QUEUE, 10) as consumer,
            ):
                await bus.publish(QUEUE, [bus_message(2)])
                for delivery in await take_some(consumer, 3):
                    if len(delivery.bus_message.body) == len(large):
                        await consumer.reject(delivery, requeue=False, reason="too large")
                    else:
                        await consumer.ack([delivery])
                while not (dead_letters := await dead_letters_on(bus)):  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.05)
        await asyncio.to_thread(place.node.stop)
        await place.node.restart()
    assert [(each.queue, len(each.bus_message.body)) for each in dead_letters] == [(QUEUE, len(large))]
    assert "set aside by RabbitMQ: rejected" in dead_letters[0].reason


async def take_some(consumer: Consumer, number: int) -> list[Delivery]:
    taken: list[Delivery] = []
    while len(taken) < number:
        taken += await consumer.take(number)
    return taken
