"""Erasing a run: its key is destroyed, that it was is recorded, and the read models let go of its texts."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from typing import Final

import msgspec

from redraft.app.compose import House
from redraft.app.settings import Settings, views_path
from redraft.events.appends import SEALED
from redraft.events.domain_events import RunEnded, RunErased, RunQuarantined
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError, StoreError
from redraft.events.sqlite_file import explain
from redraft.events.texts import ERASED
from redraft.projections.projector import catch_up
from redraft.projections.run_list import find_run
from redraft.projections.shipped import SHIPPED

RECORDED_SECONDS: Final = 30.0
"""How long the record of an erasure is waited for."""

MOST_FORKS: Final = 20
"""Forks of an erased run that are named."""


class Erased(msgspec.Struct, frozen=True):
    """A run whose texts cannot be read, who had it erased, when (UTC), and what is left to do, a line each."""

    run: str
    by: str
    reason: str
    time: datetime
    leftover: tuple[str, ...] = ()


async def erase_run(house: House, settings: Settings, text: str, *, by: str, reason: str) -> Erased:
    """Destroys the key of the run that `text` names, and records it; what is done already is not done again.

    The key goes first: should this process die in between, the texts are gone, and the next call records it. Raises
    NoSuchRun, and InputError for a run that goes on, or that was recorded in the clear.
    """
    run = (await find_run(house.views, text)).run
    await _refuse(house, run)
    await house.store.destroy_key(run)
    time, told = await _record(house, run, by, reason)
    behind = await _caught_up(house)
    left = await asyncio.to_thread(_compacted, settings, await _own_tables(house))
    return Erased(run, told.by, told.reason, time, (*await _forks(house, run), *behind, *left))


async def _forks(house: House, run: str) -> list[str]:
    """Tells of the forks of a run, which hold its texts up to where they parted under keys of their own."""
    sql = "SELECT run FROM runs WHERE parent = ? AND brief <> ? ORDER BY started LIMIT ?"
    found = [str(name) for (name,) in await house.views.query(sql, (run, ERASED, MOST_FORKS))]
    return [f"its fork {name} holds its texts too, as far as it repeats them: redraft erase {name}" for name in found]


async def _caught_up(house: House) -> list[str]:
    """Brings the read models that have rows past the erasure; tells of those that only their owners can bring."""
    await catch_up(house.views, house.store)
    shipped = {each.name: each for each in SHIPPED}
    head, left = await house.store.head(), []
    for state in await house.views.states():
        if state.name in shipped and not state.failed:
            if state.name not in house.views.names:
                await house.models.of(shipped[state.name])
        elif state.position < head:
            left.append(
                f"the projection {state.name!r} may still hold parts of its texts: bring it up to date, or drop it"
            )
    return left


async def _refuse(house: House, run: str) -> None:
    """Raises InputError for a run that cannot be erased, saying what to do instead."""
    entries = await house.store.entries(run)
    if not any(isinstance(each, Recorded) and isinstance(each.data, RunEnded | RunQuarantined) for each in entries):
        raise InputError(f"run {run} goes on, and would record more texts; cancel it first, or wait until it has ended")
    if not any(SEALED in state for _, _, state, _ in await house.store.raw(run)):
        raise InputError(
            f"run {run} was recorded in the clear, and what is recorded is never changed: it cannot be erased. "
            f"To be rid of it, move all else to a new store: redraft export --without {run} -o FILE, redraft import "
            "FILE --store …, and delete the old one; set REDRAFT_ENCRYPT=1 for the runs to come"
        )


async def _record(house: House, run: str, by: str, reason: str) -> tuple[datetime, RunErased]:
    """When the erasure was recorded, and what was, once it is in the log."""
    start = await house.store.head()
    for event in await house.store.entries(run):
        if isinstance(event, Recorded) and isinstance(event.data, RunErased):
            return event.time, event.data
    await house.client.erased(run, reason, by=by)
    try:
        async with asyncio.timeout(RECORDED_SECONDS):
            async for event in house.client.subscribe(start, run=run):
                if isinstance(event.data, RunErased):
                    return event.time, event.data
    except TimeoutError:
        pass
    raise StoreError(
        f"run {run}: its texts can no longer be read, but that is not recorded yet; call redraft erase again"
    )


def _rewritten(url: str, tables: Sequence[str]) -> list[str]:
    """Makes new files for tables of PostgreSQL, without the rows that were deleted; tells when that cannot be done."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    from redraft.events.postgres_connection import Database

    database = Database(url)
    try:
        with database.connect() as connection:
            for name in tables:
                connection.execute(SQL("VACUUM FULL {}").format(Identifier(name)))
    except psycopg.Error as error:
        named = ", ".join(tables)
        return [f"deleted rows may still hold parts of its texts ({database.explain(error)}): VACUUM FULL {named}"]
    return []


async def _own_tables(house: House) -> list[str]:
    """The tables of projections that do not ship with Redraft: they may have held texts of a run that is encrypted."""
    shipped = {table.name for each in SHIPPED for table in each.tables}
    tables: list[str] = []
    for (found,) in await house.views.query("SELECT tables FROM redraft_projections"):
        tables += [name for name in msgspec.json.decode(str(found), type=dict[str, object]) if name not in shipped]
    return tables


def _compacted(settings: Settings, tables: Sequence[str]) -> list[str]:
    """Rewrites read models in which deleted texts may still lie; tells when that cannot be done."""
    path = views_path(settings.store)
    if isinstance(path, str):
        return _rewritten(path, tables)
    if path is None:
        return []
    try:
        with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        return [
            f"parts of its texts may still lie in {path} ({explain(error)}); stop what uses it and delete that file"
        ]
    return []
