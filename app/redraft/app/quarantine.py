"""Setting a run aside: a person's word about a run that may be one that cannot be folded, or not even read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from redraft.app.compose import House, open_handler, open_log
from redraft.app.deployment import open_client
from redraft.app.ids import new_message_id
from redraft.app.settings import LOCAL, Settings
from redraft.events.codec import HASHED
from redraft.events.commands import QuarantineRun
from redraft.events.domain_events import RunQuarantined
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import InputError
from redraft.projections.run_list import find_run

PATIENCE: Final = 10.0
"""Seconds in which a coordinator is to take it up."""


async def quarantine(settings: Settings, text: str, reason: str, by: str) -> tuple[str, Recorded | None]:
    """Sets the run that a text means aside; gives its id, and the event, if it was recorded within `PATIENCE`.

    Raises NoSuchRun, StoreError, BusError, and InputError when it is set aside already, or no reason is given.
    """
    if not reason.strip():
        raise InputError("no reason is given; say in a sentence why nobody is to rely on the run: --reason TEXT")
    async with open_log(settings) as house:
        found = await find_run(house.views, text)
        if found.status == "quarantined":
            raise InputError(f"run {found.run} is set aside already: {found.reason}")
        message = QuarantineRun(found.run, by, reason, new_message_id())
        if settings.bus == LOCAL:
            return found.run, await recorded_here(settings, house, message)
        await _require_event(house, found.run)
        return found.run, await _sent(settings, house, message)


async def _require_event(house: House, run: str) -> None:
    """Raises InputError when the last row of a run has no hash: no coordinator could record what follows it."""
    version, _, state, _ = (await house.store.raw(run))[-1]
    if not bytes(state).startswith(HASHED):
        raise InputError(
            f"run {run} cannot be set aside by an event: its last row, {version}, is none, and the database lets "
            "nothing follow it; nothing is decided or done for it as it is"
        )


async def recorded_here(settings: Settings, house: House, message: QuarantineRun) -> Recorded:
    """Has it recorded here, as a coordinator would, which does not fold the run for it."""
    async with open_handler(settings, house) as handler:
        settled = await handler.carry_out(message, Origin(new_message_id(), message.by, "", message.run))
    if not settled.recorded:
        raise InputError(settled.refused or f"run {message.run} is set aside already")
    return settled.recorded[0]


async def _sent(settings: Settings, house: House, message: QuarantineRun) -> Recorded | None:
    after = await house.store.head()
    async with open_client(settings, reads=False) as client:
        await client.quarantine(message.run, message.reason, by=message.by)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            async for event in house.client.subscribe(after, run=message.run):
                if isinstance(event.data, RunQuarantined):
                    return event
    return None
