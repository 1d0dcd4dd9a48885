"""One channel that reads a queue, and its unsettled deliveries. It ends with its channel."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

import msgspec
from aiormq import Channel
from aiormq.abc import DeliveredMessage

from redraft.events.bus.port import Delivery
from redraft.events.rabbit.cloudevents import SENT, Headers, headers_of, message_headers, named_users, number, sendable
from redraft.events.rabbit.connection import LOST, Lost, answer, close_channel
from redraft.events.rabbit.wire import Deliveries, Wire, ack_frame, nack_frame, reject_frame

MOST_BYTES: Final = 32 * 1024 * 1024
"""Bytes that the server may send ahead to one reader."""

FIRST: Final = 16
"""The prefetch before any message was seen."""

MOST: Final = 65_535
"""The largest prefetch that AMQP can say."""

LATEST: Final = 1024
"""The number of latest messages, at least, of which the largest counts."""


class Prefetch:
    """Adapts the prefetch to the size of messages. `limit` is its upper limit; `now` is its present value.

    `first` is its value before any message was seen.
    """

    def __init__(self, limit: int, max_bytes: int = MOST_BYTES, first: int = FIRST) -> None:
        self.limit = min(limit, MOST)
        self.now = min(self.limit, first)
        self._max_bytes = max_bytes
        self._seen = 0
        self._largest = 0
        self._before = 0

    def see(self, size: int) -> int:
        """Notes the size of a message in bytes; returns the new prefetch when it should change, else 0.

        It shrinks at once, and grows when as many messages as it allows were small enough.
        """
        self._largest = max(self._largest, size)
        self._seen += 1
        fits = max(1, min(self.limit, self._max_bytes // max(self._largest, self._before, 1)))
        is_more = fits >= 2 * self.now or fits == self.limit > self.now
        shrinks, grows = 2 * fits <= self.now, is_more and self._seen >= self.now
        if self._seen >= LATEST:
            self._seen, self._before, self._largest = 0, self._largest, 0
        if not (shrinks or grows):
            return 0
        self.now = fits
        return fits


class Batch:
    """The number of a batch's unsettled messages, and whether a reader has taken one of them."""

    def __init__(self, bus_messages: int) -> None:
        self.open = bus_messages
        self.taken = False


class UnsettledDelivery(msgspec.Struct, frozen=True, gc=False):
    """A delivery with its session and message: neither is valid on another connection.

    `delivered` is how often the message was delivered, this time included; the delivery's own count also includes how
    often its publisher sent it again. `batch` is there if the message holds several messages.
    """

    delivery: Delivery
    session: Session
    message: DeliveredMessage
    delivered: int
    batch: Batch | None = None

    @property
    def sent(self) -> int:
        """How often the message was sent before without a confirmation."""
        return number(headers_of(self.message), SENT)

    @property
    def headers(self) -> Headers:
        """The headers for sending this message alone, with its senders so far."""
        mine = sendable(message_headers(self.delivery.bus_message) if self.batch else headers_of(self.message))
        return {**mine, **named_users(self.delivery.users)}

    def settle(self) -> None:
        """Settles the message, or its batch once all messages of the batch are settled."""
        if self.batch is not None:
            self.batch.open -= 1
        if self.batch is None or self.batch.open == 0:
            self.session.settle(self.message)


HOLD: Final = 0.05
"""Seconds to hold acknowledgements back until the server has sent all it may, before the prefetch changes."""

_READER: Final = "redraft"
"""The beginning of a consumer's tag on the channel. Each has its own number, or RabbitMQ 3.10 confuses them."""


