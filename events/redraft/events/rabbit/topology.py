"""The exchanges, queues and bindings on the server. The first process that needs one makes it.

    redraft.commands      (direct)  -- critic.judge ----> redraft.critic.judge   classic queue, one per actor
                                    -- inbox -----------> redraft.inbox          quorum or classic queue
    redraft.incoming      (direct)  -- inbox -----------> redraft.inbox
                                    -- inbox.0 ---------> redraft.inbox.0        the same with one active consumer
    redraft.critic.judge  (direct)  -- critic.judge ----> redraft.critic.judge
                                    -- critic.judge.notes --> each worker of the actor
    (default exchange, dead letters) -------------------> redraft.dead-letters         quorum queue
    (default exchange, batches of events) --------------> redraft.events         stream
    redraft.events        (topic)   -- run.cancelled.# -> redraft.cancellations  (topic) --> each worker
    (from coordinators)             -- run.ended.article ---^  for plans that may leave steps

Requests go through `redraft.commands`, which only coordinators need. Messages to the inbox have an exchange of their
own, messages among the workers of one actor have one for each actor, and cancellations have one more. So a user's
rights, which RabbitMQ grants by names, determine to whom it can send. A user who may make nothing uses existing queues.

Requests are in the log before they are here, so the server keeps them in memory alone: their queues are classic ones,
which outlive the server's restart, and their messages, which do not (`Outgoing.transient`), are sent again from the log
(`MissingRequests`). What comes into the inbox is nowhere else, and is persistent.

Redraft uses only features that RabbitMQ 3.10 and 4.x both have. A quorum queue dead-letters a message after too many
deliveries: the server moves it, at least once, and keeps it until `redraft.dead-letters` has it. Delivery limits are
always set: 3.10 has no default, 4.x has 20, which would drop messages that are only browsed in `redraft.dead-letters`.

A classic queue counts no deliveries: its readers do (`rabbit.dead_letters`). They send messages again with priority 1,
before messages that were never delivered. The server chooses the version of classic queues (3.10 makes version 1, 4.x
has version 2 alone).
"""

from __future__ import annotations

import asyncio
import re
from typing import Final, Literal, TypeAlias, assert_never
from urllib.parse import unquote

from aiormq import Channel
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)
from pamqp.common import FieldTable

from redraft.events.bus.port import INBOX, LONGEST_QUEUE, encode_name, is_inbox, is_partition
from redraft.events.errors import BusUnusable, InputError
from redraft.events.rabbit.connection import Link, answer, explain

Kind: TypeAlias = Literal["quorum", "classic"]
"""The type of the inbox and its partitions: `quorum` syncs each message to disk, on most nodes of a cluster, before it
delivers it; `classic` delivers at once and writes in parallel, on one node.
"""

REQUESTS: Final[Kind] = "classic"
"""The type of the queues of requests."""

PREFIX: Final = "redraft"
"""The default beginning of every name on the server; in Redraft, names of queues are always `redraft.…`."""

KEPT_BYTES: Final = 8 * 1024**3
"""The size of the history that the stream of events keeps. A policy on the server can reduce it."""

STREAM_ARGUMENTS: Final[FieldTable] = {"x-queue-type": "stream", "x-max-length-bytes": KEPT_BYTES}
DEAD_LETTER_ARGUMENTS: Final[FieldTable] = {"x-queue-type": "quorum", "x-delivery-limit": 2**31 - 1}
"""Nothing is dropped from the dead letters, however often they are looked at."""

_REMEDY: Final = "all processes on one broker need the same release"
_END: Final = "and the same delivery limit: end the others, or delete the queue when it is empty"
_END_ALL: Final = (
    "and the same delivery limit: end the others, and delete the queue, whatever is in it: requests that are open are "
    "sent again"
)
_ANEW: Final = "delete it, and Redraft makes it again; `redraft dead-letters` retries or discards first what is in it"
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_RESERVED: Final = ("dead-letters", "events", "commands", "incoming", "cancellations", "looking")
_STOPPED: Final = ("run.cancelled.#", "run.quarantined.#")
"""The events that stop work under way. After `budget.reached` the best draft may still be published."""

_STOPPED_EARLIER: Final = ("budget.reached.#",)
"""Routing keys that an earlier release bound to the same exchange; their bindings are removed."""


