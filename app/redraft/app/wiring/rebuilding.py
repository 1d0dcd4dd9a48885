"""Rebuilds read models from the log; those that ship in two processes, where a log is long."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from redraft.app.settings.settings import Settings
from redraft.app.wiring.stores import open_store_of, open_views_of
from redraft.projections.backends import SHIPPED
from redraft.projections.engine import projector
from redraft.projections.engine.projection import Projection
from redraft.projections.engine.states import State, Switched
from redraft.projections.engine.writer import Notice

LONG: Final = 50_000
"""The number of events from which on a second process saves more time than its start takes."""

BESIDE: Final = ("critiques", "texts", "tree")
"""The shipped projections that the second process rebuilds: about half of the work."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of a rebuild. `same`: the rows are those that were there before; None when those could not be
    compared.

    `projections` are those that were, `rows` theirs. `differ` says, for each table that was compared, how many rows
    were not there before; `stopped` which projections could not be rebuilt, and why: their rows are as they were.
    """

    projections: tuple[str, ...]
    events: int
    seconds: float
    rows: dict[str, int]
    same: bool | None
    differ: dict[str, int]
    stopped: dict[str, str]


async def rebuild_shipped(settings: Settings) -> Rebuilt:
    """Rebuilds all shipped projections, with a second process where the log is long and there are cores for both."""
    began = time.monotonic()
    async with open_store_of(settings) as store, open_views_of(settings, SHIPPED):  # mends a damaged file at once
        is_long = await store.head() >= LONG
    if not is_long or (os.cpu_count() or 1) == 1:
        return await rebuild_views(settings, SHIPPED)
    elsewhere = asyncio.create_task(_rebuild_elsewhere(settings))
    try:
        here = await rebuild_views(settings, [each for each in SHIPPED if each.name not in BESIDE])
        there = await elsewhere or await rebuild_views(settings, [each for each in SHIPPED if each.name in BESIDE])
    finally:
        elsewhere.cancel()
        await asyncio.gather(elsewhere, return_exceptions=True)
    async with open_store_of(settings) as store, open_views_of(settings, SHIPPED) as views:
        await projector.catch_up(views, store)  # both end at the same event, and a file that was replaced is filled
    return _joined(here, there, time.monotonic() - began)


async def rebuild_views(settings: Settings, chosen: Sequence[Projection]) -> Rebuilt:
    """Rebuilds these projections in this process."""
    switched: list[Switched] = []

    def note(notice: Notice) -> None:
        if isinstance(notice, Switched):
            switched.append(notice)

    async with open_store_of(settings) as store, open_views_of(settings, chosen, note) as views:
        began = time.monotonic()
        events = await projector.rebuild(views, store)
        seconds = time.monotonic() - began
        states = [each for each in await views.states() if each.name in views.names]
    return _summary(chosen, events, seconds, switched, states)


async def _rebuild_elsewhere(settings: Settings) -> Rebuilt | None:
    """Rebuilds the projections of `BESIDE` in a process of their own; returns None when it could not."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "redraft", "rebuild", *BESIDE, "--json"),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=DEVNULL,  # what it cannot do, this process tries, and tells
        env={**os.environ, "REDRAFT_STORE": settings.store},
    )
    try:
        told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        return msgspec.json.decode(told, type=Rebuilt)
    except msgspec.MsgspecError:
        return None


def _joined(one: Rebuilt, other: Rebuilt, seconds: float) -> Rebuilt:
    done = {*one.projections, *other.projections}
    answers = [each.same for each in (one, other) if each.same is not None]
    return Rebuilt(
        tuple(each.name for each in SHIPPED if each.name in done),
        max(one.events, other.events),
        seconds,
        one.rows | other.rows,
        all(answers) if answers else None,
        one.differ | other.differ,
        one.stopped | other.stopped,
    )


def _summary(
    chosen: Sequence[Projection], events: int, seconds: float, switched: Sequence[Switched], states: Sequence[State]
) -> Rebuilt:
    stopped = {
        each.name: f"event {fault.failed}: {fault.error}"
        for each in states
        for fault in (each.building or each,)
        if fault.failed
    }
    compared = {
        name: table for each in switched if each.projection not in stopped for name, table in each.tables.items()
    }
    answers = [table.same for table in compared.values() if table.same is not None]
    return Rebuilt(
        tuple(each.name for each in chosen if each.name not in stopped),
        events,
        seconds,
        {table: count for each in states if each.name not in stopped for table, count in each.rows.items()},
        all(answers) if answers else None,
        {name: table.differ for name, table in compared.items() if table.differ is not None},
        stopped,
    )
