"""Takes requests from its actors' queues, works, reports. It holds no state and no database password."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import MsgspecError

from redraft.actors.perform import perform, unwritable
from redraft.actors.roles import Actor
from redraft.events.bus import INBOX, Bus, Consumer, Delivery, Letter, work_queue
from redraft.events.codec import decode_work, encode_message
from redraft.events.commands import ConfirmStep, Work
from redraft.events.content import MAX_DRAFT_BYTES
from redraft.events.envelope import Origin
from redraft.events.errors import CodecError

CONCURRENCY: Final = 64
"""How many requests one actor works on at once, unless the worker is told otherwise."""


class Worker:
    """Serves any number of actors. `new_id` makes the ids of its outcomes, unique for each piece of work done."""

    def __init__(
        self,
        actors: Sequence[Actor],
        bus: Bus,
        new_id: Callable[[], str],
        concurrency: int = CONCURRENCY,
        limit: int = MAX_DRAFT_BYTES,
    ) -> None:
        self._actors = tuple(actors)
        self._bus = bus
        self._new_id = new_id
        self._concurrency = concurrency
        self._limit = limit
        self._draining = False
        self._taking: list[asyncio.Timeout] = []

    def drain(self) -> None:
        """Takes no new work; `run` returns once what is under way is reported."""
        self._draining = True
        for taking in self._taking:
            taking.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Works until it is drained, cancelled, or the bus is closed (BusError)."""
        async with asyncio.TaskGroup() as group:
            for actor in self._actors:
                group.create_task(self._serve(actor))

    async def _serve(self, actor: Actor) -> None:
        queue = work_queue(actor.role, actor.name)
        async with self._bus.consume(queue, self._concurrency) as requests, asyncio.TaskGroup() as group:
            taking = asyncio.timeout(0 if self._draining else None)
            self._taking.append(taking)
            try:
                async with taking:
                    while True:
                        for delivery in await requests.take(self._concurrency):
                            group.create_task(self._work(actor, requests, delivery))
            except TimeoutError:
                if not self._draining:
                    raise

    async def _work(self, actor: Actor, requests: Consumer, delivery: Delivery) -> None:
        try:
            work = decode_work(delivery.letter.name, delivery.letter.body)
        except CodecError as error:
            await requests.reject(delivery, requeue=False, reason=str(error))
            return
        message = _doubt(work, delivery) or await perform(actor, work, self._limit)
        try:
            name, body = encode_message(message)
        except (UnicodeEncodeError, MsgspecError) as error:
            name, body = encode_message(unwritable(actor, work, error))
        came = delivery.letter.origin
        origin = Origin(self._new_id(), f"{actor.role} {actor.name}", came.id, came.correlation, came.trace)
        await self._bus.publish(INBOX, [Letter(name, body, origin, message.run)])
        await requests.ack([delivery])


def _doubt(work: Work, delivery: Delivery) -> ConfirmStep | None:
    """The question to ask before work that may have been done already, so that no model is paid twice."""
    request = work.request
    if delivery.count == 1 and (request.sent == 1 or request.confirmed):
        return None
    return ConfirmStep(request.run, request.path, request.attempt, request.sent + delivery.count - 1)
