"""Erases a run's texts: destroys its key, records the erasure, and removes the texts from the read models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.actors.runtime.coordinating.setting_aside import is_sealed
from redraft.app.process.ids import new_message_id
from redraft.app.settings.settings import Settings, views_path
from redraft.app.wiring.local import LocalRuntime, open_handler
from redraft.events.backends import rewrite_tables
from redraft.events.errors import InputError, KeyNotOverwritten, StoreError, Tampered
from redraft.events.messages.codec import link_of
from redraft.events.messages.commands import EraseRun
from redraft.events.messages.domain_events import ItemOf, RunEnded, RunErased, RunQuarantined, StepRequested
from redraft.events.messages.envelope import Origin, Recorded, Unreadable
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.item_ids import MARK, is_within, lineage, run_around, run_of_item
from redraft.events.messages.redaction import ERASED
from redraft.projections.backends import SHIPPED
from redraft.projections.engine.projector import catch_up
from redraft.projections.read_models.runs_query import find_run

_OVER: Final = tuple(f"{EVENT_NAMES[kind].rpartition('.')[0]}." for kind in (RunEnded, RunQuarantined))
"""How the names of the events begin after which a run records no more texts, of whatever version they are."""

MAX_FORKS: Final = 20
"""The maximum number of forks of an erased run that are listed."""


class Erased(msgspec.Struct, frozen=True):
    """A run whose texts can no longer be read, who had it erased, when (UTC), and what is left to do, a line each.

    `items` are the runs of its items, which were erased before it.
    """

    run: str
    by: str
    reason: str
    time: datetime
    leftover: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


async def erase_run(runtime: LocalRuntime, settings: Settings, text: str, *, by: str, reason: str) -> Erased:
    """Destroys the key of the run that `text` identifies, and records that; steps that are done already are skipped.

    The runs of its items are erased before it, the innermost first; those that have not begun never will. The key goes
    first: if this process dies in between, the texts are gone, and the next call records it. Raises NoSuchRun, and
    InputError for a run that has not ended, that was not encrypted, or that is the run of an item whose draft the run
    around it still holds.
    """
    run = (await find_run(runtime.views, text)).run
    await _check_erasable(runtime, run)
    await _check_around(runtime, run)
    items, kept = await _items_of(runtime, run)
    for each in items:
        kept += await _destroy_key(runtime, each)
        await _record(runtime, settings, each, by, reason)
    kept += await _destroy_key(runtime, run)
    time, recorded = await _record(runtime, settings, run, by, reason)
    forks = [line for each in (*items, run) for line in await _list_forks(runtime, each)]
    behind = await _catch_up(runtime)
    left = await asyncio.to_thread(_compact, settings, await _find_own_tables(runtime))
    return Erased(run, recorded.by, recorded.reason, time, (*kept, *forks, *behind, *left), tuple(items))


async def _items_of(runtime: LocalRuntime, run: str) -> tuple[list[str], list[str]]:
    """Returns the runs of a run's items at any depth, the innermost first, and a line for each that is in the clear.

    A message may be on its way that would begin one more: no item begins from now on. Raises InputError while one of
    them goes on.
    """
    sql = "SELECT run FROM runs WHERE substr(run, 1, length(:begin)) = :begin ORDER BY began"
    listed = [str(name) for (name,) in await runtime.views.query(sql, {"begin": f"{run}{MARK}"})]
    within = dict.fromkeys(name for name in listed if is_within(name, (run,)))
    waiting = [run, *within]
    while waiting:
        for item in await _asked_items(runtime, waiting.pop()):
            if not await _has_begun(runtime, item):
                await runtime.store.bar(item)
            if item not in within and await _has_begun(runtime, item):  # also one that began just before it was barred
                within[item] = None
                waiting.append(item)
    for name in within:
        await _check_ended(runtime, name)
    clear = [name for name in within if not await _is_encrypted(runtime, name)]
    why = "was recorded in the clear, and what is recorded is never changed: it holds its texts still"
    left = [f"the run of its item {name} {why}" for name in clear]
    innermost_first = sorted(within, key=lambda name: -len(list(lineage(name))))
    return [name for name in innermost_first if name not in clear], left


async def _has_begun(runtime: LocalRuntime, run: str) -> bool:
    return bool(await runtime.store.entries(run, upto=1))


async def _asked_items(runtime: LocalRuntime, run: str) -> list[str]:
    """Returns the runs of the items that a run asked for, whether they have begun or not."""
    asked = [each.data for each in await runtime.store.entries(run) if isinstance(each, Recorded) and not each.repeats]
    return [
        run_of_item(ItemOf(run, each.path)) for each in asked if isinstance(each, StepRequested) and each.role == "run"
    ]


async def _check_around(runtime: LocalRuntime, run: str) -> None:
    """Raises InputError for the run of an item while the run around it, which took its draft, can be read."""
    holding: list[str] = []
    for around in [*lineage(run)][1:]:
        events = await runtime.store.entries(around)
        if events and not any(isinstance(each, Recorded) and isinstance(each.data, RunErased) for each in events):
            holding.append(around)
    if holding and holding[0] == run_around(run):
        raise InputError(
            f"run {run} is that of an item of run {holding[0]}, which holds its draft; erase them together: "
            f"redraft erase {holding[-1]}"
        )


async def _destroy_key(runtime: LocalRuntime, run: str) -> list[str]:
    """Deletes the key of a run; returns a line when its bytes could not be overwritten."""
    try:
        await runtime.store.destroy_key(run)
    except KeyNotOverwritten as error:
        left = f"its key is deleted, but the key's bytes may still lie in the database's files ({error})"
        return [f"{left}; once no other program holds the table of keys, finish with: redraft erase {run}"]
    return []


async def _list_forks(runtime: LocalRuntime, run: str) -> list[str]:
    """Returns a line for each fork of a run: forks hold its texts up to the fork point, under keys of their own."""
    sql = "SELECT run FROM runs WHERE parent = ? AND brief <> ? ORDER BY started LIMIT ?"
    found = [str(name) for (name,) in await runtime.views.query(sql, (run, ERASED, MAX_FORKS))]
    return [f"its fork {name} holds its texts too, as far as it repeats them: redraft erase {name}" for name in found]


async def _catch_up(runtime: LocalRuntime) -> list[str]:
    """Brings the shipped read models past the erasure; returns a line for each that only its owner can update."""
    await catch_up(runtime.views, runtime.store)
    shipped = {each.name: each for each in SHIPPED}
    head, left = await runtime.store.head(), []
    for state in await runtime.views.states():
        if state.name in shipped and not state.failed:
            if state.name not in runtime.views.names:
                await runtime.models.of(shipped[state.name])
        elif state.position < head:
            left.append(
                f"the projection {state.name!r} may still hold parts of its texts: bring it up to date, or drop it"
            )
    return left


async def _check_erasable(runtime: LocalRuntime, run: str) -> None:
    """Raises InputError, with the alternative, for a run that cannot be erased."""
    await _check_ended(runtime, run)
    if not await _is_encrypted(runtime, run):
        raise InputError(
            f"run {run} was recorded in the clear, and what is recorded is never changed: it cannot be erased. "
            f"To be rid of it, move all else to a new store: redraft export --without {run} -o FILE, redraft import "
            "FILE --store …, and delete the old one; set REDRAFT_ENCRYPT_NEW_RUNS=1 for the runs to come"
        )


async def _check_ended(runtime: LocalRuntime, run: str) -> None:
    """Raises InputError for a run that would record more texts. It need not be readable: the names of events tell.

    None would, either, after a row that is not an event.
    """
    rows = await runtime.store.raw(run)
    if any(str(name).startswith(_OVER) for _, name, _, _ in rows) or not _is_event(run, *rows[-1]):
        return
    if any(isinstance(each, Unreadable) for each in await runtime.store.entries(run)):
        raise InputError(
            f"run {run} has not ended, and cannot be read; set it aside first: redraft quarantine {run} --reason …"
        )
    raise InputError(f"run {run} goes on, and would record more texts; cancel it first, or wait until it has ended")


def _is_event(run: str, version: int, name: str, state: bytes, _: int) -> bool:
    try:
        link_of(run, version, name, state)
    except Tampered:
        return False
    return True


async def _is_encrypted(runtime: LocalRuntime, run: str) -> bool:
    return is_sealed(await runtime.store.raw(run))


async def _record(
    runtime: LocalRuntime, settings: Settings, run: str, by: str, reason: str
) -> tuple[datetime, RunErased]:
    """Records the erasure, unless that is done; returns its time and event.

    Raises InputError when the log accepts no event after the last row of the run.
    """
    last = (await runtime.store.raw(run))[-1]
    if not _is_event(run, *last):
        raise InputError(
            f"the texts of run {run} can no longer be read, but that cannot be recorded: its last row, {last[0]}, is "
            "not an event, and the database accepts no event after it"
        )
    async with open_handler(settings, runtime) as handler:
        settled = await handler.carry_out(EraseRun(run, by, reason), Origin(new_message_id(), by, "", run))
    for event in settled.recorded or await runtime.store.entries(run):
        if isinstance(event, Recorded) and isinstance(event.data, RunErased):
            return event.time, event.data
    raise InputError(f"the texts of run {run} can no longer be read, but that is not recorded: {settled.refused}")


async def _find_own_tables(runtime: LocalRuntime) -> list[str]:
    """Returns the tables of projections that do not ship with Redraft, as they may have held texts of an encrypted
    run.
    """
    shipped = {table.name for each in SHIPPED for table in each.tables}
    tables: list[str] = []
    for (found,) in await runtime.views.query("SELECT tables FROM redraft_projections"):
        tables += [name for name in msgspec.json.decode(str(found), type=dict[str, object]) if name not in shipped]
    return tables


def _compact(settings: Settings, tables: Sequence[str]) -> list[str]:
    """Rewrites read models that may still contain deleted texts; returns a line when that fails."""
    views = views_path(settings.store)
    if views is None:
        return []
    try:
        rewrite_tables(views, tables)
    except StoreError as error:
        if isinstance(views, str):
            return [f"deleted rows may still hold parts of its texts ({error}): VACUUM FULL {', '.join(tables)}"]
        return [f"parts of its texts may still lie in {views} ({error}); stop what uses it and delete that file"]
    return []
