"""A person's word to a run that goes on, and what was recorded of it.

With a broker it goes to the coordinator's inbox. Without one there is no way to another process, so the coordinator's
own `CommandHandler` decides on it here, and records it: a process that works on the run sees that the log has moved on,
and `redraft run --resume` finds it there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from msgspec.structs import replace

from redraft.actors.approval import fault_of
from redraft.actors.evolve import fold
from redraft.actors.limits import loop_path, with_limits
from redraft.actors.run_state import RunState
from redraft.app.compose import House, open_handler, open_log
from redraft.app.deployment import open_client
from redraft.app.ids import new_message_id
from redraft.app.settings import LOCAL, Settings
from redraft.events.commands import (
    ApproveDraft,
    ChangeLimits,
    EditDraft,
    GuideRun,
    PauseRun,
    RejectDraft,
    ResumeRun,
    SteeringMessage,
)
from redraft.events.domain_events import RunEnded
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import InputError, NoSuchRun
from redraft.projections.projector import catch_up
from redraft.projections.run_list import RunLine, find_run

ARRIVAL: Final = 5.0
"""Seconds in which a run that was submitted just now is to be in the log."""

AGAIN: Final = 0.1
"""Seconds between two looks for it."""

Word: TypeAlias = Callable[[Sequence[Recorded]], SteeringMessage]
"""Makes what a person says from the events of the run."""

PATIENCE: Final = 10.0
"""Seconds in which a coordinator is to take up what was said."""


async def steer(settings: Settings, text: str, word: Word) -> tuple[str, Recorded | None]:
    """Says a word to the run that a text means; gives its id, and the event, if it was recorded within `PATIENCE`.

    Raises NoSuchRun, StoreError, BusError, and InputError (PlanError) when
    it would change nothing: the run has ended, was set aside, is paused already, or has no such loop.
    """
    async with open_log(settings) as house:
        found = await _found(house, text, ARRIVAL if settings.bus != LOCAL else 0.0)
        run = found.run
        if found.status == "quarantined":
            raise InputError(f"run {run} was set aside, and nothing more is done for it: {found.reason}")
        past = await house.store.read(run)
        message = word(past)
        refuse(fold(event.data for event in past), message, settings.draft_limit)
        if settings.bus == LOCAL:
            return run, await recorded(settings, house, message)
        return run, await _sent(settings, house, message)


async def _found(house: House, text: str, patience: float) -> RunLine:
    """The run that a text means; one that was submitted just now may still be on its way, and is waited for."""
    clock = asyncio.get_running_loop().time
    end = clock() + patience
    while True:
        try:
            return await find_run(house.views, text)
        except NoSuchRun:
            if clock() >= end:
                raise
        await asyncio.sleep(AGAIN)
        await catch_up(house.views, house.store)


def refuse(state: RunState, message: SteeringMessage, limit: int) -> None:
    """Raises InputError with the reason and the remedy when this message would change nothing."""
    run = message.run
    if state.status != "running":
        raise InputError(f"run {run} has ended: nothing can be said to it any more; see redraft show {run}")
    match message:
        case GuideRun(advice=advice) if not advice.strip():
            raise InputError("the advice is empty; say in a sentence what the next refinement is to heed")
        case PauseRun() if state.paused:
            raise InputError(f"run {run} is paused already; go on with: redraft resume {run}")
        case ResumeRun() if not state.paused:
            raise InputError(f"run {run} is not paused; if nobody works on it: redraft run --resume {run}")
        case ChangeLimits(loop=loop, until=until, max_iterations=most):
            with_limits(state.plan, loop_path(state.plan, loop), until, most)
        case ApproveDraft() | RejectDraft() | EditDraft() if fault := fault_of(state, message, limit):
            raise InputError(f"run {run}: {fault}")
        case ApproveDraft(draft=draft) if gate := state.bars.gates.get(draft.sha256):
            raise InputError(f"run {run}: {gate}, and no approval overrules a gate; reject the draft, or edit it")
        case _:
            return


async def recorded(settings: Settings, house: House, message: SteeringMessage) -> Recorded | None:
    """Has it decided and recorded here, as a coordinator would. None when it changes nothing; raises StoreError."""
    said = new_message_id()
    message = replace(message, key=message.key or said)
    async with open_handler(settings, house) as handler:
        settled = await handler.carry_out(message, Origin(said, message.by, "", message.run))
    if settled.refused:
        raise InputError(settled.refused)
    if settled.recorded:
        return settled.recorded[0]
    refuse(fold(event.data for event in await house.store.read(message.run)), message, settings.draft_limit)
    return None


async def _sent(settings: Settings, house: House, message: SteeringMessage) -> Recorded | None:
    after = await house.store.head()
    async with open_client(settings, reads=False) as client:
        said = await client.steer(message)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            async for event in house.client.subscribe(after, run=message.run):
                if event.id == f"{said}.0":
                    return event
                if isinstance(event.data, RunEnded):
                    raise InputError(f"run {message.run} ended just before; see redraft show {message.run}")
    return None
