"""`redraft events`: the log, one event a line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
import typer

from redraft.app.cli.shared.options import JsonOption, StoreOption, refuse_beyond, with_options
from redraft.app.cli.shared.output import print_json, print_wrapped
from redraft.app.cli.shared.reading import ask
from redraft.app.process.times import moment_of
from redraft.app.subscribing.feed import StoreFeed
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import InputError
from redraft.events.messages.envelope import Entry, Unreadable
from redraft.events.messages.filters import EventFilter, Sieve, event_filter
from redraft.projections.display import plain
from redraft.projections.read_models.runs_query import find_run, first_position
from redraft.projections.run_views.sentences import history

EXAMPLE: Final = """\b
Examples:
  redraft events --run last --type draft.critiqued
  redraft events --workflow article --tag spring --since 7d --outcome failed
  redraft events --follow --run last
  redraft events --from 100 --follow --json
"""


class EventOptions(msgspec.Struct, frozen=True):
    """The events to print: those that fit any of the values of each option."""

    run: Annotated[list[str], typer.Option(metavar="RUN", help="Only events of this run.")] = []
    kind: Annotated[
        list[str], typer.Option("--type", metavar="TYPE", help="Only of this type, such as draft.critiqued.")
    ] = []
    workflow: Annotated[list[str], typer.Option(metavar="NAME", help="Only of runs of this workflow.")] = []
    tag: Annotated[list[str], typer.Option(metavar="TAG", help="Only of runs with this tag.")] = []
    outcome: Annotated[
        list[str], typer.Option(metavar="OUTCOME", help="Only ends of loops and runs with this outcome.")
    ] = []
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Recorded at this time or later: 2026-01-03T10:00Z, 7d, 2h.")
    ] = ""
    until: Annotated[str, typer.Option(metavar="TIME", help="Recorded before that.")] = ""

    def filter(self) -> EventFilter:
        """Returns the filter that the options mean, but for the runs. Raises InputError."""
        return event_filter(
            types=self.kind,
            workflows=self.workflow,
            tags=self.tag,
            outcomes=self.outcome,
            since=moment_of(self.since, "--since"),
            until=moment_of(self.until, "--until"),
        )


@with_options
def events(
    *,
    start: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="N",
            callback=refuse_beyond,
            help="From this position in the log on (default: 1, with --follow what comes from now on).",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print what happens from now on, as it happens; Ctrl-C ends it.")
    ] = False,
    which: EventOptions,
    limit: Annotated[int | None, typer.Option(callback=refuse_beyond, metavar="N", help="Print at most N.")] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Print what happened, in the order of the log.

    Events that this release cannot read are printed too, unless you filter by type, workflow or outcome.

    One line each: position in the log, time (UTC), run, type, and its description. An option given several times
    matches any of its values; an event must match all options. A time without a zone is UTC; 7d is seven days ago.
    """
    if start is not None and start < 1:
        raise InputError(f"--from is {start}; positions in the log begin at 1")
    if limit is not None and limit < 1:
        raise InputError(f"--limit is {limit}; give at least 1")
    chosen = which.filter()

    async def print_found(log: LocalRuntime) -> None:
        count, begins_now = 0, follow and start is None and not which.since
        head = await log.store.head()
        if start is not None and start > head + 1:
            raise InputError(f"--from is {start}; the last event of this log is at position {head}")
        first = head + 1 if begins_now else start or 1
        async for event in _search(log, first, which.run, chosen, follow=follow):
            _print(event, json=json)
            count += 1
            if count == limit:
                return

    ask(store, print_found)


async def _search(
    log: LocalRuntime, start: int, runs: Sequence[str], chosen: EventFilter, *, follow: bool
) -> AsyncIterator[Entry]:
    """The events that fit, from a position on: those of few runs are looked up, and only what follows is searched."""
    found = [(await find_run(log.views, text)).run for text in runs]
    chosen = msgspec.structs.replace(chosen, runs=frozenset(found))
    sieve = Sieve(chosen, StoreFeed(log.store).about)
    any_kind = not (chosen.types or chosen.workflows or chosen.tags or chosen.outcomes)

    async def fits(entry: Entry) -> bool:
        if isinstance(entry, Unreadable):
            return any_kind and (not chosen.runs or entry.run in chosen.runs)
        return await sieve.passes(entry)

    if chosen.runs:
        head = await log.store.head()
        for event in await _of_runs(log, chosen.runs, head):
            if event.position >= start and await fits(event):
                yield event
        start = max(start, head + 1)
        if not follow:
            return
    elif chosen.since is not None:
        start = max(start, await _first(log, chosen.since))
    async for batch in log.store.tail(start - 1, follow=follow):
        for event in batch:
            if await fits(event):
                yield event


async def _of_runs(log: LocalRuntime, runs: frozenset[str], head: int) -> list[Entry]:
    events = [event for run in runs for event in await log.store.entries(run) if event.position <= head]
    return sorted(events, key=lambda event: event.position)


async def _first(log: LocalRuntime, since: datetime) -> int:
    """Returns the position from which to search for events recorded since then."""
    found = await first_position(log.views, since)
    return log.views.position + 1 if found is None else found


_INDENT: Final = 8
"""Blanks before what a line of a narrow terminal has no room for: the width of a position."""


def _print(event: Entry, *, json: bool) -> None:
    if isinstance(event, Unreadable):
        _print_unreadable(event, json=json)
        return
    if json:
        print_json(event)
        return
    entry = history((event,))[0]
    where = f"{entry.path}: " if entry.path and not entry.sentence.startswith(entry.path) else ""
    time = f"{event.time:%Y-%m-%d %H:%M:%S.%f}"[:-3]
    print_wrapped(f"{event.position:>6}  {time}  {event.run}  {event.name:<20}  {where}{entry.sentence}", _INDENT)


def _print_unreadable(entry: Unreadable, *, json: bool) -> None:
    if json:
        place = {"run": entry.run, "version": entry.version, "position": entry.position, "name": entry.name}
        print_json({"unreadable": entry.why, **place})
        return
    message = f"event {entry.version} of its run cannot be read: {plain(entry.why)}"
    where = f"{entry.position:>6}  {'':23}  {plain(entry.run)}  {plain(entry.name, 60):<20}"
    print_wrapped(f"{where}  {message}", _INDENT)
