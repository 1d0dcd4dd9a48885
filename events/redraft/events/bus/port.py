"""The port of the bus: it carries messages, at least once, between coordinator, relay and workers.

`LocalBus` (one process) and `RabbitBus` (many machines) implement it; one contract test suite runs on both.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from typing import Final, Protocol, Self, TypeVar, runtime_checkable
from urllib.parse import quote
from zlib import crc32

import msgspec

from redraft.events.errors import CodecError, InputError, MessageTooLarge
from redraft.events.messages.commands import Message, Work
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.filters import RunFacts
from redraft.events.messages.plan import Role

T = TypeVar("T")

INBOX: Final = "redraft.inbox"
"""The coordinators' queue: outcomes of steps, and commands from people; `redraft.inbox.0` and so on are parts of it."""

DEAD_LETTERS: Final = "redraft.dead-letters"
"""The queue of the messages that nobody could work on."""

_PARTITION: Final = re.compile(rf"{re.escape(INBOX)}\.[0-9]{{1,4}}")

PARTITIONS: Final = 16
"""The default number of the inbox's partitions, which coordinators divide among themselves."""


def partition_of(run: str, partitions: int) -> int:
    """Returns the partition of a run's messages: CRC-32 (as in gzip) of its id in UTF-8, modulo the number of them."""
    return crc32(run.encode(errors="surrogatepass")) % partitions


def partition_queue(number: int) -> str:
    """Returns the name of a partition of the inbox."""
    return f"{INBOX}.{number}"


def reply_key(run: str, partitions: int) -> str:
    """Returns the routing key of outcomes of a run, such as `inbox.7`; empty when the inbox has no partitions."""
    return partition_queue(partition_of(run, partitions)).removeprefix("redraft.") if partitions else ""


def reply_queue(key: str) -> str:
    """Returns the queue that a request's `reply_key` names: the inbox, or a partition of it."""
    return queue if key and is_partition(queue := f"redraft.{key}") else INBOX


def inbox_queues(partitions: int) -> tuple[str, ...]:
    """Returns the inbox itself and its partitions."""
    return (INBOX, *map(partition_queue, range(partitions)))


def is_partition(queue: str) -> bool:
    """Returns whether a queue is a partition of the inbox."""
    return _PARTITION.fullmatch(queue) is not None


def is_inbox(queue: str) -> bool:
    """Returns whether a queue is the inbox or a partition of it."""
    return queue == INBOX or is_partition(queue)


def inbox_queue(bus_message: BusMessage, partitions: int) -> str:
    """Returns the inbox or the partition that a message goes to: what its sender was told, or that of its run."""
    if bus_message.reply_to:
        return bus_message.reply_to
    if not partitions or not bus_message.run:
        return INBOX
    return partition_queue(partition_of(bus_message.run, partitions))


DELIVERY_LIMIT: Final = 20
"""The default number of deliveries before a message becomes a dead letter."""


LARGEST_BODY: Final = 16 * 1024 * 1024 - 64 * 1024
"""The largest body, in bytes, that goes through RabbitMQ: less than the 16 MiB of 4.x, as its record is longer."""


LARGEST_REQUEST: Final = 64 * 1024 * 1024
"""The largest body of a request, in bytes: a draft, its brief, and all that stands beside them."""


def work_queue(role: Role, actor: str) -> str:
    """Returns the name of an actor's queue; replicas of the actor compete for its messages."""
    return f"redraft.{role}.{actor}"


LONGEST_NAME: Final = 255
"""The longest routing key, or name of a queue, that a broker accepts, in bytes, once it is written in ASCII."""

LONGEST_QUEUE: Final = 127
"""The longest name of a queue of messages, in such bytes: its readers have an exchange of the same name, which has at
most 127 in AMQP 0-9-1 (https://www.rabbitmq.com/resources/specs/amqp0-9-1.xml, `exchange-name`), and clients insist.
"""


def encode_name(key: str) -> str:
    """Returns a key as brokers have it: all but ASCII letters, digits and plain signs as `+` and two hex digits."""
    return quote(key, safe="").replace("~", "%7E").replace("%", "+")


@lru_cache(maxsize=1024)
def topic_key(event: str, workflow: str) -> str:
    """Returns the routing key of an event: its name without the version, and its workflow, in which a dot is %2E."""
    return f"{event}.{quote(workflow, safe='').replace('.', '%2E')}"


