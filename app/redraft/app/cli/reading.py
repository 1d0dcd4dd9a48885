"""What verbs that only look have in common: the log is opened, asked, and closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from redraft.events.errors import CodecError, InputError, NoSuchRun, StoreError

if TYPE_CHECKING:
    from redraft.app.compose import House
    from redraft.events.content import Draft
    from redraft.events.envelope import Entry, Recorded

T = TypeVar("T")

_DIGITS: Final = 19


def ask(store: str | None, question: Callable[[House], Awaitable[T]]) -> T:
    """The answer of an open log. Raises StoreError when there is no store yet: looking makes none."""
    import asyncio

    from redraft.app.compose import open_log
    from redraft.app.settings import read_settings

    settings = read_settings(store=store)
    refuse_missing(settings.store)

    async def asked() -> T:
        async with open_log(settings) as log:
            return await question(log)

    return asyncio.run(asked())


def missing_file(url: str) -> str:
    """The path of the SQLite file that a URL names, if it is not there or is empty; else ""."""
    scheme, _, path = url.partition(":///")
    if scheme == "sqlite" and path and not (Path(path).exists() and Path(path).stat().st_size):
        return path
    return ""


def refuse_missing(url: str) -> None:
    """Raises StoreError when a URL names a file that is not there."""
    path = missing_file(url)
    if path:
        raise StoreError(f"there is no store {path} yet; `redraft run` makes it, or name another one with --store")


async def events_of(log: House, text: str, upto: int | None = None) -> tuple[Recorded, ...]:
    """The events of the run that a person means, up to a version. Raises NoSuchRun, and InputError for a version."""
    from redraft.projections.run_list import find_run

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
    from redraft.app.cli.faults import say
    from redraft.events.domain_events import RunErased, RunQuarantined
    from redraft.events.envelope import Recorded, Unreadable
    from redraft.projections.runs import told

    broken = next((each for each in entries if isinstance(each, Unreadable)), None)
    events = [each for each in entries if isinstance(each, Recorded)]
    if broken is None:
        return tuple(events)
    say(f"run {broken.run}: {told(broken)}; see redraft doctor")
    last = RunQuarantined | RunErased
    kept = tuple(each for each in events if each.version < broken.version or isinstance(each.data, last))
    if not kept:
        raise CodecError(f"run {broken.run}: nothing of it can be read")
    return kept


async def events_at(log: House, text: str, at: str) -> tuple[Recorded, ...]:
    """The same, up to a version (`7`) or a time (`2026-01-03T10:00Z`, `2h` ago); all of them when `at` is empty."""
    from datetime import UTC, datetime

    from redraft.actors.values import shown
    from redraft.app.moments import moment

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
    from redraft.events.domain_events import DraftEdited, DraftGenerated, DraftRefined

    made = [event.data.draft for event in events if isinstance(event.data, DraftGenerated | DraftRefined | DraftEdited)]
    return {draft.version: draft for draft in made}
