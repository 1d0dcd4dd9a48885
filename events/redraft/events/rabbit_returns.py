"""What goes back to a queue other than by the server alone: letters that are sent again, each with its own count.

Letters that came together, and came back because a reader left them or died, are sent again one by one before anybody
works on them: one of them may be what stops readers. A classic queue says of a message that it came back, not how
often: there each that did is sent again with its count in a header, so that one that stops every reader is set aside in
the end. A reader that leaves a classic queue sends again what it has not settled, so that only what was begun counts.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from redraft.events.bus import LARGEST_LETTER
from redraft.events.errors import NotAllowed, TooLarge
from redraft.events.rabbit_held import Held
from redraft.events.rabbit_letters import SHORTENED
from redraft.events.rabbit_link import LOST
from redraft.events.rabbit_session import Session


class Return(msgspec.Struct, frozen=True, gc=False):
    """A letter to be sent again, as one that was `delivered` so many times."""

    held: Held
    delivered: int


class Returns:
    """`send` sends letters again; `park` sets one aside with the reason, as one that was delivered `limit` times is,
    even if so many are set aside that consumers may not add to them.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Return]], Awaitable[None]],
        park: Callable[[Held, str, bool], Awaitable[None]],
        limit: int,
    ) -> None:
        self._send = send
        self._park = park
        self._limit = limit
        self._waiting: deque[Return] = deque()
        self._sending: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, letters: Sequence[Held], *, begun: bool) -> None:
        """Letters of one message. If work on them was `begun`, this delivery counts."""
        self._waiting += [Return(held, held.delivered - (not begun)) for held in letters]

    def forget(self, session: Session) -> None:
        """What came by a session that ended comes again by another."""
        self._waiting = deque(each for each in self._waiting if each.held.session is not session)

    async def sent(self) -> None:
        """Sends again all that is here, and settles it. Raises BusError; what it could not send stays.

        Whoever is cancelled here does not stop it, so that nothing is sent and left unsettled.
        """
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_all())
            self._sending.add_done_callback(_heard)
        await asyncio.shield(self._sending)

    async def end(self) -> None:
        """Stops sending."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.wait({self._sending})

    async def _send_all(self) -> None:
        letters = list(self._waiting)
        reasons = [self._against(each) for each in letters]
        again = [each for each, reason in zip(letters, reasons, strict=True) if not reason]
        if again:
            await self._send(again)
            self._settle(again)
        for each, reason in zip(letters, reasons, strict=True):
            if reason:
                await self._set_aside(each, reason)
        for session in {each.held.session for each in letters}:
            session.send_soon()

    def _against(self, letter: Return) -> str:
        """Why a letter is not sent again; empty when it is."""
        size = len(letter.held.delivery.letter.body)
        if size > LARGEST_LETTER:
            return f"it came back, and is too large to be sent again: {size:,} bytes"
        if SHORTENED in letter.held.headers:
            return "it came back, and its headers are too large to be sent again"
        if letter.delivered >= self._limit and letter.held.bundle is None:
            return f"delivered {letter.delivered} times; the last consumer left before it was settled"
        return ""

    async def _set_aside(self, letter: Return, reason: str) -> None:
        try:
            await self._park(letter.held, reason, True)
        except (TooLarge, NotAllowed):  # the server has it, and can move it all the same
            with suppress(*LOST):
                await letter.held.session.dead_letter(letter.held.message)
            self._forget([letter])
        else:
            self._settle([letter])

    def _settle(self, letters: Sequence[Return]) -> None:
        self._forget(letters)
        for each in letters:
            each.held.settle()

    def _forget(self, letters: Sequence[Return]) -> None:
        done = {id(each) for each in letters}
        self._waiting = deque(each for each in self._waiting if id(each) not in done)


def _heard(sending: asyncio.Task[None]) -> None:
    """Looks at an error, so that asyncio does not complain of it when nobody waits any more."""
    if not sending.cancelled():
        sending.exception()