LONGEST_ATTRIBUTE: Final = 1_000
"""The longest attribute of a message, in bytes of UTF-8: its id, actor, cause, correlation, trace.

A database indexes the ids of events, which begin with that of their message; PostgreSQL takes keys of 2,704 bytes.
"""

LARGEST_HEADERS: Final = 8_000
"""The most characters that all attributes of a message may have together, its name and run included. Percent-encoded,
each takes at most 12 bytes in the one frame that holds a message's headers; brokers accept 128 KiB.
"""


def size_of(attribute: str) -> int:
    """Returns the bytes of an attribute in UTF-8, of any text that Python may hold."""
    return len(attribute.encode(errors="surrogatepass"))


def is_text(value: str) -> bool:
    """Returns whether UTF-8 can write a text: Python's may hold half a character."""
    return not any("\ud800" <= each <= "\udfff" for each in value)


def require_head(origin: Origin) -> None:
    """Raises CodecError when an attribute of a message is too long, or holds what databases do not keep."""
    attributes = f"{origin.id}{origin.actor}{origin.causation}{origin.correlation}{origin.trace}{origin.repeats}"
    if len(attributes) <= LONGEST_ATTRIBUTE and attributes.isascii() and "\0" not in attributes:
        return
    for name in origin.__struct_fields__:
        value: str = getattr(origin, name)
        if (size := size_of(value)) > LONGEST_ATTRIBUTE:
            raise CodecError(f"its attribute {name} has {size:,} bytes; the limit is {LONGEST_ATTRIBUTE:,}")
        if "\0" in value:
            raise CodecError(f"its attribute {name} holds the character U+0000")
        if not is_text(value):
            raise CodecError(f"its attribute {name} holds half a character, which UTF-8 cannot write")


def require_size(queue: str, bus_messages: Sequence[BusMessage], largest: int) -> None:
    """Raises MessageTooLarge when a body is larger than `largest` bytes, or headers are too large."""
    for bus_message in bus_messages:
        origin = bus_message.origin
        head = f"{origin.id}{origin.actor}{origin.causation}{origin.correlation}{origin.trace}{bus_message.name}"
        if len(head) + len(bus_message.run) > LARGEST_HEADERS:
            raise MessageTooLarge(
                f"{bus_message.name[:40]} for {queue}: its headers are more than any broker takes; shorten them"
            )
        if len(bus_message.body) > largest:
            size = f"{len(bus_message.body):,} bytes, more than the {largest:,} that the bus accepts"
            raise MessageTooLarge(f"{bus_message.name} for {queue}: {size}; make the drafts smaller")


def require_at_least_one(what: str, number: int) -> int:
    """Returns the number. Raises InputError, naming `what` it is, when it is below 1."""
    if number < 1:
        raise InputError(f"{what} is {number}: it must be at least 1")
    return number


