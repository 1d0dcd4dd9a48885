"""The past of a run that a person means: its events up to a version or a time, its drafts, and the one that it kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from redraft.actors.deciding.state import RunState
from redraft.actors.values import ignore, shown
from redraft.app.process.times import moment
from redraft.app.subscribing.misfits import NEW, fitting, remedy
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import CodecError, InputError, NoSuchRun
from redraft.events.messages.content import Draft
from redraft.events.messages.domain_events import DraftMade, RunErased, RunQuarantined
from redraft.events.messages.envelope import Entry, Recorded, Unreadable
from redraft.events.messages.redaction import ERASED
from redraft.projections.display import counted
from redraft.projections.read_models.runs import unreadable_reason
from redraft.projections.read_models.runs_query import find_run
from redraft.projections.run_views.chart import kept_draft

DIGITS: Final = 19
"""The number of digits from which on a number is too large for a version."""


async def events_of(
    log: LocalRuntime,
    text: str,
    upto: int | None = None,
    report: Callable[[str], None] = ignore,
    *,
    strange: bool = False,
) -> tuple[Recorded, ...]:
    """The events of the run that a person means, up to a version. Raises NoSuchRun, and InputError for a version.

    They end before the first that cannot be read, or does not follow from those before it, which `report` is told; with
    `strange` those that do not follow are among them, for who looks at events one by one.
    """
    found = await find_run(log.views, text)
    if upto is not None and not 1 <= upto <= found.version:
        raise InputError(f"--at {upto}: run {found.run} has {found.version} events; give 1 to {found.version}")
    entries = await log.store.entries(found.run, upto)
    if not entries:
        raise NoSuchRun(found.run)
    return legible(entries if strange else (await asyncio.to_thread(fitting, entries))[0], report)


def legible(entries: Sequence[Entry], report: Callable[[str], None] = ignore) -> tuple[Recorded, ...]:
    """Returns the events before the first unreadable one, which is reported, and any quarantine or erasure after it.

    Raises CodecError when nothing can be read.
    """
    broken = next((each for each in entries if isinstance(each, Unreadable)), None)
    events = [each for each in entries if isinstance(each, Recorded)]
    if broken is None:
        return tuple(events)
    report(f"run {broken.run}: {unreadable_reason(broken)}; {remedy(broken)}")
    last = RunQuarantined | RunErased
    kept = tuple(each for each in events if each.version < broken.version or isinstance(each.data, last))
    if not kept:
        raise CodecError(f"run {broken.run}: nothing of it can be read")
    return kept


class GrowingRun:
    """The events of a run that is looked at again and again: only those that have come since are read."""

    def __init__(self, log: LocalRuntime, run: str) -> None:
        self._log = log
        self._run = run
        self._read: tuple[Recorded, ...] = ()
        self._state = NEW

    async def events(self) -> tuple[Recorded, ...]:
        """Returns what `events_of` does. Of a run that was erased, or is not legible, everything is read each time."""
        read, state = self._read, self._state
        entries, state = await self._fit(len(read), state)
        if read and not _stay(entries):
            read, (entries, state) = (), await self._fit()
        found = read + legible(entries)
        if not found:
            raise NoSuchRun(self._run)
        stays = _stay(entries) and state.version == len(found)
        self._read, self._state = (found, state) if stays else ((), NEW)
        return found

    async def _fit(self, after: int = 0, state: RunState = NEW) -> tuple[Sequence[Entry], RunState]:
        return await asyncio.to_thread(fitting, await self._log.store.entries(self._run, after=after), state)


def _stay(entries: Sequence[Entry]) -> bool:
    """Returns whether what was read of a run before these is what would be read now."""
    return not any(isinstance(each, Unreadable) or isinstance(each.data, RunErased) for each in entries)


async def events_at(
    log: LocalRuntime, text: str, at: str, report: Callable[[str], None] = ignore, *, strange: bool = False
) -> tuple[Recorded, ...]:
    """Returns what `events_of` does, up to a version (`7`) or a time (`2026-01-03T10:00Z`, `2h` ago); empty: all."""
    if not at:
        return await events_of(log, text, report=report, strange=strange)
    if at.removeprefix("-").isdecimal() and len(at) < DIGITS:
        return await events_of(log, text, int(at), report, strange=strange)
    try:
        when = moment(at, datetime.now(UTC), "--at")
    except InputError:
        forms = "7, 2026-01-03T10:00Z, or how long ago, such as 2h"
        raise InputError(f"--at {shown(at)} is neither the number of an event nor a time; write {forms}") from None
    events = await events_of(log, text, report=report, strange=strange)
    if when < events[0].time:
        began = events[0].time.isoformat(timespec="seconds").replace("+00:00", "Z")
        raise InputError(f"--at {at}: run {events[0].run} began at {began}; give a later time")
    return events[: max(event.version for event in events if event.time <= when)]


def drafts_of(events: Sequence[Recorded]) -> dict[int, Draft]:
    """Every draft of a run by its number, in the order in which they were made."""
    made = [event.data.draft for event in events if isinstance(event.data, DraftMade)]
    return {draft.version: draft for draft in made}


def final_draft(events: Sequence[Recorded]) -> Draft:
    """The draft that a run ended with, or its newest one. Raises InputError when it has none."""
    drafts = drafts_of(events)
    if not drafts:
        raise InputError(
            f"run {events[0].run} has no draft after {len(events)} events; see redraft show {events[0].run}"
        )
    return drafts[kept_draft(events) or max(drafts)]


def two_drafts(events: Sequence[Recorded], a: int, b: int) -> tuple[Draft, Draft]:
    """Two drafts of a run, to compare them. Raises InputError for one that there is not, and for a run erased."""
    drafts = drafts_of(events)
    for version in (a, b):
        if version not in drafts:
            known = f"it has {counted(len(drafts), 'draft')}, from 1" if drafts else "it has none yet"
            raise InputError(f"run {events[0].run} has no draft {version}; {known}")
    if ERASED in (drafts[a].text, drafts[b].text):
        raise InputError(f"run {events[0].run} was erased: what its drafts said can no longer be read")
    return drafts[a], drafts[b]
