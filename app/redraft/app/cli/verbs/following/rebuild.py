"""`redraft rebuild`: read models made again from the log, and compared with those that were there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.exit_codes import FAILED
from redraft.app.cli.shared.options import JsonOption, StoreOption
from redraft.app.cli.shared.output import print_result
from redraft.app.cli.shared.reading import existing_store
from redraft.app.wiring.rebuilding import Rebuilt, rebuild_shipped, rebuild_views
from redraft.app.workflows.actor_registry import projections_for

REBUILD: Final = """\b
Examples:
  redraft rebuild
  redraft rebuild runs steps
  redraft rebuild mine.py:words
"""


def rebuild(
    projections: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROJECTION]...", help="Shipped ones, or your own as file.py:name (default: all shipped)."
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Rebuild the read models from the log, and say whether their rows changed.

    They are built beside the old rows, which can be read meanwhile, compared with them at the same event, and take
    their place. All shipped ones of a long log are built in two processes. Exit code 1: a projection cannot take an
    event; its old rows stay.
    """
    from redraft.app.process.lifecycle import run

    settings = existing_store(store)
    chosen = {each.name: each for target in projections or () for each in projections_for(target)}
    done = run(rebuild_views(settings, [*chosen.values()]) if chosen else rebuild_shipped(settings))
    print_result(done, _rebuilt_lines(done), json=json)
    for name, error in done.stopped.items():
        say(f"the projection {name!r} could not be rebuilt: {error}")
    return FAILED if done.stopped else 0


def _rebuilt_lines(done: Rebuilt) -> Iterator[str]:
    if not done.projections:
        return
    rows = ", ".join(f"{name} {count:,}" for name, count in done.rows.items())
    yield f"rebuilt {', '.join(done.projections)} from {done.events:,} events in {done.seconds:.1f} s; rows: {rows}"
    match done.same:
        case True:
            yield "they are equal to the rows that were there before"
        case False:
            tables = ", ".join(f"{name} {count:,}" for name, count in done.differ.items() if count)
            which = f" ({tables} rows are others)" if tables else ""
            yield f"they differ from the rows that were there before{which}; those were wrong or of an earlier version"
        case None:
            yield "there were no rows before that could be compared"
