"""One actor's desk: the calls under way, and what has come of others and is not yet reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from redraft.actors.crews import QUEUE_LIMIT
from redraft.actors.perform import Call, Calling, abandoned, unwritable
from redraft.actors.roles import Actor
from redraft.actors.signatures import Signatures
from redraft.actors.whereabouts import Whereabouts
from redraft.events.bus import Delivery, Letter
from redraft.events.codec import encode_message
from redraft.events.commands import ROLES, ConfirmStep, Message, Request, Work
from redraft.events.envelope import Origin
from redraft.events.errors import ContentError, InputError

REMEMBERED: Final = 4096
"""Of how many requests it is remembered that the coordinator was asked about them."""

ALONE: Final = 5
"""A request that was sent so often is carried out alone: two who had it vanished, and each costs it two sendings."""

Apart: TypeAlias = Callable[[Actor, Work, Callable[[], None], bool], Calling]
"""Begins a call in a process of its own, and tells when it is over; `bool` says whether it is carried out alone."""

Again: TypeAlias = Callable[[Request], None]
"""Is told of a request that may have cost something before, and of which nothing came."""

Clock: TypeAlias = Callable[[], datetime]
"""Tells the time (UTC)."""


def utc() -> datetime:
    """The time, by this machine's clock."""
    return datetime.now(UTC)


def untold(request: Request) -> None:
    """Tells nobody."""


class Finished(msgspec.Struct, frozen=True):
    """A request that was served: its call, or the question that has to be answered before there is one.

    Nothing came of one whose run was called off.
    """

    delivery: Delivery
    work: Work
    came_of_it: Calling | ConfirmStep | None


