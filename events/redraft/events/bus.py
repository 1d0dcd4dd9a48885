"""The port of the bus: how messages travel, at least once, between those who ask and those who work.

Two buses keep it: `LocalBus` in one process, `RabbitBus` on many machines; one contract suite runs on both.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, Self, TypeVar
from urllib.parse import quote

import msgspec

from redraft.events.commands import Message, Work
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import CodecError, TooLarge
from redraft.events.filters import About
from redraft.events.plan import Role

T = TypeVar("T")

INBOX: Final = "redraft.inbox"
"""The queue of outcomes and people's commands, for the coordinator."""

DELIVERY_LIMIT: Final = 20
"""How often a message is delivered before it is parked, unless the bus is told otherwise."""


LARGEST_LETTER: Final = 16 * 1024 * 1024 - 64 * 1024
"""Bytes of a letter's body at most where it goes through RabbitMQ: 4.x takes messages of 16 MiB unless it is told
otherwise, and what is recorded of a letter is a little longer than the letter itself."""


def work_queue(role: Role, actor: str) -> str:
    """The queue of one actor; replicas of the actor compete for what is in it."""
    return f"redraft.{role}.{actor}"


LONGEST_NAME: Final = 255
"""Bytes that a broker takes for the name of a queue or a routing key, once it is spelled in ASCII."""


def spelled(key: str) -> str:
    """A key as the broker has it: a byte that is no ASCII letter, digit or plain sign is `+` and two hex digits."""
    return quote(key, safe="").replace("~", "%7E").replace("%", "+")


def topic_key(event: str, workflow: str) -> str:
    """The routing key of an event: its name without the version, and its workflow, in which a dot is %2E."""
    return f"{event}.{quote(workflow, safe='').replace('.', '%2E')}"


LONGEST_ATTRIBUTE: Final = 1_000
"""Characters of each attribute of a letter at most: its id, who spoke, its cause, what began it, its trace."""

LARGEST_HEAD: Final = 8_000
"""Characters of a letter's attributes together, its name and run among them: at most 12 bytes each, percent-encoded, in
the one frame of a message's headers, for which brokers take 128 KiB."""


def require_head(origin: Origin) -> None:
    """Raises CodecError when an attribute is longer than any letter's, or holds what databases do not keep."""
    said = f"{origin.id}{origin.actor}{origin.causation}{origin.correlation}{origin.trace}{origin.repeats}"
    if len(said) <= LONGEST_ATTRIBUTE and "\0" not in said:
        return
    for name in origin.__struct_fields__:
        value: str = getattr(origin, name)
        if len(value) > LONGEST_ATTRIBUTE:
            most = f"more than the {LONGEST_ATTRIBUTE:,} that it may have"
            raise CodecError(f"its attribute {name} has {len(value):,} characters, {most}")
        if "\0" in value:
            raise CodecError(f"its attribute {name} holds the character U+0000")


def require_size(queue: str, letters: Sequence[Letter], largest: int) -> None:
    """Raises TooLarge when one of the letters for a queue has a larger body than this, in bytes, or larger headers."""
    for letter in letters:
        came = letter.origin
        head = len(came.id) + len(came.actor) + len(came.causation) + len(came.correlation) + len(came.trace)
        if head + len(letter.name) + len(letter.run) > LARGEST_HEAD:
            raise TooLarge(f"{letter.name[:40]} for {queue}: its headers are more than any broker takes; shorten them")
        if len(letter.body) > largest:
            size = f"{len(letter.body):,} bytes, more than the {largest:,} that the bus takes"
            raise TooLarge(f"{letter.name} for {queue}: {size}; make the drafts smaller")