class Names:
    """Translates names: our queue `redraft.x` is `prefix.x` on the server.

    The client accepts names of ASCII letters, digits and a few signs: any other byte becomes `+` and its two hex
    digits, so that `critic.prüfer` is `critic.pr+C3+BCfer`.
    """

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise InputError(f"prefix is {prefix!r}: it must be of ASCII letters, digits, - and _")
        self._prefix = prefix
        self.commands = f"{prefix}.commands"
        self.incoming = f"{prefix}.incoming"
        self.cancellations = f"{prefix}.cancellations"
        self.dead_letters = f"{prefix}.dead-letters"
        self.events = f"{prefix}.events"
        self.looking = f"{prefix}.looking"

    def key(self, queue: str) -> str:
        """Returns the routing key of a queue. Raises InputError for an invalid name of a queue of messages."""
        home, _, key = queue.partition(".")
        if home != PREFIX or not key or key in _RESERVED:
            raise InputError(
                f"{queue!r} is not a queue of messages: those are called {PREFIX}.inbox or {PREFIX}.role.actor"
            )
        there = encode_name(key)
        if len(name := f"{self._prefix}.{there}") > LONGEST_QUEUE:
            raise InputError(f"{name} is too long: exchanges have names of at most {LONGEST_QUEUE} bytes")
        return there

    def there(self, queue: str) -> str:
        """Returns the name of a queue on the server."""
        return f"{self._prefix}.{self.key(queue)}"

    def asking(self, queue: str) -> str:
        """Returns the exchange through which others put messages into a queue."""
        return self.incoming if is_inbox(queue) else self.commands

    def own(self, queue: str) -> str:
        """Returns the exchange through which a queue's consumers put messages into it, and send notes to each other."""
        return self.incoming if is_inbox(queue) else self.there(queue)

    def here(self, name: str) -> str:
        """Returns the queue that has this name on the server; empty when it has another prefix."""
        home, _, key = name.partition(".")
        return f"{PREFIX}.{unquote(key.replace('+', '%'))}" if home == self._prefix else ""


