"""The state of the HTTP API in a process: its open runtime, the actors and workflows that it offers, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from redraft.app.server.leases import Leases
from redraft.app.server.offers import Offers
from redraft.app.settings.settings import Settings
from redraft.app.wiring.local import LocalRuntime
from redraft.events.bus.port import Queues
from redraft.events.errors import StoreError
from redraft.events.subscriptions.subscriptions import Subscriptions
from redraft.events.tokens import Tokens

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from redraft.app.server.access.openid import OpenId


class Readers:
    """Counts those who follow events."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Counts one more within the block."""
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1


SHOWN: Final = 5.0
"""Seconds to wait until what was recorded can be looked at."""


@dataclass(frozen=True, slots=True)
class Service:
    """The parts that requests are answered with.

    `offers` may be submitted; `working` leases requests to workers. `tokens` and `subscriptions` are None where the
    store keeps none. `queues` counts who serves an actor; None where nothing runs.
    `openid` signs people in whom a provider knows. A `read_only` one changes nothing. `closing` is set when the process
    ends: streams end then.
    """

    settings: Settings
    runtime: LocalRuntime
    offers: Offers
    queues: Queues | None
    subscriptions: Subscriptions | None
    working: Leases
    tokens: Tokens | None
    log: FilteringBoundLogger
    read_only: bool = False
    openid: OpenId | None = None
    readers: Readers = field(default_factory=Readers)
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    async def shown(self, position: int) -> None:
        """Returns once the read models count the event at this position, or when that cannot be known in time."""
        with suppress(TimeoutError, StoreError):
            async with asyncio.timeout(SHOWN):
                await self.runtime.views.wait_for(position)


Serves: TypeAlias = NamedDependency[SkipValidation[Service]]
"""The service, as a handler gets it."""
