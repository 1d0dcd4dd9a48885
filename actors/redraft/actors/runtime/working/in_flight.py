"""Tracks which worker of an actor holds which request, so that a redelivered request is not executed twice.

Before a request that may be a duplicate is begun, this worker looks for it among its own and asks every other worker of
the actor. While one of them holds it, it waits. Each worker also answers on demand with all that it holds.

So a coordinator finds requests that the broker confirmed and lost, as it does with those in its queues when it
restarts, or whose answers it lost. A request is missing when
it was put into its queue, has no answer, its queue is empty, and no worker of the queue reports that it holds it. A
single look may come during a handover, or while the answer is recorded, so several must agree. If a worker cannot
report what it holds (an older release, or another language), nothing is certain, and the deadline of the step applies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import Final, TypeAlias

import msgspec

from redraft.actors.runtime.coordinating.timekeeper import Agenda, DueStep
from redraft.actors.workflow.actor import ActorKey
from redraft.events.bus.port import INBOX, PeerChannel, Queues, work_queue
from redraft.events.errors import BusError, BusUnusable, InputError
from redraft.events.messages.commands import request_id

SILENCE: Final = 1.0
"""Seconds without an answer after which no other worker holds a request."""

AGAIN: Final = 2.0
"""Seconds between two questions about a request that another worker holds."""


ROLL_CALL: Final = ""
"""The request id that asks each worker of the queue for everything that it holds."""


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A worker's question about a request (`asks`), or its answer that it holds the request.

    In an answer to `ROLL_CALL`, `has` are the ids of all requests that it works on, and of messages that it has not
    begun, and `consumers` is how many consumers of the queue it answers for.
    """

    request: str
    by: str
    asks: bool
    has: tuple[str, ...] = ()
    consumers: int = 1


_DECODER: Final = msgspec.json.Decoder(Note)


