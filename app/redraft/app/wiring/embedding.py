"""Runs a worker or a coordinator inside a program of your own, instead of `redraft worker` or `redraft coordinator`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor
from redraft.actors.workflow.workflow import Workflow
from redraft.app.process.logs import library_log
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.coordinating import coordinate
from redraft.app.wiring.deployment import work

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


async def run_worker(
    *actors: Actor | Workflow,
    settings: Settings | None = None,
    drain: asyncio.Event | None = None,
    ready: Callable[[], None] = ignore,
    log: FilteringBoundLogger | None = None,
) -> None:
    """Serves these actors, and those of these workflows, through the broker of the settings until it is cancelled.

    Once `drain` is set it takes no new work, and returns when all that is under way is reported. `ready` is called when
    it is connected; without a `log` it logs to Python's own logger `redraft`. Raises InputError without a broker
    (`REDRAFT_BUS`), ActorError for an actor that cannot be isolated, BusError when the broker cannot be reached.
    """
    given = [each.actors.values() if isinstance(each, Workflow) else (each,) for each in actors]
    serving = tuple(dict.fromkeys(actor for group in given for actor in group))
    await work(settings or read_settings(), serving, drain or asyncio.Event(), ready, log or library_log())


async def run_coordinator(
    *,
    settings: Settings | None = None,
    drain: asyncio.Event | None = None,
    ready: Callable[[], None] = ignore,
    log: FilteringBoundLogger | None = None,
) -> None:
    """Decides, records and requests for all runs in the store of the settings until it is cancelled, or `drain` is set.

    Any number may run at once. `ready` is called when it is about to take messages; without a `log` it logs to Python's
    own logger `redraft`. Raises InputError without a broker or a store that others reach, BusError and StoreError when
    they cannot be reached.
    """
    await coordinate(settings or read_settings(), ready, log or library_log(), drain=drain or asyncio.Event())
