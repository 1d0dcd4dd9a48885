"""Shared behaviour of the verbs that only read: they open the log, query it and close it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from redraft.actors.deciding.evolve import fold
from redraft.actors.values import shown
from redraft.app.cli.shared.errors import say
from redraft.app.process.times import moment
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.local import LocalRuntime, open_readonly
from redraft.events.errors import CodecError, InputError, NoSuchRun, StoreError
from redraft.events.messages.content import Draft, DraftRef
from redraft.events.messages.domain_events import DraftMade, RunErased, RunQuarantined
from redraft.events.messages.envelope import Entry, Recorded, Unreadable
from redraft.projections.read_models.runs import unreadable_reason
from redraft.projections.read_models.runs_query import find_run

T = TypeVar("T")

_DIGITS: Final = 19


def ask(store: str | None, question: Callable[[LocalRuntime], Awaitable[T]]) -> T:
    """The answer of an open log. Raises StoreError when there is no store yet: looking makes none."""
    settings = existing_store(store)

    async def ask_question() -> T:
        async with open_readonly(settings) as log:
            return await question(log)

    return asyncio.run(ask_question())


def run_quietly(asking: Coroutine[None, None, T]) -> T:
    """Returns what a coroutine returns that speaks to servers; what their libraries log is left out."""
    from redraft.app.process.lifecycle import run
    from redraft.app.process.logs import libraries

    with libraries():
        return run(asking)


def existing_store(store: str | None, bus: str | None = None) -> Settings:
    """Returns the settings. Raises StoreError when there is no store yet: looking makes none."""
    settings = read_settings(store=store, bus=bus)
    refuse_missing(settings.store)
    return settings


def store_file(url: str) -> Path | None:
    """The file of a store; None when it is not in a file."""
    scheme, _, path = url.partition(":///")
    return Path(path) if scheme == "sqlite" and path else None


def missing_file(url: str) -> Path | None:
    """The file of a store that is not there or is empty; None for any other store."""
    path = store_file(url)
    return path if path and not (path.exists() and path.stat().st_size) else None


def refuse_missing(url: str) -> None:
    """Raises StoreError when a URL names a file that is not there."""
    path = missing_file(url)
    if path:
        raise StoreError(f"there is no store {path} yet; `redraft run` makes it, or name another one with --store")


async def events_of(log: LocalRuntime, text: str, upto: int | None = None) -> tuple[Recorded, ...]:
    """The events of the run that a person means, up to a version. Raises NoSuchRun, and InputError for a version."""
    found = await find_run(log.views, text)
    if upto is not None and not 1 <= upto <= found.version:
        raise InputError(f"--at {upto}: run {found.run} has {found.version} events; give 1 to {found.version}")
    entries = await log.store.entries(found.run, upto)
    if not entries:
        raise NoSuchRun(found.run)
    return legible(entries)


def legible(entries: Sequence[Entry]) -> tuple[Recorded, ...]:
    """The events of a run up to the first that cannot be read, which is said, and whether it was set aside since.

    Raises CodecError when nothing can be read.
    """
    broken = next((each for each in entries if isinstance(each, Unreadable)), None)
    events = [each for each in entries if isinstance(each, Recorded)]
    if broken is None:
        return tuple(events)
    say(f"run {broken.run}: {unreadable_reason(broken)}; see redraft doctor")
    last = RunQuarantined | RunErased
    kept = tuple(each for each in events if each.version < broken.version or isinstance(each.data, last))
    if not kept:
        raise CodecError(f"run {broken.run}: nothing of it can be read")
    return kept


async def events_at(log: LocalRuntime, text: str, at: str) -> tuple[Recorded, ...]:
    """The same, up to a version (`7`) or a time (`2026-01-03T10:00Z`, `2h` ago); all of them when `at` is empty."""
    if not at:
        return await events_of(log, text)
    if at.lstrip("-").isdecimal() and len(at) < _DIGITS:
        return await events_of(log, text, int(at))
    try:
        when = moment(at, datetime.now(UTC), "--at")
    except InputError:
        forms = "7, 2026-01-03T10:00Z, or how long ago, such as 2h"
        raise InputError(f"--at {shown(at)} is neither the number of an event nor a time; write {forms}") from None
    events = await events_of(log, text)
    if when < events[0].time:
        began = events[0].time.isoformat(timespec="seconds").replace("+00:00", "Z")
        raise InputError(f"--at {at}: run {events[0].run} began at {began}; give a later time")
    return events[: max(event.version for event in events if event.time <= when)]


def drafts_of(events: Sequence[Recorded]) -> dict[int, Draft]:
    """Every draft of a run by its number, in the order in which they were made."""
    made = [event.data.draft for event in events if isinstance(event.data, DraftMade)]
    return {draft.version: draft for draft in made}


def draft_meant(past: Sequence[Recorded], number: int | None) -> DraftRef:
    """Returns the draft that a person means: by its number, or the one that waits for approval.

    Of a run without drafts, or that waits for nobody, it is one that there is not, numbered 0. Raises InputError for
    another number.
    """
    drafts = drafts_of(past)
    if number is None:
        waiting = fold(event.data for event in past).approval
        return waiting.request.draft if waiting else DraftRef(0, "")
    if not drafts:
        return DraftRef(0, "")
    if number not in drafts:
        raise InputError(f"--draft {number}: run {past[0].run} has drafts 1 to {max(drafts)}")
    return drafts[number].ref