class Session:
    """Reads a queue on one channel. It collects acknowledgements and sends them together when `send_soon` is called.

    The server applies a new prefetch to a new consumer only, and a quorum queue takes back messages that are on their
    way to a cancelled one, and counts them as delivered. So the prefetch grows only when the server has sent all it
    may; it shrinks at once, and reading resumes when the queue has the messages back.
    """

    def __init__(self, channel: Channel, wire: Wire) -> None:
        self.ended = False
        self._channel = channel
        self._wire = wire
        self._open: dict[int, int] = {}
        self._settled: set[int] = set()
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._prefetch = 0
        self._wanted = 0
        self._readers = 0
        self._unsettled_by_reader: Counter[int] = Counter()
        channel.closing.add_done_callback(lambda _: self.end())

    async def read(self, queue: str, prefetch: int, arrived: Callable[[DeliveredMessage], None]) -> None:
        """Starts reading a queue; passes each message to `arrived`, in order."""
        self._queue, self._arrived = queue, arrived
        self._channel.on_consumer_cancel_callbacks.add(lambda _: self.end())
        self._wire.read_channel(self._channel.number, Deliveries(self._channel, self._receive))
        await self._consume(prefetch)

    async def _consume(self, prefetch: int) -> None:
        self._readers += 1
        self._prefetch = prefetch
        await answer(self._channel.basic_qos(prefetch_count=prefetch))
        await answer(self._channel.basic_consume(self._queue, _passed_by, consumer_tag=self._tag))

    def _receive(self, message: DeliveredMessage) -> None:
        reader = int((message.consumer_tag or self._tag).rpartition(".")[2])
        self._open[tag_of(message)] = reader
        self._unsettled_by_reader[reader] += 1
        self._arrived(message)
        if self._wanted and self._may_change:
            self._due.set()

    def resize(self, prefetch: int) -> None:
        """Requests another prefetch: a smaller one applies at once, a larger one as soon as possible."""
        self._wanted = prefetch
        if self._may_change:
            self._due.set()

    @property
    def _may_change(self) -> bool:
        """Returns whether the prefetch shrinks, or no message is on its way because the server has sent all it may."""
        return self._wanted < self._prefetch or self._unsettled_by_reader[self._readers] >= self._prefetch

    def settle(self, message: DeliveredMessage) -> None:
        self._settled.add(tag_of(message))

    @property
    def _tag(self) -> str:
        return f"{_READER}.{self._readers}"

    @property
    def unsettled(self) -> int:
        """The number of messages that the server has sent and that are not settled."""
        return len(self._open)

    def send_soon(self) -> None:
        if self._wanted and not self._may_change:
            self.send_after(HOLD)
        elif self._settled:
            self._due.set()

    def send_after(self, seconds: float) -> None:
        """Sends acknowledgements after this delay; only the first call counts."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._now)

    def _now(self) -> None:
        self._timer = None
        if self._settled:
            self._due.set()

    def end(self) -> None:
        self.ended = True
        self._due.set()

    async def serve(self) -> None:
        """Sends acknowledgements, each time that they are due, until the session ends."""
        try:
            while not self.ended:
                await self._due.wait()
                self._due.clear()
                if self._wanted and self._may_change and not self.ended:
                    prefetch, self._wanted = self._wanted, 0
                    await answer(self._channel.basic_cancel(self._tag))
                    await answer(self._channel.queue_declare(self._queue, passive=True))
                    await self._consume(prefetch)
                self._send()
        except LOST:
            self.end()

    def give_back(self, message: DeliveredMessage) -> None:
        """Returns a message for a counted redelivery. (4.3 does not count `basic.nack`.) Raises Lost."""
        self._reject(tag_of(message), requeue=True)

    def dead_letter(self, message: DeliveredMessage) -> None:
        """Has the server make it a dead letter. Raises Lost."""
        self._reject(tag_of(message), requeue=False)

    async def stop(self) -> None:
        """Stops reading. Messages that have arrived must still be settled."""
        if not self.ended:
            await answer(self._channel.basic_cancel(self._tag))

    async def leave(self, held: set[int]) -> None:
        """Sends acknowledgements, returns the rest in order. 4.3 does not count those that were not `held`."""
        try:
            if not self.ended:
                self._send()
                for tag in list(self._open):
                    if tag in held:
                        self._reject(tag, requeue=True)
                    else:
                        self._write(nack_frame(self._channel.number, tag), [tag])
        finally:
            await close_channel(self._channel)

    def _send(self) -> None:
        """Acknowledges all messages before the first unsettled one at once, and the others one by one.

        Raises Lost once the channel has ended.
        """
        together = list(takewhile(self._settled.__contains__, self._open))
        if together:
            self._ack(together[-1], together)
        for tag in sorted(self._settled):
            self._ack(tag, [tag])

    def _ack(self, tag: int, tags: Sequence[int]) -> None:
        """Acknowledges `tags`: either all unsettled ones up to `tag`, or that one."""
        self._write(ack_frame(self._channel.number, tag, multiple=len(tags) > 1), tags)

    def _reject(self, tag: int, *, requeue: bool) -> None:
        self._write(reject_frame(self._channel.number, tag, requeue=requeue), [tag])

    def _write(self, frame: bytes, tags: Sequence[int]) -> None:
        """Settles `tags`. All that settles goes the same way, in order: an acknowledgement of several that overtook
        the return of one among them would take that one from the queue.
        """
        if self._channel.is_closed:
            raise Lost("the channel has ended")
        self._wire.write(frame)
        self._settled.difference_update(tags)
        for settled in tags:
            self._close(settled)

    def _close(self, tag: int) -> None:
        reader = self._open.pop(tag, None)
        if reader is not None:
            self._unsettled_by_reader[reader] -= 1


async def _passed_by(message: DeliveredMessage) -> None:
    """Gets no message: the channel's deliveries are read from the wire."""


def tag_of(message: DeliveredMessage) -> int:
    return message.delivery_tag or 0