class Letter(msgspec.Struct, frozen=True, gc=False):
    """A message as it travels: its stable name, its encoded body, where it comes from, and the run that it is about.

    `content` is what the body says, for readers in the same process: they need not decode it. No broker carries it.
    """

    name: str
    body: bytes
    origin: Origin
    run: str = ""
    content: Message | Work | None = None


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A letter as a consumer gets it. `tag` names it to the consumer; `count` is 1 when it is delivered first.

    Above 1, the letter may have been seen before, by this consumer or by another. One that `waited` was in the queue
    when its reader came: what was said about it meanwhile, the reader may not have heard. `user` is whom the broker
    knows to have sent it; empty when it knows nobody, as in one process.
    """

    letter: Letter
    queue: str
    tag: int
    count: int
    waited: bool = False
    user: str = ""


class Parked(msgspec.Struct, frozen=True, gc=False):
    """A letter that was set aside, from which queue (empty when nobody knows), and why.

    `id` names it, the same for as long as it is parked. `user` is as for a Delivery.
    """

    id: str
    letter: Letter
    queue: str
    reason: str
    user: str = ""


class Depth(msgspec.Struct, frozen=True):
    """How many letters wait in a queue, without those that are being worked on, and how many consumers it has."""

    waiting: int
    consumers: int


class Queues(Protocol):
    """What can be asked of a bus without changing anything."""

    async def queue(self, queue: str) -> Depth | None:
        """What is in a queue; None when it is not there. Raises BusError when the bus cannot be asked."""
        ...


class Consumer(Protocol):
    """One reader of a queue, holding at most `prefetch` letters (at least 1) that are not yet settled.

    On leaving the context, what was not settled goes back to the queue, before letters that were never delivered, with
    its count raised. A bus that sends ahead may raise the count of letters, too, that were sent and not yet taken, and
    letters that it has sent ahead to another consumer may come before those that went back.
    """

    async def take(self, most: int) -> Sequence[Delivery]:
        """Waits for a letter; gives all that wait, up to `most` (at least 1).

        Raises BusError when the bus is closed or cannot be reached.
        """
        ...

    def ahead(self) -> Sequence[str]:
        """The ids of letters that have arrived here and are not taken yet; those that wait in the queue are not."""
        ...

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Settles letters whose effect is durable. A letter that is settled already is passed over."""
        ...

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        """Gives a letter back: to be delivered again, or (`requeue=False`, or above the limit) to be parked.

        Raises BusError when nothing more can be parked; the letter then stays unsettled.
        """
        ...


class Bus(Protocol):
    """How letters travel: at least once, in order within a queue, set aside when they cannot be delivered."""

    @property
    def largest(self) -> int:
        """Bytes of a letter's body that the bus takes at most."""
        ...

    async def publish(self, queue: str, letters: Sequence[Letter]) -> None:
        """Puts letters into a queue, in order; returns when the bus has them. Waits while the queue is full.

        Raises BusError when the bus is closed or cannot be reached. One that fails or is cancelled may have put some.
        Raises TooLarge, and puts none, when one is larger than `largest`.
        """
        ...

    def consume(self, queue: str, prefetch: int) -> AbstractAsyncContextManager[Consumer]:
        """A reader of the queue, for as long as the context lasts. Readers of one queue compete for its letters."""
        ...

    async def parked(self, keep: Callable[[Parked], T]) -> Sequence[T]:
        """What `keep` makes of each letter that was set aside, oldest first. Looking takes nothing away.

        The letters may be many and large: they come one after the other, and only what `keep` gives back is kept.
        """
        ...

    async def retry(self, parked_id: str) -> bool:
        """Puts a parked letter into the queue that it came from, its count at 1; False when none is parked by this id.

        Raises BusError when it came from no queue that is known, or cannot be put there; it then stays parked.
        """
        ...

    async def discard(self, parked_id: str) -> bool:
        """Takes a parked letter away for good; False when none is parked by this id."""
        ...

    async def retry_all(self) -> Sequence[str]:
        """Puts all that is parked now into its queues again, oldest first; returns the ids.

        What came from no queue that is known stays parked. Raises BusError when one cannot be put back; those before it
        are back then.
        """
        ...

    async def discard_all(self) -> Sequence[str]:
        """Takes away for good all that is parked now; returns the ids."""
        ...

    async def close(self) -> None:
        """Ends the bus for this process; everybody who waits gets BusError."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exception: object) -> None: ...


class Neighbours(Protocol):
    """What those who serve one queue tell each other. Nothing is kept: who is away does not hear it."""

    def notes(self, queue: str) -> AsyncGenerator[bytes, None]:
        """What is told from now on, by others and by oneself. Raises BusError when the bus cannot be used."""
        ...

    async def tell(self, queue: str, note: bytes) -> None:
        """Tells all who listen. Raises BusError."""
        ...


class Announcer(Protocol):
    """A bus that also tells the public what was recorded."""

    async def announce(self, events: Sequence[Recorded], facts: Mapping[str, About]) -> None:
        """Publishes events, given in log order; `facts` are the workflow and tags of each of their runs.

        They are kept for subscribers when it returns. Raises BusError when they cannot be; announcing the same events
        again is harmless: subscribers go by the position.
        """
        ...
