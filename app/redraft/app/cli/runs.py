"""`redraft list`: the runs, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import out, print_json
from redraft.app.cli.reading import ask
from redraft.events.domain_events import Outcome
from redraft.projections.run_list import RunStatus

if TYPE_CHECKING:
    from rich.table import Table

    from redraft.app.compose import House
    from redraft.projections.run_list import RunLine

EXAMPLE: Final = "Example: redraft list --workflow prose --outcome accepted --limit 5"

_BRIEF: Final = 60
_ENDING: Final = 8
_NARROW: Final = 120
_LONGEST: Final = 64
"""How many characters of an id are shown."""


def list_(
    workflow: Annotated[str | None, typer.Option(help="Only runs of this workflow.", show_default=False)] = None,
    outcome: Annotated[Outcome | None, typer.Option(help="Only runs that ended so.", show_default=False)] = None,
    status: Annotated[RunStatus | None, typer.Option(help="Only runs that are so.", show_default=False)] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="At most so many.")] = 20,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the runs, the newest first.

    For each: its id, workflow, outcome (its status if it has none), iterations, score (0 to 1), when it began (UTC),
    and its brief's first line.
    """
    from redraft.app.with_texts import with_texts
    from redraft.projections.run_list import list_runs

    async def listed(log: House) -> list[RunLine]:
        found = await list_runs(log.views, limit=limit, status=status, workflow=workflow, outcome=outcome, tag=tag)
        return await with_texts(log.store, found)

    runs = ask(store, listed)
    if json:
        print_json(runs)
    elif runs:
        console = out()
        console.print(_table(runs, narrow=console.width < _NARROW))
    else:
        out().print("no runs")


def _table(runs: list[RunLine], *, narrow: bool) -> Table:
    """The table; `narrow` shows the end of each id, which is where ids differ, and which names a run as well."""
    from rich.table import Table
    from rich.text import Text

    from redraft.projections.plain import outcome_text, plain, score_text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "workflow", "outcome"):
        table.add_column(name, no_wrap=True, max_width=_LONGEST)
    for name in ("iterations", "score"):
        table.add_column(name, justify="right", no_wrap=True)
    paid = any(run.calls or run.tokens or run.cost for run in runs)
    for name in ("tokens", "cost") if paid else ():
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("started (UTC)", no_wrap=True)
    table.add_column("brief")
    for run in runs:
        table.add_row(
            run.run[-_ENDING:] if narrow else run.run,
            plain(run.workflow, 40),
            outcome_text(run.outcome) if run.outcome else run.status,
            str(run.iterations),
            "" if run.score is None else score_text(run.score),
            *(_paid(run) if paid else ()),
            f"{run.started:%Y-%m-%d %H:%M}",
            Text(
                plain(f"{run.source}: {run.brief}" if run.source else run.brief, _BRIEF),
                no_wrap=True,
                overflow="ellipsis",
            ),
        )
    return table


def _paid(run: RunLine) -> tuple[str, str]:
    """The tokens and the money that a run took."""
    from redraft.projections.plain import cost_text

    return f"{run.tokens:,}" if run.tokens else "", cost_text(run.cost, run.currency, run.unpriced) if run.cost else ""
