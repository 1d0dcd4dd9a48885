"""How many calls of a model go on at once, and how many begin in a minute, in one process or in a whole deployment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Annotated, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

MINUTE: Final = 60.0


class ModelLimit(BaseModel):
    """What all workers of a deployment together may ask of one model; None is no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_once: Annotated[int, Field(ge=1, le=200)] | None = None
    a_minute: Annotated[int, Field(ge=1, le=200)] | None = None


class Shared(Protocol):
    """Turns that several processes share; see `redraft.events.rabbit_turns.Turns.take`."""

    def take(self, name: str, turns: int, keep: float = 0.0) -> AbstractAsyncContextManager[None]: ...


class Local:
    """Turns inside one process."""

    def __init__(self) -> None:
        self._free: dict[str, asyncio.Semaphore] = {}

    @asynccontextmanager
    async def take(self, name: str, turns: int, keep: float = 0.0) -> AsyncIterator[None]:
        """Waits for one of so many turns of a name, and holds it; for `keep` seconds from its beginning at least."""
        free = self._free.setdefault(name, asyncio.Semaphore(turns))
        await free.acquire()
        loop = asyncio.get_running_loop()
        until = loop.time() + keep
        try:
            yield
        finally:
            left = until - loop.time()
            if left > 0:
                loop.call_later(left, free.release)
            else:
                free.release()


class Turns:
    """The limits of each model, kept in this process until they are `shared` with others."""

    def __init__(self, limits: Mapping[str, ModelLimit]) -> None:
        self._limits = limits
        self._turns: Shared = Local()

    def share(self, turns: Shared) -> None:
        """From now on all who share these turns keep the limits together."""
        self._turns = turns

    @asynccontextmanager
    async def of(self, model: str) -> AsyncIterator[None]:
        """Waits for a turn to ask this model, and holds it through the block."""
        limit = self._limits.get(model)
        async with AsyncExitStack() as held:
            if limit and limit.at_once:
                await held.enter_async_context(self._turns.take(f"once.{model}", limit.at_once))
            if limit and limit.a_minute:
                await held.enter_async_context(self._turns.take(f"minute.{model}", limit.a_minute, MINUTE))
            yield
