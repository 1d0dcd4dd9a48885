"""`redraft rebuild`: the read models made anew from the log, beside those that are read, and compared with them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.faults import FAILED, say
from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import print_json, print_line
from redraft.app.cli.reading import refuse_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.app.settings import Settings
    from redraft.projections.compare import Switched
    from redraft.projections.projection import Projection
    from redraft.projections.states import State

EXAMPLE: Final = """\b
Examples:
  redraft rebuild
  redraft rebuild runs
  redraft rebuild mine.py:words
"""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was made anew. `same`: the rows are those that were there before; None when those could not be compared.

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


def rebuild(
    projection: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROJECTION]",
            help="A shipped one, or your own as file.py:name (default: all shipped).",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Make the read models anew from the log, and say whether they are equal to what they were.

    They are built beside the old rows, which can be read meanwhile, compared with them at the same event, and take
    their place. Exit code 1: a projection cannot take an event; its old rows stay.
    """
    from redraft.app.chosen import projections_for
    from redraft.app.loop import run
    from redraft.app.settings import read_settings
    from redraft.projections.shipped import SHIPPED

    settings = read_settings(store=store)
    refuse_missing(settings.store)
    done = run(_rebuilt(settings, SHIPPED if projection is None else projections_for(projection)))
    if json:
        print_json(done)
    else:
        _tell(done)
    for name, error in done.stopped.items():
        say(f"the projection {name!r} could not be rebuilt: {error}")
    return FAILED if done.stopped else 0


def _tell(done: Rebuilt) -> None:
    if not done.projections:
        return
    rows = ", ".join(f"{name} {count:,}" for name, count in done.rows.items())
    print_line(
        f"rebuilt {', '.join(done.projections)} from {done.events:,} events in {done.seconds:.1f} s; rows: {rows}"
    )
    match done.same:
        case True:
            print_line("they are equal to the rows that were there before")
        case False:
            tables = ", ".join(f"{name} {count:,}" for name, count in done.differ.items() if count)
            which = f" ({tables} rows are others)" if tables else ""
            print_line(
                f"they differ from the rows that were there before{which}; those were wrong or of an earlier version"
            )
        case None:
            print_line("there were no rows before that could be compared")


async def _rebuilt(settings: Settings, chosen: Sequence[Projection]) -> Rebuilt:
    from redraft.app.encryption import store_of
    from redraft.app.settings import views_path
    from redraft.projections.compare import Switched
    from redraft.projections.projector import rebuild
    from redraft.projections.views import open_views

    switched: list[Switched] = []
    async with (
        store_of(settings) as store,
        await open_views(
            views_path(settings.store),
            chosen,
            lambda each: switched.append(each) if isinstance(each, Switched) else None,
        ) as views,
    ):
        began = time.monotonic()
        events = await rebuild(views, store)
        seconds = time.monotonic() - began
        states = [each for each in await views.states() if each.name in views.names]
    return _summary(chosen, events, seconds, switched, states)


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