class Desk:
    """`new_id` makes the ids of outcomes; `limit` is the largest draft and `largest` the largest letter, in bytes.

    `signatures` name who answers; `whereabouts` say who is at work on what; `off` are runs to do no more for. `again`
    is told of a request that is begun once more, since whoever had it before never answered. `apart` begins the calls
    of actors that are isolated, and of any request whose worker vanished again and again.
    """

    def __init__(
        self,
        actor: Actor,
        new_id: Callable[[], str],
        limit: int,
        largest: int,
        signatures: Signatures,
        whereabouts: Whereabouts,
        off: Container[str] = frozenset(),
        again: Again = untold,
        queue_limit: timedelta = QUEUE_LIMIT,
        clock: Clock = utc,
        apart: Apart | None = None,
    ) -> None:
        self._actor = actor
        self._new_id = new_id
        self._limit = limit
        self._largest = largest
        self._signatures = signatures
        self._whereabouts = whereabouts
        self._off = off
        self._again = again
        self._queue_limit = queue_limit
        self._clock = clock
        self._apart = apart
        self._calls: dict[int, tuple[Calling, Delivery, Work]] = {}
        self._begun: dict[str, None] = {}
        self._doubtful: set[asyncio.Task[None]] = set()
        self._finished: list[Finished] = []
        self._asked: dict[str, None] = {}
        self._closed = False
        self._changed = asyncio.Event()

    def require_ours(self, work: Work) -> None:
        """Raises InputError for a request that is for another actor, and lies in the wrong queue."""
        role, name = ROLES[type(work)], work.request.actor
        if (role, name) != (self._actor.role, self._actor.name):
            here = f"the {self._actor.role} {self._actor.name}"
            raise InputError(f"it is for the {role} {name[:100]!r}, and lies in the queue of {here}")

    def begin(self, delivery: Delivery, work: Work) -> None:
        """Begins the work, or asks first if it may have been done already, may be stale, or somebody may be at it."""
        request = work.request
        if request.run in self._off:
            self._finish(Finished(delivery, work, None))
        elif self._may_be_stale(work, delivery):
            self._asked[request.id] = None
            if len(self._asked) > REMEMBERED:
                del self._asked[next(iter(self._asked))]
            self._finish(Finished(delivery, work, ConfirmStep(request.run, request.path, request.attempt, 0)))
        elif request.sent == 1 and delivery.count == 1 and self._whereabouts.begin(request.id):
            self._call(delivery, work)
        else:
            inquiry = asyncio.create_task(self._inquired(delivery, work))
            self._doubtful.add(inquiry)
            inquiry.add_done_callback(self._doubtful.discard)

    def _may_be_stale(self, work: Work, delivery: Delivery) -> bool:
        """Whether nobody can have begun it, and it may have been given up, or its run cancelled, before we came.

        What we asked about has its answer when it comes back confirmed.
        """
        request = work.request
        answered = request.confirmed and request.id in self._asked
        old = request.asked is not None and self._clock() >= request.asked + self._queue_limit
        return (delivery.waited or old) and delivery.count == request.sent == 1 and not answered

    async def _inquired(self, delivery: Delivery, work: Work) -> None:
        """Waits while somebody is at work on it. One that was surely unanswered before that is begun then."""
        request = work.request
        waited = await self._whereabouts.begin_alone(request.id)
        if not self._closed and request.run not in self._off and not waited and _is_confirmed(work, delivery):
            self._again(request)
            self._call(delivery, work)
            return
        self._whereabouts.end(request.id, worked=False)
        if request.run in self._off:
            self._finish(Finished(delivery, work, None))
        elif not self._closed:  # else it is given back
            sent = request.sent + delivery.count - 1
            self._finish(Finished(delivery, work, ConfirmStep(request.run, request.path, request.attempt, sent)))

    def _call(self, delivery: Delivery, work: Work) -> None:
        self._calls[delivery.tag] = self._calling(work, lambda: self._over(delivery, work)), delivery, work
        self._begun[work.request.id] = None

    def _calling(self, work: Work, over: Callable[[], None]) -> Calling:
        alone = work.request.sent >= ALONE
        if self._apart is not None and (alone or self._actor.isolation == "process"):
            return self._apart(self._actor, work, over, alone)
        return Call(self._actor, work, over)

    def call_off(self, run: str) -> None:
        """Stops what is under way for a run; what came of it is not told."""
        for tag, (call, delivery, work) in list(self._calls.items()):
            if work.request.run == run:
                del self._calls[tag]
                self._end(work)
                call.abandon()
                self._finish(Finished(delivery, work, None))

    async def lift(self) -> Sequence[Finished]:
        """Waits until something is finished, and gives all that is; nothing when the desk is closed and cleared."""
        while not self._finished and (self._calls or not self._closed):
            self._changed.clear()
            await self._changed.wait()
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Nothing more is begun."""
        self._closed = True
        self._changed.set()

    async def abandon(self) -> None:
        """Stops what is under way; what came of it is not told, nor of what could not be reported."""
        for inquiry in self._doubtful:
            inquiry.cancel()
        calls = [call for call, _, _ in self._calls.values()]
        for request in self._begun:
            self._whereabouts.end(request)
        self._begun.clear()
        self._calls.clear()
        await abandoned(calls)

    def letter(self, finished: Finished) -> Letter | None:
        """Returns the letter that reports a finished request; None where nothing is to be reported."""
        message = _message(finished, self._limit)
        if message is None:
            return None
        try:
            name, body = encode_message(message)
        except (UnicodeEncodeError, msgspec.MsgspecError) as error:
            message = unwritable(self._actor, finished.work, error)
            name, body = encode_message(message)
        if len(body) > self._largest:
            fault = ContentError(f"{len(body):,} bytes as a message, more than the {self._largest:,} that can be sent")
            message = unwritable(self._actor, finished.work, fault)
            name, body = encode_message(message)
        came = finished.delivery.letter.origin
        who = self._signatures.of(self._actor, finished.work.request)
        origin = Origin(self._new_id(), who, came.id, came.correlation, came.trace)
        return Letter(name, body, origin, message.run, message)

    def told(self, finished: Sequence[Finished]) -> None:
        """Takes note that the outcomes of these are on the bus: nobody is at work on them any more."""
        for each in finished:
            if each.came_of_it is not None and not isinstance(each.came_of_it, ConfirmStep):
                self._end(each.work)

    def _end(self, work: Work) -> None:
        self._begun.pop(work.request.id, None)
        self._whereabouts.end(work.request.id)

    def _over(self, delivery: Delivery, work: Work) -> None:
        call, _, _ = self._calls.pop(delivery.tag)
        self._finish(Finished(delivery, work, call))

    def _finish(self, finished: Finished) -> None:
        self._finished.append(finished)
        self._changed.set()


def _message(finished: Finished, limit: int) -> Message | None:
    came_of_it = finished.came_of_it
    if came_of_it is None or isinstance(came_of_it, ConfirmStep):
        return came_of_it
    return came_of_it.outcome(limit)


def _is_confirmed(work: Work, delivery: Delivery) -> bool:
    """Whether the coordinator has said of this very message that its request is without an answer."""
    return work.request.confirmed and delivery.count == 1
