"""`redraft events`: the log, one event a line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import print_json, print_line
from redraft.app.cli.reading import ask, events_of
from redraft.events.domain_events import EVENT_NAMES
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from redraft.app.compose import House
    from redraft.events.envelope import Recorded

EXAMPLE: Final = """\b
Examples:
  redraft events --run last --type draft.critiqued
  redraft events --from 100 --follow --json
"""


def events(
    start: Annotated[int, typer.Option("--from", help="From this position in the log on.")] = 1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more; Ctrl-C ends it.")] = False,
    run: Annotated[str, typer.Option(help="Only events of this run.")] = "",
    kind: Annotated[str, typer.Option("--type", help="Only events of this type, such as draft.critiqued.")] = "",
    limit: Annotated[int | None, typer.Option(help="At most so many.", show_default=False)] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Print what happened, in the order of the log.

    One line each: position in the log, time (UTC), run, type, and what it says.
    """
    names = _names(kind)
    if limit is not None and limit < 1:
        raise InputError(f"--limit is {limit}; give at least 1")

    async def printed(log: House) -> None:
        count = 0
        async for event in _wanted(log, max(start, 1), run, follow=follow):
            if event.name in names:
                _print(event, json=json)
                count += 1
                if count == limit:
                    return

    ask(store, printed)


async def _wanted(log: House, start: int, run: str, *, follow: bool) -> AsyncIterator[Recorded]:
    after, chosen = start - 1, ""
    if run:
        known = await events_of(log, run)
        for event in known:
            if event.position >= start:
                yield event
        after, chosen = max(known[-1].position, after), known[0].run
        if not follow:
            return
    async for event in log.client.subscribe(after, run=chosen, follow=follow):
        yield event


def _names(kind: str) -> frozenset[str]:
    """The stored names that a type stands for, with or without its version; all of them when none is given."""
    known = sorted(EVENT_NAMES.values())
    names = frozenset(name for name in known if not kind or kind in (name, name.rpartition(".")[0]))
    if not names:
        close = get_close_matches(kind, known, n=1)
        remedy = f"did you mean {close[0].rpartition('.')[0]}?" if close else f"it is one of {', '.join(known)}"
        raise InputError(f"--type: there is no event {kind!r}; {remedy}")
    return names


def _print(event: Recorded, *, json: bool) -> None:
    from redraft.projections.history import history

    if json:
        print_json(event)
        return
    told = history((event,))[0]
    where = f"{told.path}: " if told.path and not told.sentence.startswith(told.path) else ""
    time = f"{event.time:%Y-%m-%d %H:%M:%S.%f}"[:-3]
    print_line(f"{event.position:>6}  {time}  {event.run}  {event.name:<20}  {where}{told.sentence}")
