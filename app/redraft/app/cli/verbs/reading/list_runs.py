"""`redraft list`: the runs, the newest first, filtered, counted, and a page at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.options import JsonOption, StoreOption, refuse_beyond, with_options
from redraft.app.cli.shared.output import out, print_json, print_result
from redraft.app.cli.shared.reading import ask
from redraft.app.cli.shared.tables import print_table
from redraft.app.process.times import moment_of
from redraft.app.wiring.local import LocalRuntime
from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.scales import read_scale, score_text
from redraft.projections.display import NAME_LENGTH, cost_text, counted, outcome_text, plain
from redraft.projections.read_models.runs_query import (
    RunFilter,
    RunLine,
    RunSort,
    RunStatus,
    find_run,
)

if TYPE_CHECKING:
    from redraft.app.runs.searching import Found, Listing

LIST: Final = """\b
Examples:
  redraft list --workflow prose --outcome accepted --limit 5
  redraft list --since 7d --text tides --min-cost 0.5
  redraft list --search 'spring tid*'
  redraft list --status running
  redraft list --sort score --limit 10
  redraft list --count --outcome failed
  redraft list --of last
"""

_ENDING: Final = 8
"""Characters of an id that a narrow terminal shows: its end, where ids differ, and which names a run as well."""

_NARROW: Final = 120
_BRIEF: Final = 60
_LONGEST: Final = 64


class ListOptions(msgspec.Struct, frozen=True):
    """The runs to list: those that match every option."""

    workflow: Annotated[str | None, typer.Option(help="Only runs of this workflow.")] = None
    outcome: Annotated[
        Outcome | None, typer.Option(metavar="OUTCOME", help="Only runs with this outcome, such as accepted.")
    ] = None
    status: Annotated[
        RunStatus | None,
        typer.Option(metavar="STATUS", help="running, waiting (for people), paused, ended, quarantined or unreadable."),
    ] = None
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only runs that began at this time or later: 2026-01-03T10:00Z, 7d, 2h.")
    ] = ""
    until: Annotated[str, typer.Option(metavar="TIME", help="Only runs that began before that.")] = ""
    text: Annotated[
        str, typer.Option(metavar="TEXT", help="Only runs with this in their brief's first line or its file's name.")
    ] = ""
    min_cost: Annotated[
        float | None, typer.Option(metavar="AMOUNT", min=0, help="Only runs whose models cost this much or more.")
    ] = None

    search: Annotated[
        str,
        typer.Option(
            metavar="WORDS",
            help="Only runs with all of these words in their brief or in one draft: tides, 'tid*', '\"spring tide\"'.",
        ),
    ] = ""
    items: Annotated[
        bool, typer.Option("--items", help="Also the runs of items, which are left out unless their workflow is named.")
    ] = False
    of: Annotated[str, typer.Option(metavar="RUN", help="Only the runs of this run's items.")] = ""

    def filter(self, of: str = "") -> RunFilter:
        """Returns the filter that the options mean; `of` is the id of `self.of`. Raises InputError for no time."""
        return RunFilter(
            self.status,
            self.workflow,
            self.outcome,
            self.tag,
            moment_of(self.since, "--since"),
            moment_of(self.until, "--until"),
            self.text,
            self.min_cost,
            self.search,
            self.items,
            of,
        )


@with_options
def list_(
    which: ListOptions,
    limit: Annotated[int, typer.Option(callback=refuse_beyond, metavar="N", help="Print at most N.")] = 20,
    after: Annotated[
        str, typer.Option(metavar="RUN", help="The next page: the runs that are listed after this one.")
    ] = "",
    sort: Annotated[
        RunSort, typer.Option(metavar="WHAT", help="By started, updated, iterations, score, tokens or cost.")
    ] = "started",
    ascending: Annotated[bool, typer.Option("--ascending", help="The oldest first, or the least.")] = False,
    count: Annotated[bool, typer.Option("--count", help="Print only how many runs match.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the runs, the newest first, or the other way round, or by something else.

    For each: its id, workflow, outcome (or its status, and the step that it is at), iterations, score (0 to 1, or on
    the critics' scale), when it began (UTC), and its brief's first line. Where there are more, one line on standard
    error says how many, and how to list the next. A narrow terminal shows the end of each id, and fewer columns.
    """
    from redraft.app.runs.searching import list_matching

    which.filter()  # refuses what is no time before anything is opened

    async def list_found(log: LocalRuntime) -> Listing:
        chosen = which.filter((await find_run(log.views, which.of)).run if which.of else "")
        start = await find_run(log.views, after) if after else None
        return await list_matching(log, chosen, 1 if count else limit, start, sort, ascending=ascending)

    listing = ask(store, list_found)
    runs, total = listing.runs, listing.count
    if count:
        print_result({"runs": total}, [f"{total}"], json=json)
    elif json:
        print_json(runs)
    elif runs:
        _print_runs(runs, {each.run: each for each in listing.found}, narrow=out().width < _NARROW)
        if len(runs) == limit < total:
            say(f"{len(runs)} of {counted(total, 'run')}; the next: add --after {runs[-1].run}")
    else:
        out().print("no more runs" if after else "no runs")


def _print_runs(runs: Sequence[RunLine], found: Mapping[str, Found], *, narrow: bool) -> None:
    paid = ("tokens", "cost") if any(run.calls or run.tokens or run.cost for run in runs) else ()
    rows = [
        (
            run.run[-_ENDING:] if narrow else run.run,
            plain(run.workflow, 40),
            _state(run),
            run.iterations,
            "" if run.score is None else score_text(run.score, read_scale(run.scale)),
            *(_paid(run) if paid else ()),
            f"{run.started:%Y-%m-%d %H:%M}",
            _place(found[run.run])
            if run.run in found
            else plain(f"{run.source}: {run.brief}" if run.source else run.brief, _BRIEF),
        )
        for run in runs
    ]
    numbers = ("iterations", "score", *paid)
    names = ("run", "workflow", "outcome", *numbers, "started (UTC)", "found" if found else "brief")
    spare, whole = ("tokens", "iterations", "cost"), ("run", "started (UTC)")
    print_table(names, rows, right=numbers, whole=whole, longest=_LONGEST, cut=True, spare=spare)


def _state(run: RunLine) -> str:
    """Returns how a run ended, else its status and the step that it is at."""
    if run.outcome:
        return outcome_text(run.outcome)
    return f"{run.status} at {plain(run.step, NAME_LENGTH)}" if run.step else run.status


def _place(found: Found) -> str:
    """Returns where the words of a search are, and what stands around them."""
    where = f"draft {found.drafts[-1]}" if found.drafts else "brief"
    return f"{where}: {plain(f'{found.before} {found.match} {found.after}')}"


def _paid(run: RunLine) -> tuple[str, str]:
    """Returns the tokens and the money that a run took."""
    return f"{run.tokens:,}" if run.tokens else "", cost_text(run.cost, run.currency, run.unpriced)
