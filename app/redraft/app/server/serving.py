"""Runs the HTTP API in its process: the runtime behind it, the address, and the end."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from redraft.app.process.health import health_file
from redraft.app.process.lifecycle import PATIENCE, opened
from redraft.app.server.access.gate import Gate, require_protected
from redraft.app.server.access.sessions import Sessions
from redraft.app.server.application import Pages, build_application
from redraft.app.server.leases import Leases
from redraft.app.server.listening import address_of, listening
from redraft.app.server.offers import Offers
from redraft.app.server.opening import open_runtime
from redraft.app.server.service import Service
from redraft.app.settings.settings import Settings
from redraft.app.telemetry.telemetry import find_telemetry
from redraft.app.wiring.deployment import MEMORY
from redraft.events.backends import open_http_workers, open_subscriptions, open_tokens
from redraft.events.bus.port import PeerChannel
from redraft.events.errors import InputError
from redraft.events.tokens import Tokens

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from redraft.app.server.access.openid import OpenId

GRACE: Final = 10.0
"""Seconds that steps under way have when the process is to end; those that take longer are done again."""


async def answer_http(
    settings: Settings,
    offers: Offers,
    bound: socket.socket,
    drain: asyncio.Event,
    ready: Callable[[], None],
    log: FilteringBoundLogger,
    pages: Pages,
    *,
    read_only: bool = False,
    patience: float = PATIENCE,
    health: Path | None = None,
) -> None:
    """Answers requests on a bound socket until `drain` is set and those under way are answered.

    `ready` is called when it answers; `pages` makes the pages beside the API. Raises InputError when another process is
    the runtime of the store, StoreError and BusError when a server cannot be reached at the start.
    """
    async with AsyncExitStack() as stack:
        looking_up = opened(lambda: _opened_tokens(settings), patience, log)
        tokens, has_tokens = await stack.enter_async_context(looking_up)
        require_protected(settings.http, has_tokens=has_tokens, has_provider=settings.oidc is not None)
        openid = await stack.enter_async_context(_opened_openid(settings, log)) if settings.oidc else None
        opening = open_runtime(settings, offers.actors, log, patience, read_only=read_only)
        runtime, queues = await stack.enter_async_context(opening)
        telemetry = find_telemetry()
        told = telemetry.meters.note_health if telemetry else None
        await stack.enter_async_context(health_file(health, runtime.store.head, log, told=told))
        names = None if tokens is None else await stack.enter_async_context(open_subscriptions(settings.store))
        workers = None if tokens is None else await stack.enter_async_context(open_http_workers(settings.store))
        peers = runtime.bus if isinstance(runtime.bus, PeerChannel) else None
        leasing = Leases(runtime.bus, settings.max_draft_bytes, lambda: token_hex(16), log, workers, peers)
        leases = await stack.enter_async_context(leasing)
        service = Service(settings, runtime, offers, queues, names, leases, tokens, log, read_only, openid)
        sessions = Sessions(tokens, os.urandom, bound.getsockname()[1])
        gate = Gate(build_application(service, pages(service, sessions)), settings.http, tokens, sessions, openid)
        async with listening(gate, settings.http, bound, service.closing) as serving:
            log.info("listening", url=address_of(settings.http, bound))
            ready()
            draining = asyncio.create_task(drain.wait())
            await asyncio.wait({draining, serving}, return_when=asyncio.FIRST_COMPLETED)
            draining.cancel()
        runtime.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE):
                await runtime.worked.wait()


@asynccontextmanager
async def _opened_tokens(settings: Settings) -> AsyncIterator[tuple[Tokens | None, bool]]:
    """Yields the tokens of the store, None where it keeps none, and whether there is one to call with."""
    if settings.store == MEMORY:
        yield None, False
        return
    async with open_tokens(settings.store) as tokens:
        yield tokens, any(each.scopes for each in await tokens.all())


def _opened_openid(settings: Settings, log: FilteringBoundLogger) -> AbstractAsyncContextManager[OpenId]:
    """Returns what signs people in by the provider of the settings. Raises InputError without its libraries."""
    try:
        from redraft.app.server.access.openid import opened_openid  # an extra, and it takes a second to import
    except ModuleNotFoundError as error:
        raise InputError(f"a sign-in by OpenID Connect needs {error.name}: pip install 'redraft[oidc]'") from None
    return opened_openid(settings, os.urandom, log)
