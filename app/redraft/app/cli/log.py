"""`redraft events`: the log, one event a line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import print_json, print_line
from redraft.app.cli.reading import ask
from redraft.app.moments import moment_of
from redraft.events.errors import InputError
from redraft.events.filters import EventFilter, event_filter

if TYPE_CHECKING:
    from redraft.app.compose import House
    from redraft.events.envelope import Entry, Unreadable

EXAMPLE: Final = """\b
Examples:
  redraft events --run last --type draft.critiqued
  redraft events --workflow article --tag spring --since 7d --outcome failed
  redraft events --from 100 --follow --json
"""


def events(
    start: Annotated[int, typer.Option("--from", help="From this position in the log on.")] = 1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more; Ctrl-C ends it.")] = False,
    run: Annotated[list[str] | None, typer.Option(metavar="RUN", help="Only events of this run.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only of this type, such as draft.critiqued.")
    ] = None,
    workflow: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only of runs of this workflow.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Only of runs with this tag.")] = None,
    outcome: Annotated[
        list[str] | None, typer.Option(metavar="OUTCOME", help="Only ends of loops and runs that came out so.")
    ] = None,
    since: Annotated[str, typer.Option(metavar="TIME", help="Recorded then or later: 2026-01-03T10:00Z, 7d, 2h.")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="Recorded before that.")] = "",
    limit: Annotated[int | None, typer.Option(help="At most so many.", show_default=False)] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Print what happened, in the order of the log.

    What this release cannot read as an event is told too, unless only some types, workflows or outcomes are wanted.

    One line each: position in the log, time (UTC), run, type, and what it says. An option that is given several times
    fits any of its values; an event has to fit all options. A time without a zone is UTC; 7d is seven days ago.
    """
    if start < 1:
        raise InputError(f"--from is {start}; positions in the log begin at 1")
    if limit is not None and limit < 1:
        raise InputError(f"--limit is {limit}; give at least 1")
    wanted = event_filter(
        types=kind or (),
        workflows=workflow or (),
        tags=tag or (),
        outcomes=outcome or (),
        since=moment_of(since, "--since"),
        until=moment_of(until, "--until"),
    )

    async def printed(log: House) -> None:
        count = 0
        async for event in _wanted(log, start, run or (), wanted, follow=follow):
            _print(event, json=json)
            count += 1
            if count == limit:
                return

    ask(store, printed)


async def _wanted(
    log: House, start: int, runs: Sequence[str], wanted: EventFilter, *, follow: bool
) -> AsyncIterator[Entry]:
    """The events that fit, from a position on: those of few runs are looked up, and only what follows is searched."""
    import msgspec

    from redraft.events.envelope import Unreadable
    from redraft.events.filters import Sieve
    from redraft.projections.run_list import find_run

    chosen = [(await find_run(log.views, text)).run for text in runs]
    wanted = msgspec.structs.replace(wanted, runs=frozenset(chosen))
    sieve = Sieve(wanted, log.client.about)
    any_kind = not (wanted.types or wanted.workflows or wanted.tags or wanted.outcomes)

    async def fits(entry: Entry) -> bool:
        if isinstance(entry, Unreadable):
            return any_kind and (not wanted.runs or entry.run in wanted.runs)
        return await sieve.passes(entry)

    if wanted.runs:
        head = await log.store.head()
        for event in await _of_runs(log, wanted.runs, head):
            if event.position >= start and await fits(event):
                yield event
        start = max(start, head + 1)
        if not follow:
            return
    elif wanted.since is not None:
        start = max(start, await _first(log, wanted.since))
    async for batch in log.store.tail(start - 1, follow=follow):
        for event in batch:
            if await fits(event):
                yield event


async def _of_runs(log: House, runs: frozenset[str], head: int) -> list[Entry]:
    events = [event for run in runs for event in await log.store.entries(run) if event.position <= head]
    return sorted(events, key=lambda event: event.position)


async def _first(log: House, since: datetime) -> int:
    """Where to begin to look for what was recorded since then."""
    from redraft.projections.run_list import first_position

    found = await first_position(log.views, since)
    return log.views.position + 1 if found is None else found


def _print(event: Entry, *, json: bool) -> None:
    from redraft.events.envelope import Unreadable
    from redraft.projections.history import history

    if isinstance(event, Unreadable):
        _print_unreadable(event, json=json)
        return
    if json:
        print_json(event)
        return
    told = history((event,))[0]
    where = f"{told.path}: " if told.path and not told.sentence.startswith(told.path) else ""
    time = f"{event.time:%Y-%m-%d %H:%M:%S.%f}"[:-3]
    print_line(f"{event.position:>6}  {time}  {event.run}  {event.name:<20}  {where}{told.sentence}")


def _print_unreadable(entry: Unreadable, *, json: bool) -> None:
    from redraft.projections.plain import plain

    if json:
        place = {"run": entry.run, "version": entry.version, "position": entry.position, "name": entry.name}
        print_json({"unreadable": entry.why, **place})
        return
    told = f"event {entry.version} of its run cannot be read: {plain(entry.why)}"
    print_line(f"{entry.position:>6}  {'':23}  {plain(entry.run)}  {plain(entry.name, 60):<20}  {told}")
