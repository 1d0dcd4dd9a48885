"""Opens what the HTTP API works with: this process as the runtime, or connections beside a deployment or a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from redraft.actors.workflow.actor import Actor
from redraft.app.process.lifecycle import opened, retry_forever, together
from redraft.app.process.logs import shown_url
from redraft.app.server.access.identity import is_signed
from redraft.app.settings.settings import LOCAL, Settings
from redraft.app.wiring.deployment import FOR_EVER, MEMORY, open_bus, open_survey
from redraft.app.wiring.local import Endurance, LocalRuntime, build_client, open_local, open_readonly
from redraft.events.backends import open_lease
from redraft.events.bus.local import LocalBus
from redraft.events.bus.port import Queues
from redraft.events.errors import EncryptionKeyMissing, InputError, StoreError
from redraft.events.store.lease import LOCKED, Lease, this_process
from redraft.projections.engine.projector import follow
from redraft.projections.read_models.runs_query import RunFilter, RunStatus, page_of_runs

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

TAKEOVER: Final = 2.0
"""Seconds to wait for the place of a process that is just ending; the place of one that has ended is free at once."""

_PAGE: Final = 500
_GOING_ON: Final[Sequence[RunStatus]] = ("running", "waiting", "paused")


@asynccontextmanager
async def open_runtime(
    settings: Settings, actors: Sequence[Actor], log: FilteringBoundLogger, patience: float, *, read_only: bool
) -> AsyncIterator[tuple[LocalRuntime, Queues | None]]:
    """Yields the runtime to answer with, and what counts who serves an actor, if there is any.

    On `local:` everything runs here, and goes on with the runs that were submitted to this store before. With a broker
    it is a client of the deployment. A `read_only` one sends nothing. Raises InputError when another process is the
    runtime of the store already, or becomes it while the store is away; StoreError and BusError when a server cannot be
    reached for `patience` seconds at the start: after that it is tried for ever.
    """
    async with AsyncExitStack() as stack:
        if read_only or settings.bus != LOCAL:
            yield await stack.enter_async_context(_beside(settings, log, patience, read_only=read_only))
            return
        endurance = Endurance(log)
        if settings.store != MEMORY:
            lease = await stack.enter_async_context(opened(lambda: _served_alone(settings, log), patience, log))
            endurance = Endurance(log, lease.check)
        runtime = await stack.enter_async_context(opened(lambda: _resumed(settings, actors, endurance), patience, log))
        yield runtime, runtime.bus if isinstance(runtime.bus, LocalBus) else None


@asynccontextmanager
async def _served_alone(settings: Settings, log: FilteringBoundLogger) -> AsyncIterator[Lease]:
    """Holds the right to serve the store within the block, and takes it again when the store was away.

    Raises what `_take` does; StoreError only at the start.
    """
    async with open_lease(settings.store) as lease:
        await _take(lease, settings)

        async def hold() -> None:
            if not lease.is_held:
                await _take(lease, settings)
            await lease.keep()

        async with together([retry_forever("lease", hold, log)]):
            yield lease


async def _take(lease: Lease, settings: Settings) -> None:
    """Raises InputError when another process has the lease, StoreError when nobody can say now who has it."""
    holders = [LOCKED]
    try:
        async with asyncio.timeout(TAKEOVER):
            await lease.acquire(holders.append)
    except TimeoutError:
        holder = holders[-1]
        if holder == LOCKED or holder.holder == this_process():  # our own connection, which the server has not missed
            raise StoreError(f"the lease of store {shown_url(settings.store)} {_UNANSWERED}") from None
        remedy = "end it first, or stand beside it with --read-only"
        raise InputError(
            f"another process serves this store already, or a coordinator does: {holder}; {remedy}"
        ) from None


_UNANSWERED: Final = "cannot be read or taken: its database does not answer, or another process keeps it locked"


@asynccontextmanager
async def _resumed(settings: Settings, actors: Sequence[Actor], endurance: Endurance) -> AsyncIterator[LocalRuntime]:
    """Runs everything here, and goes on with the runs that were submitted to this store before."""
    resume: Sequence[str] = ()
    if settings.store != MEMORY:
        resume = await _submitted(settings)
        endurance.log.info("resuming", runs=len(resume))
    async with open_local(settings, actors, resume=resume, endurance=endurance) as runtime:
        yield runtime


async def _submitted(settings: Settings) -> list[str]:
    """Returns the runs that go on and were submitted by the HTTP API; those of other processes are their own."""
    found: list[str] = []
    async with open_readonly(settings) as log:
        for status in _GOING_ON:
            after = None
            while page := await page_of_runs(log.views, RunFilter(status), _PAGE, after):
                for line in page:
                    first = await log.store.read(line.run, upto=1)
                    found += [line.run] if first and is_signed(first[0].actor) else []
                after = page[-1]
    return found


@asynccontextmanager
async def _beside(
    settings: Settings, log: FilteringBoundLogger, patience: float, *, read_only: bool
) -> AsyncIterator[tuple[LocalRuntime, Queues | None]]:
    """Reads a store that other processes write, and speaks to their broker if there is one.

    Raises EncryptionKeyMissing when runs are to be begun in a store that encrypts them, without its key.
    """
    async with AsyncExitStack() as stack:
        reading = await stack.enter_async_context(opened(lambda: open_readonly(settings), patience, log))
        keeping_up = _keep_up(reading, log)
        if settings.bus == LOCAL:
            await stack.enter_async_context(together([keeping_up]))
            yield reading, None
            return
        bus = await stack.enter_async_context(opened(lambda: open_bus(settings, FOR_EVER), patience, log))
        if not read_only:
            await reading.store.require_sealing()
        survey = await stack.enter_async_context(open_survey(settings))
        client = reading.client if read_only else build_client(settings, reading.store, bus, reading.views.wait_for)
        await stack.enter_async_context(together([keeping_up]))
        yield replace(reading, client=client, bus=bus), survey


async def _keep_up(reading: LocalRuntime, log: FilteringBoundLogger) -> None:
    """Keeps the read models up to date; leaves that to those who have the key once runs are encrypted."""
    try:
        await retry_forever("projector", partial(follow, reading.views, reading.store), log)
    except EncryptionKeyMissing as error:
        reading.keeping.left_since = datetime.now(UTC)
        log.warning("read models are left to others", error=str(error))