class _InFlight:
    """A request that somebody waits for; once it is `over`, `worked` says whether it was worked on, not only asked."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.worked = False


def _one() -> int:
    return 1


class InFlightRequests:
    """The requests of one `queue` that are held, as the worker `me` knows. It asks the others through `peers`.

    `silence` and `again` are in seconds.
    """

    def __init__(
        self, queue: str, me: str, peers: PeerChannel | None, silence: float = SILENCE, again: float = AGAIN
    ) -> None:
        self._queue = queue
        self._me = me
        self._peers = peers
        self._silence = silence
        self._again = again
        self._own: dict[str, _InFlight | None] = {}
        self._inquiries: dict[str, asyncio.Event] = {}
        self._not_begun: Callable[[], Iterable[str]] | None = None
        self._consumers: Callable[[], int] = _one

    @contextmanager
    def serving(self, not_begun: Callable[[], Iterable[str]], consumers: Callable[[], int] = _one) -> Iterator[None]:
        """Answers roll calls while the block lasts.

        `not_begun` returns the ids of messages that are not begun, `consumers` how many consumers of the queue are
        answered for.
        """
        self._not_begun, self._consumers = not_begun, consumers
        try:
            yield
        finally:
            self._not_begun = None

    def begin(self, request: str) -> bool:
        """Marks a request as held by this worker; returns False if it is already."""
        if request in self._own:
            return False
        self._own[request] = None
        return True

    def end(self, request: str, *, worked: bool = True) -> None:
        """Releases a request; `worked` says that it was worked on, not only asked about."""
        holder = self._own.pop(request, None)
        if holder is not None:
            holder.worked = worked
            holder.over.set()

    async def begin_alone(self, request: str) -> bool:
        """Waits until no worker holds the request, then marks it as held; returns whether one held it.

        A worker that only asked about it, as for another copy of the same request, did not hold it.
        """
        waited = False
        while True:
            while request in self._own:
                holder = self._own[request] = self._own[request] or _InFlight()
                await holder.over.wait()
                waited = waited or holder.worked
            self.begin(request)
            try:
                if not await self._is_elsewhere(request):
                    return waited
            except BaseException:
                self.end(request, worked=False)
                raise
            self.end(request, worked=False)
            waited = True
            await asyncio.sleep(self._again)

    async def answer_peers(self) -> None:
        """Answers other workers' questions until it is cancelled; waits while the queue exists with other settings.

        Raises BusError.
        """
        while self._peers is not None:
            try:
                await self._answer_peers(self._peers)
            except BusUnusable:
                await asyncio.sleep(self._again)
            else:
                return

    async def _answer_peers(self, peers: PeerChannel) -> None:
        async with aclosing(peers.read_broadcasts(self._queue)) as notes:
            async for raw in notes:
                try:
                    note = _DECODER.decode(raw)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
                await self._handle_note(note)

    async def _handle_note(self, note: Note) -> None:
        if note.by == self._me:
            return
        if note.request == ROLL_CALL:
            if note.asks and self._not_begun is not None:
                has = (*self._own, *self._not_begun())
                await self._broadcast(Note(ROLL_CALL, self._me, asks=False, has=has, consumers=self._consumers()))
            return
        answered = self._inquiries.get(note.request)
        if not note.asks:
            if answered is not None:
                answered.set()
        elif note.request in self._own and (answered is None or self._me < note.by):  # of two who ask, one gives way
            await self._broadcast(Note(note.request, self._me, asks=False))

    async def _is_elsewhere(self, request: str) -> bool:
        if self._peers is None:
            return False
        answered = self._inquiries[request] = asyncio.Event()
        try:
            async with asyncio.timeout(self._silence):
                await self._broadcast(Note(request, self._me, asks=True))
                await answered.wait()
        except TimeoutError:
            return False
        else:
            return True
        finally:
            del self._inquiries[request]

    async def _broadcast(self, note: Note) -> None:
        """Sends a note to the other workers; gives up soon, since an absent broker is no reason to wait."""
        if self._peers is not None:
            try:
                async with asyncio.timeout(self._silence):
                    await self._peers.broadcast(self._queue, msgspec.json.encode(note))
            except (TimeoutError, BusError):
                return


async def ask_peers(peers: PeerChannel, queue: str, me: str, count: int, silence: float = SILENCE) -> list[Note]:
    """Asks the workers of a queue what they hold; returns their answers for `count` consumers, or for fewer after
    `silence` seconds.

    `me` is who asks. Raises BusError.
    """
    answers: dict[str, Note] = {}

    async def ask() -> None:
        """Repeats the question, since an answer that comes before we listen is missed."""
        while True:
            await peers.broadcast(queue, msgspec.json.encode(Note(ROLL_CALL, me, asks=True)))
            await asyncio.sleep(silence / 4)

    asking = asyncio.create_task(ask())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(silence), aclosing(peers.read_broadcasts(queue)) as notes:
                while _consumers_of(answers.values()) < count:
                    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                        note = _DECODER.decode(await anext(notes))
                        if note.request == ROLL_CALL and not note.asks:
                            answers[note.by] = note
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    return list(answers.values())


def _consumers_of(answers: Iterable[Note]) -> int:
    """Returns how many consumers of a queue these answers to a roll call are for."""
    return sum(each.consumers for each in answers)


EVERY: Final = 10.0
"""Seconds between two looks."""

SOON: Final = 2.0
"""Seconds between two looks when the broker may have restarted."""

LOOKS: Final = 4
"""A request is sent again when this number of looks did not find it, then after twice and four times as many.

The first of them asks nobody: most requests are answered before the next one.
"""

HURRIED: Final = 2 * LOOKS
"""The number of looks at short intervals: some may not count, as workers connect again."""

MAX_REQUESTS: Final = 10_000
"""The number of an actor's requests that are checked, the oldest first."""

RequestKey: TypeAlias = tuple[str, str, int]
"""The run, path and attempt of a request."""


def _nowhere(run: str) -> Collection[str]:
    """Returns no part of the inbox: answers go to the inbox itself."""
    return ()


async def _always(queue: str) -> bool:
    """Returns that a queue has our settings."""
    return True


