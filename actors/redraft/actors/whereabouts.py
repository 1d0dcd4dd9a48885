"""Who is at work on what, among those who serve one actor: so that a request which is there twice is worked on once.

One that may be a duplicate is looked for first: here, and, by asking around, with every other worker of the actor.
While somebody is at work on it, it is held back. Who serves the actor also says on demand all that it has: what none of
them has, and what is in no queue, is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Final

import msgspec

from redraft.events.bus import Neighbours
from redraft.events.errors import BusError

SILENCE: Final = 1.0
"""Seconds without an answer after which nobody else is at work on a request."""

AGAIN: Final = 2.0
"""Seconds between two questions about a request that somebody is at work on."""


ROLL: Final = ""
"""Stands for no request in particular: each of those who serve the queue answers with all that it has."""


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A question about a request (`asks`) by a worker, or its answer that it is at work on it.

    In an answer about `ROLL`, `has` are the ids of all requests that it works on, and of letters that it has not begun.
    """

    request: str
    by: str
    asks: bool
    has: tuple[str, ...] = ()


_DECODER: Final = msgspec.json.Decoder(Note)


class _Stay:
    """Somebody is at work on a request, or asks around about it; `worked` says, once it is over, which it was."""

    __slots__ = ("_over", "worked")

    def __init__(self) -> None:
        self._over: asyncio.Event | None = None
        self.worked = False

    async def wait(self) -> None:
        """Returns when it is over; few wait, so that not every one needs an event."""
        if self._over is None:
            self._over = asyncio.Event()
        await self._over.wait()

    def end(self, *, worked: bool) -> None:
        self.worked = worked
        if self._over is not None:
            self._over.set()


class Whereabouts:
    """Those of the requests of one `queue`, as the worker `me` knows them. `neighbours` is how it asks the others.

    `silence` and `again` are in seconds.
    """

    def __init__(
        self, queue: str, me: str, neighbours: Neighbours | None, silence: float = SILENCE, again: float = AGAIN
    ) -> None:
        self._queue = queue
        self._me = me
        self._neighbours = neighbours
        self._silence = silence
        self._again = again
        self._here: dict[str, _Stay] = {}
        self._asking: dict[str, asyncio.Event] = {}
        self._ahead: Callable[[], Iterable[str]] | None = None

    @contextmanager
    def serving(self, ahead: Callable[[], Iterable[str]]) -> Iterator[None]:
        """Says on demand what we have, while the block lasts. `ahead` gives the ids of letters that are not begun."""
        self._ahead = ahead
        try:
            yield
        finally:
            self._ahead = None

    def begin(self, request: str) -> bool:
        """Says that we are at work on a request; False when we are already."""
        if request in self._here:
            return False
        self._here[request] = _Stay()
        return True

    def end(self, request: str, *, worked: bool = True) -> None:
        """Says that we are no longer; whether we had worked on it, or only asked around."""
        if (stay := self._here.pop(request, None)) is not None:
            stay.end(worked=worked)

    async def begin_alone(self, request: str) -> bool:
        """Waits until nobody is at work on a request, and begins it; whether somebody was.

        One that only asked around, as for another copy of the same request, was not.
        """
        waited = False
        while True:
            while (stay := self._here.get(request)) is not None:
                await stay.wait()
                waited = waited or stay.worked
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

    async def hear(self) -> None:
        """Answers what others ask, until it is cancelled. Raises BusError."""
        if self._neighbours is None:
            return
        async with aclosing(self._neighbours.notes(self._queue)) as notes:
            async for raw in notes:
                try:
                    note = _DECODER.decode(raw)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue
                await self._heard(note)

    async def _heard(self, note: Note) -> None:
        if note.by == self._me:
            return
        if note.request == ROLL:
            if note.asks and self._ahead is not None:
                await self._tell(Note(ROLL, self._me, asks=False, has=(*self._here, *self._ahead())))
            return
        heard = self._asking.get(note.request)
        if not note.asks:
            if heard is not None:
                heard.set()
        elif note.request in self._here and (heard is None or self._me < note.by):  # of two who ask, one gives way
            await self._tell(Note(note.request, self._me, asks=False))

    async def _is_elsewhere(self, request: str) -> bool:
        if self._neighbours is None:
            return False
        heard = self._asking[request] = asyncio.Event()
        try:
            async with asyncio.timeout(self._silence):
                await self._tell(Note(request, self._me, asks=True))
                await heard.wait()
        except TimeoutError:
            return False
        else:
            return True
        finally:
            del self._asking[request]

    async def _tell(self, note: Note) -> None:
        """Says it if that can be done soon: a broker that is away is no reason to wait."""
        if self._neighbours is not None:
            try:
                async with asyncio.timeout(self._silence):
                    await self._neighbours.tell(self._queue, msgspec.json.encode(note))
            except (TimeoutError, BusError):
                return


async def held_by(neighbours: Neighbours, queue: str, me: str, enough: int, silence: float = SILENCE) -> list[Note]:
    """Asks those who serve a queue what they have; returns the answers of so many, or of fewer after `silence` seconds.

    `me` is who asks. Raises BusError.
    """
    said: dict[str, Note] = {}

    async def ask() -> None:
        """Asks again and again: what is told before we listen is not heard."""
        while True:
            await neighbours.tell(queue, msgspec.json.encode(Note(ROLL, me, asks=True)))
            await asyncio.sleep(silence / 4)

    asking = asyncio.create_task(ask())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(silence), aclosing(neighbours.notes(queue)) as notes:
                while len(said) < enough:
                    with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                        note = _DECODER.decode(await anext(notes))
                        if note.request == ROLL and not note.asks:
                            said[note.by] = note
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    return list(said.values())