class Topology:
    """Declares exchanges and queues, one at a time on a channel of its own, because a refusal ends the channel.

    When the user may not make something, nothing more is made, and existing ones are used as they are.
    """

    def __init__(self, link: Link, names: Names, delivery_limit: int, kind: Kind) -> None:
        self._kind = kind
        self._link = link
        self._names = names
        self._limit = delivery_limit
        self._one = asyncio.Lock()
        self._channel: Channel | None = None
        self.makes = True

    def counts(self, queue: str) -> bool:
        """Returns whether the server counts a queue's deliveries; where it does not, its readers do."""
        return kind_of(queue, self._kind) == "quorum"

    async def queue(self, queue: str) -> int:
        """Makes a queue with its exchanges and bindings; returns its number of waiting messages."""
        names = self._names
        await self.dead_letters()
        async with self._one:
            exchanges = {names.asking(queue), names.own(queue)}
            if queue == INBOX:
                exchanges.add(names.commands)
            for exchange in exchanges:
                await self._exchange(exchange, "direct")
            waiting = await self._declare_queue(queue)
            for exchange in exchanges:
                await self._bind(names.there(queue), exchange, names.key(queue))
        return waiting

    async def waiting(self, queue: str) -> int:
        """Returns the number of messages that wait in a queue; makes the queue if it does not exist."""
        async with self._one:
            return await self._declare_queue(queue)

    async def exists(self, queue: str) -> bool:
        """Returns whether a queue of messages is there, and is not another connection's own."""
        async with self._one:
            try:
                await answer((await self._own()).queue_declare(self._names.there(queue), passive=True))
            except (ChannelNotFoundEntity, ChannelLockedResource):
                self._channel = None
                return False
            return True

    async def dead_letters(self) -> int:
        """Makes the queue of dead letters; returns the number of messages in it. Uses an existing one as it is."""
        try:
            return await self.own_dead_letters()
        except BusUnusable:
            async with self._one:
                return await self._require_existing(self._names.dead_letters)

    async def own_dead_letters(self) -> int:
        """Makes the queue of dead letters; returns the number of messages in it.

        Raises BusUnusable where it is there with other settings: such a queue may lose what is put into it.
        """
        async with self._one:
            return await self._declare(self._names.dead_letters, DEAD_LETTER_ARGUMENTS, _ANEW)

    async def events(self) -> None:
        """Makes the topic of recorded events, the stream that keeps them, and the topic of those that stop work."""
        name, stopped = self._names.events, self._names.cancellations
        async with self._one:
            await self._exchange(name, "topic")
            await self._declare(name, STREAM_ARGUMENTS)
            if self.makes:
                await answer((await self._own()).queue_unbind(name, name, "#"))  # what an earlier release had bound
                await self._exchange(stopped, "topic")
                for key in _STOPPED:
                    await answer((await self._own()).exchange_bind(stopped, name, key))
                for key in _STOPPED_EARLIER:
                    await answer((await self._own()).exchange_unbind(stopped, name, key))

    async def _declare_queue(self, queue: str) -> int:
        names = self._names
        arguments = queue_arguments(queue, self._kind, names, self._limit)
        return await self._declare(names.there(queue), arguments, self._remedy(queue))

    def _remedy(self, queue: str) -> str:
        if is_inbox(queue):
            return f"{_REMEDY}, the same setting `queue_type` (REDRAFT_QUEUE_TYPE, here {self._kind}) {_END}"
        return f"{_REMEDY} {_END_ALL}"

    async def _own(self) -> Channel:
        if self._channel is None or self._channel.is_closed:
            self._channel = await self._link.channel()
        return self._channel

    async def _exchange(self, name: str, kind: str) -> None:
        if not self.makes:
            return
        channel = await self._own()
        try:
            await answer(channel.exchange_declare(name, exchange_type=kind, durable=True))
        except ChannelAccessRefused:
            self._stop_making()
        except ChannelPreconditionFailed as error:
            self._channel = None
            raise BusUnusable(
                f"the exchange {name} is there with other settings ({explain(error)}); delete it, and Redraft "
                "creates it again"
            ) from None

    def _stop_making(self) -> None:
        self.makes = False
        self._channel = None

    async def _bind(self, queue: str, exchange: str, key: str) -> None:
        if self.makes:
            await answer((await self._own()).queue_bind(queue, exchange, key))

    async def _require_existing(self, name: str) -> int:
        channel = await self._own()
        try:
            return (await answer(channel.queue_declare(name, passive=True))).message_count or 0
        except ChannelNotFoundEntity:
            self._channel = None
            if self.makes:
                raise
            raise BusUnusable(
                f"the queue {name} is not there yet, and the user {self._link.user} may not make it: a coordinator "
                "does, when it starts or has the first message for it"
            ) from None

    async def _declare(self, name: str, arguments: FieldTable, remedy: str = f"{_REMEDY} {_END}") -> int:
        if not self.makes:
            return await self._require_existing(name)
        channel = await self._own()
        try:
            made = await answer(channel.queue_declare(name, durable=True, arguments=arguments))
        except ChannelAccessRefused:
            self._stop_making()
            return await self._require_existing(name)
        except (ChannelPreconditionFailed, ChannelLockedResource) as error:
            self._channel = None
            raise BusUnusable(f"the queue {name} is there with other settings ({explain(error)}); {remedy}") from None
        return made.message_count or 0


def kind_of(queue: str, inbox: Kind) -> Kind:
    """Returns the type of a queue of messages where the inbox has this one."""
    return inbox if is_inbox(queue) else REQUESTS


def queue_arguments(queue: str, inbox: Kind, names: Names, delivery_limit: int) -> FieldTable:
    """Returns the arguments of a queue of messages where the inbox has this type.

    A partition of the inbox has one active consumer at a time.
    """
    kind = kind_of(queue, inbox)
    common: FieldTable = {
        "x-queue-type": kind,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": names.dead_letters,
        "x-overflow": "reject-publish",
    }
    if is_partition(queue):
        common["x-single-active-consumer"] = True
    match kind:
        case "quorum":
            limit = delivery_limit - 1  # the server counts deliveries after the first
            return {**common, "x-delivery-limit": limit, "x-dead-letter-strategy": "at-least-once"}
        case "classic":
            return {**common, "x-max-priority": 1}
        case _:
            assert_never(kind)