class BusMessage(msgspec.Struct, frozen=True, gc=False):
    """A message on the bus: its stable name, its encoded body, its origin, and the run that it is about.

    `content` is the decoded body, so that readers in the same process need not decode it. `reply_to` is the queue that
    an answer goes to, the inbox or a partition of it; where it is empty the bus chooses. Brokers carry neither.
    """

    name: str
    body: bytes
    origin: Origin
    run: str = ""
    content: Message | Work | None = None
    reply_to: str = ""


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message as a consumer receives it. `tag` identifies it to the consumer; `count` is 1 for the first delivery.

    With a higher `count`, this or another consumer may have seen the message before. `waited` is True when the message
    was in the queue before its reader arrived, so the reader may have missed broadcasts about it. `user` is the sender
    as the broker authenticated it; empty when the broker knows none, as in one process. `behalf` are the users for whom
    it says that it sent the message again, the first one first.
    """

    bus_message: BusMessage
    queue: str
    tag: int
    count: int
    waited: bool = False
    user: str = ""
    behalf: tuple[str, ...] = ()

    @property
    def users(self) -> tuple[str, ...]:
        """All who sent the message, the first one first: it has the rights that each of them has."""
        return (*self.behalf, self.user)


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """A message that could not be delivered, the queue that it came from (empty when not known), and the reason.

    `id` identifies it for as long as it is a dead letter. `user`, `behalf` and `users` are as for a Delivery.
    """

    id: str
    bus_message: BusMessage
    queue: str
    reason: str
    user: str = ""
    behalf: tuple[str, ...] = ()

    @property
    def users(self) -> tuple[str, ...]:
        return (*self.behalf, self.user)


class Depth(msgspec.Struct, frozen=True):
    """The number of messages that wait in a queue, without those that consumers hold, and the number of consumers."""

    waiting: int
    consumers: int


class Queues(Protocol):
    """The read-only queries of a bus."""

    async def queue(self, queue: str) -> Depth | None:
        """Returns the depth of a queue, None when there is no such queue.

        Raises BusUnusable for one queue that cannot be looked at, BusError when none can.
        """


class Consumer(Protocol):
    """One reader of a queue. It holds at most `prefetch` (at least 1) unsettled messages.

    When its context is left, its unsettled messages go back to the queue, before messages that were never delivered,
    with their count raised. A bus that sends messages ahead may also raise the count of messages that it sent and that
    were not yet taken, and messages that it has sent ahead to another consumer may come before those that went back.
    """

    async def take(self, limit: int) -> Sequence[Delivery]:
        """Waits for a message, then returns all that wait, up to `limit` (at least 1).

        Raises BusError when the bus is closed or cannot be reached.
        """

    def ahead(self) -> Sequence[str]:
        """Returns the ids of messages that have arrived here and are not taken yet, not of those still in the queue."""

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Acknowledges messages whose effect is durable. Skips messages that are settled already."""

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        """Gives a message back. With `requeue=False`, or above the delivery limit, it becomes a dead letter.

        Raises NoRoom when there is none for another dead letter; the message then stays unsettled.
        """


class Bus(Protocol):
    """Carries messages at least once, in order within a queue; those that it cannot deliver become dead letters."""

    largest: int
    """The largest body of a message that the inbox accepts, in bytes."""

    largest_request: int
    """The largest body of a message that other queues accept, in bytes; readers fetch what no broker would take."""

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        """Puts messages into a queue, in order; returns when the bus has them. Waits while the queue is full.

        Raises BusError when the bus is closed or cannot be reached. A call that fails or is cancelled may have put some
        of them. Raises MessageTooLarge, and puts none, when one is larger than `largest`, or
        `largest_request`.
        """

    def consume(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Consumer]:
        """Opens a reader of the queue for as long as the context lasts. Readers of one queue compete for messages."""

    async def dead_letters(self, keep: Callable[[DeadLetter], T]) -> Sequence[T]:
        """Returns `keep(dead_letter)` for each dead letter, oldest first. Removes none.

        Dead letters may be many and large: `keep` is called with one after the other, and only its results are kept.
        """

    async def retry(self, dead_letter_id: str) -> bool:
        """Puts a dead letter back into its queue with a count of 1; returns False when none has this id.

        Raises BusError when its queue is not known, or it cannot be put there; it then stays a dead letter.
        """

    async def discard(self, dead_letter_id: str) -> bool:
        """Deletes a dead letter; returns False when none has this id."""

    async def retry_all(self) -> Sequence[str]:
        """Puts all present dead letters of known queues back into them, oldest first; returns their ids.

        Raises BusError when one cannot be put back; those before it are back then.
        """

    async def discard_all(self) -> Sequence[str]:
        """Deletes all present dead letters; returns their ids."""

    async def close(self) -> None:
        """Ends the bus for this process; every waiting call raises BusError."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exception: object) -> None: ...


@runtime_checkable
class PeerChannel(Protocol):
    """Broadcasts among the consumers of one queue. Nothing is kept: absent consumers miss them."""

    def read_broadcasts(self, queue: str) -> AsyncGenerator[bytes, None]:
        """Yields the notes sent from now on, by others and by oneself. Raises BusError when the bus cannot be used."""

    async def broadcast(self, queue: str, note: bytes) -> None:
        """Sends a note to all who listen. Raises BusError."""


class EventPublisher(Protocol):
    """A bus that also publishes recorded events."""

    async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
        """Publishes events, given in log order; `facts` are the workflow and tags of each of their runs.

        When it returns, the events are kept for subscribers. Raises BusError when they cannot be. Publishing the same
        events again is harmless, because subscribers go by the position.
        """
