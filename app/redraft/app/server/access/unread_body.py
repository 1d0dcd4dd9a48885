"""The body of a request, and what becomes of the rest of one that nobody has read when its answer is there.

Many clients send a whole body before they read anything. To close the connection then, with bytes that are still to be
read, resets it, and the answer is lost with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final

MOST_DISCARDED: Final = 64 * 1024 * 1024
"""The most bytes of a body that are read to be thrown away."""

LINGER: Final = 10.0
"""Seconds for which they are read."""


class RequestBody:
    """Receives the body of a request, and knows whether it has come to its end."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]], receive: Callable[[], Awaitable[Any]]) -> None:
        named = dict(headers)
        self._receive = receive
        self.is_unread = b"transfer-encoding" in named or named.get(b"content-length", b"0") != b"0"

    async def receive(self) -> Any:  # noqa: ANN401 - a message of ASGI
        """Returns the next message of the request."""
        message = await self._receive()
        self.is_unread = self.is_unread and bool(message.get("more_body"))
        return message

    async def discard(self) -> None:
        """Reads what is left, a piece at a time, until it ends, is too much or takes too long."""
        read = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while self.is_unread and read < MOST_DISCARDED:
                    read += len((await self.receive()).get("body", b""))
