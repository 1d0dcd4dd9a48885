"""Messages as a reader holds them: each letter with the session and message that it came with."""

from __future__ import annotations

import msgspec
from aiormq.abc import DeliveredMessage

from redraft.events.bus import Delivery
from redraft.events.rabbit_letters import SENT, USER, Headers, headers_of, letter_headers, number, sendable
from redraft.events.rabbit_session import Session


class Bundle:
    """How many letters of one message are not settled, and whether some reader has had one of them."""

    __slots__ = ("open", "taken")

    def __init__(self, letters: int) -> None:
        self.open = letters
        self.taken = False


class Held(msgspec.Struct, frozen=True, gc=False):
    """A delivery, and the session and message that it came with: neither is that of another connection.

    `delivered` is how often the message was delivered, this time included; the delivery's own count has on top how
    often it was sent again by who published it. `bundle` is there if the message holds several letters.
    """

    delivery: Delivery
    session: Session
    message: DeliveredMessage
    delivered: int
    bundle: Bundle | None = None

    @property
    def sent(self) -> int:
        """How often the message was sent before without an answer."""
        return number(headers_of(self.message), SENT)

    @property
    def headers(self) -> Headers:
        """Those of a message that would hold this letter alone, and say who sent it first."""
        mine = sendable(letter_headers(self.delivery.letter) if self.bundle else headers_of(self.message))
        return {**mine, USER: self.delivery.user}

    @property
    def comes_with_taken(self) -> bool:
        """Whether some reader has had one of the letters of its message."""
        return self.bundle is not None and self.bundle.taken

    def settle(self) -> None:
        """Has the message settled, once all its letters are."""
        if self.bundle is not None:
            self.bundle.open -= 1
        if self.bundle is None or self.bundle.open == 0:
            self.session.settle(self.message)