class MissingRequests:
    """Looks for missing requests.

    `put_into` returns the position up to which all requests for a queue are in it, `resend` sends one again if it is
    still unanswered, `me` is this process's name among those that are asked, and `answers_of` returns the parts of the
    inbox in which answers of a run may wait. `is_ours` says whether a part of the inbox that is there has our settings.
    A look at which a queue is in use, or some worker does not answer, does not count.
    """

    def __init__(
        self,
        agenda: Agenda,
        queues: Queues,
        peers: PeerChannel,
        put_into: Callable[[str], int],
        resend: Callable[[str, str], Awaitable[object]],
        me: str,
        inbox: tuple[str, ...] = (INBOX,),
        answers_of: Callable[[str], Collection[str]] = _nowhere,
        is_ours: Callable[[str], Awaitable[bool]] = _always,
    ) -> None:
        self._is_ours = is_ours
        self._inbox = inbox
        self._answers_of = answers_of
        self._agenda = agenda
        self._queues = queues
        self._peers = peers
        self._put_into = put_into
        self._resend = resend
        self._me = me
        self._misses: dict[RequestKey, int] = {}
        self._hurried = HURRIED
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """Looks at once, and at short intervals for a while: the broker may have restarted and lost requests.

        A new one of these does so too: it may have started together with the broker.
        """
        self._hurried = HURRIED
        self._hurry.set()

    async def run(self) -> None:
        """Looks every `EVERY` seconds, at times every `SOON`, until it is cancelled. Raises BusError, StoreError."""
        while True:
            self._hurry.clear()
            await self.look()
            await self._wait()

    async def _wait(self) -> None:
        """Waits until the next look is due."""
        interval = SOON if self._hurried else EVERY
        self._hurried -= bool(self._hurried)
        with suppress(TimeoutError):
            async with asyncio.timeout(interval):
                await self._hurry.wait()

    async def look(self) -> None:
        """Looks for every request once, and sends missing ones again. Raises BusError, StoreError."""
        unanswered = {actor: await self._unanswered(actor) for actor in await self._agenda.actors()}
        seen_before = any(key in self._misses for requests in unanswered.values() for key in requests)
        busy = await self._busy_inbox() if seen_before else frozenset()
        if INBOX in busy:  # any run's answer may be among them
            return
        misses: dict[RequestKey, int] = {}
        for actor, requests in unanswered.items():
            misses |= await self._count_misses(actor, requests, busy)
        before, self._misses = self._misses, misses
        for key, times in misses.items():
            if times >= LOOKS and times.bit_count() == 1 and times != before.get(key):
                run, path, _ = key
                await self._resend(run, path)

    async def _unanswered(self, actor: ActorKey) -> dict[RequestKey, DueStep]:
        """Returns the requests of an actor that were put into its queue and have no answer."""
        due = await self._agenda.unanswered(actor, self._put_into(work_queue(*actor)), MAX_REQUESTS)
        return {(each.run, each.path, each.attempt): each for each in due}

    async def _busy_inbox(self) -> frozenset[str]:
        """Returns the queues of the inbox in which messages wait.

        A part that nobody reads stands for the whole inbox: the coordinator that read it last, and is gone, may have
        had the answers of all its runs sent there. A part with other settings is passed over: no coordinator can read
        what is in it, so that nobody waits for that.
        """
        busy: set[str] = set()
        for queue in self._inbox:
            try:
                depth = await self._queues.queue(queue)
            except BusUnusable:
                if queue == INBOX:
                    raise
                continue
            if depth is not None and depth.waiting and (queue == INBOX or await self._is_ours(queue)):
                busy.add(queue if depth.consumers else INBOX)
        return frozenset(busy)

    async def _count_misses(
        self, actor: ActorKey, unanswered: Mapping[RequestKey, DueStep], busy: frozenset[str]
    ) -> dict[RequestKey, int]:
        """Returns at how many looks each unanswered request of an actor was missing; the first look asks nobody.

        This look counts only if it finds the queue empty and all workers answer, and for those runs alone whose part of
        the inbox is not `busy`: their answers may wait there.
        """
        before = {key: self._misses.get(key, 1) for key in unanswered}
        if not any(key in self._misses for key in unanswered):
            return before
        try:
            has = await self._ask_workers(work_queue(*actor))
        except (InputError, BusUnusable):  # no queue can have its name, or it is somebody else's: the relay says so
            return {}
        if has is None:
            return before
        return {
            key: before[key] + (key in self._misses and busy.isdisjoint(self._answers_of(key[0])))
            for key, each in unanswered.items()
            if request_id(*key) not in has and each.cause not in has
        }

    async def _ask_workers(self, queue: str) -> Container[str] | None:
        """Returns what the workers of a queue have; None while messages wait in it, or when a worker does not answer.

        Raises InputError for a name that no queue can have.
        """
        depth = await self._queues.queue(queue)
        if depth is None or not (depth.waiting or depth.consumers):
            return ()
        if depth.waiting:
            return None
        answers = await ask_peers(self._peers, queue, self._me, depth.consumers)
        return None if _consumers_of(answers) < depth.consumers else {each for note in answers for each in note.has}
