"""What there is on the server: exchanges, queues and how they are bound. Whoever comes first makes it.

    redraft.commands      (direct)  -- critic.judge ----> redraft.critic.judge   quorum or classic queue, one per actor
                                    -- inbox -----------> redraft.inbox          quorum or classic queue
    redraft.incoming      (direct)  -- inbox -----------> redraft.inbox
    redraft.critic.judge  (direct)  -- critic.judge ----> redraft.critic.judge
                                    -- critic.judge.notes --> each worker of the actor
    (default exchange, dead letters) -------------------> redraft.parked         quorum queue
    redraft.events        (topic)   -- # ---------------> redraft.events         stream
                                    -- run.cancelled.# -> redraft.cancellations  (topic) --> each worker

Requests go through `redraft.commands`, which only coordinators need: what goes to the inbox has an exchange of its own,
what the workers of one actor send each other has one for each actor, and what they are to stop one more. So the rights
of a user, which go by names, say whom it can speak to. Who may make nothing is content with what is there.

Only what RabbitMQ 3.10 and 4.x both have is used. A quorum queue of work parks what was delivered too often: the server
moves it, at least once, and keeps it until `redraft.parked` has it. Delivery limits are always named: 3.10 has none of
its own, 4.x has 20, which would take away what is only looked at in `redraft.parked`.

A classic queue counts no deliveries: its readers do (`rabbit_returns`). What they send again has the priority 1, so
that it comes before what was never delivered. Which implementation of classic queues it is (3.10 makes version 1, 4.x
has version 2 alone) is left to the server.
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

from redraft.events.bus import INBOX, LONGEST_NAME, spelled
from redraft.events.errors import BusUnusable, InputError
from redraft.events.rabbit_link import Link, answer, explain

Kind: TypeAlias = Literal["quorum", "classic"]
"""Of the queues of letters: `quorum` has each letter synced to disk, on most nodes of a cluster, before it delivers it;
`classic` delivers at once and writes beside that, on one node."""

PREFIX: Final = "redraft"
"""What every name on the server begins with, unless the bus is told otherwise; queues are always `redraft.…` to us."""

KEPT_BYTES: Final = 8 * 1024**3
"""How much of the history the stream of events keeps. A policy on the server can keep less."""

_WITHOUT_LIMIT: Final = 2**31 - 1
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_RESERVED: Final = ("parked", "events", "commands", "incoming", "cancellations", "looking")
_STOPPED: Final = ("run.cancelled.#", "run.quarantined.#", "budget.reached.#")
"""The events that stop work under way."""


class Names:
    """What things are called on the server: a queue `redraft.x` of ours is `prefix.x` there.

    The client takes names of ASCII letters, digits and a few signs: any other byte becomes `+` and its two hex digits,
    so that `critic.prüfer` is `critic.pr+C3+BCfer`.
    """

    def __init__(self, prefix: str) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise InputError(f"prefix is {prefix!r}: it must be of ASCII letters, digits, - and _")
        self._prefix = prefix
        self.commands = f"{prefix}.commands"
        self.incoming = f"{prefix}.incoming"
        self.cancellations = f"{prefix}.cancellations"
        self.parked = f"{prefix}.parked"
        self.events = f"{prefix}.events"
        self.looking = f"{prefix}.looking"

    def key(self, queue: str) -> str:
        """The routing key of a queue. Raises InputError for a name that no queue of letters can have."""
        home, _, key = queue.partition(".")
        if home != PREFIX or not key or key in _RESERVED:
            raise InputError(
                f"{queue!r} is not a queue of letters: those are called {PREFIX}.inbox or {PREFIX}.role.actor"
            )
        there = spelled(key)
        if len(f"{self._prefix}.{there}") > LONGEST_NAME:
            raise InputError(f"{queue!r} is too long: RabbitMQ takes names of up to {LONGEST_NAME} bytes")
        return there

    def there(self, queue: str) -> str:
        """The name on the server of a queue."""
        return f"{self._prefix}.{self.key(queue)}"

    def asking(self, queue: str) -> str:
        """The exchange through which others put letters into a queue."""
        return self.incoming if queue == INBOX else self.commands

    def own(self, queue: str) -> str:
        """The exchange through which those who read a queue put letters into it, and tell each other what they do."""
        return self.incoming if queue == INBOX else self.there(queue)

    def here(self, name: str) -> str:
        """The queue that has this name on the server; empty when it is none of ours."""
        home, _, key = name.partition(".")
        return f"{PREFIX}.{unquote(key.replace('+', '%'))}" if home == self._prefix else ""


class Topology:
    """Declares what is needed, on a channel of its own, one thing at a time: a refusal ends the channel that it is told
    on, and must not be taken for that of something else.

    When the user may not make something, nothing more is made: what is there is used as it is.
    """

    def __init__(self, link: Link, names: Names, delivery_limit: int, kind: Kind) -> None:
        self.kind = kind
        self._link = link
        self._names = names
        self._limit = delivery_limit
        self._one = asyncio.Lock()
        self._channel: Channel | None = None
        self.makes = True

    async def queue(self, queue: str) -> int:
        """Makes a queue of letters and all that belongs to it; how many letters wait in it, without those held."""
        names = self._names
        await self.parked()
        async with self._one:
            exchanges = names.commands, names.own(queue)
            for exchange in exchanges:
                await self._exchange(exchange, "direct")
            waiting = await self._letters(queue)
            for exchange in exchanges:
                await self._bind(names.there(queue), exchange, names.key(queue))
        return waiting

    async def waiting(self, queue: str) -> int:
        """How many letters wait in a queue, which is made if it is not there."""
        async with self._one:
            return await self._letters(queue)

    async def parked(self) -> int:
        """Makes the queue of what was set aside; how many letters wait in it. One that is there is used as it is."""
        arguments: FieldTable = {"x-queue-type": "quorum", "x-delivery-limit": _WITHOUT_LIMIT}
        async with self._one:
            try:
                return await self._declare(self._names.parked, arguments)
            except BusUnusable:
                return await self._there(self._names.parked)

    async def events(self) -> None:
        """Makes the topic of recorded events, the stream that keeps them, and the topic of those that stop work."""
        name, stopped = self._names.events, self._names.cancellations
        async with self._one:
            await self._exchange(name, "topic")
            await self._declare(name, {"x-queue-type": "stream", "x-max-length-bytes": KEPT_BYTES})
            await self._bind(name, name, "#")
            if self.makes:
                await self._exchange(stopped, "topic")
                for key in _STOPPED:
                    await answer((await self._own()).exchange_bind(stopped, name, key))

    async def _letters(self, queue: str) -> int:
        names = self._names
        return await self._declare(names.there(queue), letter_queue(self.kind, names, self._limit))

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
            self._refused()
        except ChannelPreconditionFailed as error:
            self._channel = None
            raise BusUnusable(
                f"the exchange {name} is there with other settings ({explain(error)}); delete it, and it is made anew"
            ) from None

    def _refused(self) -> None:
        self.makes = False
        self._channel = None

    async def _bind(self, queue: str, exchange: str, key: str) -> None:
        if self.makes:
            await answer((await self._own()).queue_bind(queue, exchange, key))

    async def _there(self, name: str) -> int:
        channel = await self._own()
        try:
            return (await answer(channel.queue_declare(name, passive=True))).message_count or 0
        except ChannelNotFoundEntity:
            self._channel = None
            if self.makes:
                raise
            raise BusUnusable(
                f"the queue {name} is not there yet, and the user {self._link.user} may not make it: a coordinator "
                "does, when it starts or has the first letter for it"
            ) from None

    async def _declare(self, name: str, arguments: FieldTable) -> int:
        if not self.makes:
            return await self._there(name)
        channel = await self._own()
        try:
            made = await answer(channel.queue_declare(name, durable=True, arguments=arguments))
        except ChannelAccessRefused:
            self._refused()
            return await self._there(name)
        except (ChannelPreconditionFailed, ChannelLockedResource) as error:
            self._channel = None
            raise BusUnusable(
                f"the queue {name} is there with other settings ({explain(error)}); all processes on one broker need "
                f"the same release, the same setting `queues` (REDRAFT_QUEUES, here {self.kind}) and the same delivery "
                "limit: end the others, or delete the queue when it is empty"
            ) from None
        return made.message_count or 0


def letter_queue(kind: Kind, names: Names, delivery_limit: int) -> FieldTable:
    """The arguments of a queue of letters."""
    common: FieldTable = {
        "x-queue-type": kind,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": names.parked,
        "x-overflow": "reject-publish",
    }
    match kind:
        case "quorum":
            limit = delivery_limit - 1  # the server counts deliveries after the first
            return {**common, "x-delivery-limit": limit, "x-dead-letter-strategy": "at-least-once"}
        case "classic":
            return {**common, "x-max-priority": 1}
        case _:
            assert_never(kind)
