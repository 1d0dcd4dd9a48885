"""How long a bus lives: what still waits when it is closed ends with BusError."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redraft.events.errors import BusError

_CLOSED = "the bus is closed"


class Lifetime:
    def __init__(self) -> None:
        self._ended = False
        self._scopes: set[asyncio.Timeout] = set()

    def require_open(self) -> None:
        """Raises BusError after the end."""
        if self._ended:
            raise BusError(_CLOSED)

    @asynccontextmanager
    async def during(self) -> AsyncIterator[None]:
        """Runs the block; raises BusError when the end comes before it is done, or came already."""
        self.require_open()
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes.add(scope)
                yield
        except TimeoutError:
            if scope.expired():
                raise BusError(_CLOSED) from None
            raise
        finally:
            self._scopes.discard(scope)

    def end(self) -> None:
        self._ended = True
        for scope in self._scopes:
            scope.reschedule(asyncio.get_running_loop().time())
