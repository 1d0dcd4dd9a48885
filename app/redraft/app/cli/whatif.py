"""`redraft whatif`: recorded runs decided on again under another policy, at no model cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.reading import ask
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from datetime import datetime

    from redraft.actors.policy import Policy
    from redraft.actors.whatif import WhatIf
    from redraft.app.compose import House
    from redraft.app.whatif_table import Row
    from redraft.events.conditions import Condition

EXAMPLE: Final = """\b
Examples:
  redraft whatif last --until 'score >= 0.95' --max-iterations 8 --keep last
  redraft whatif last --loop Chapters/ChapterRefinement --max-iterations 2
  redraft whatif --workflow article --since 7d --until 'score >= 0.8' --until 'score >= 0.95'
"""


def whatif(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="A run's id, or the start or end of it, or `last`; or --workflow."),
    ] = None,
    until: Annotated[
        list[str] | None,
        typer.Option(help="End the loop when this holds; given several times, each is a policy of its own."),
    ] = None,
    max_iterations: Annotated[int | None, typer.Option(help="At most so many passes of the loop.")] = None,
    keep: Annotated[str | None, typer.Option(help="Which draft leaves the loop: best or last.")] = None,
    rollback_margin: Annotated[
        float | None, typer.Option(help="A fall in score beyond which refining starts from the best draft again.")
    ] = None,
    loop: Annotated[str, typer.Option(metavar="NAME", help="Which loop, if there are several: its name or path.")] = "",
    workflow: Annotated[str, typer.Option(metavar="NAME", help="Over all runs of this workflow that ended.")] = "",
    tag: Annotated[str, typer.Option(metavar="TAG", help="Of these, only runs with this tag.")] = "",
    since: Annotated[str, typer.Option(metavar="TIME", help="Of these, only runs begun then or later: 7d, 2h.")] = "",
    limit: Annotated[int, typer.Option(help="Of these, at most so many, the newest.")] = 1000,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Decide a recorded run again under another policy, with the answers that were recorded. No model is asked.

    It says where the two part, how many steps would have been saved, or where the record ends. Over many runs it prints
    a table, in which means leave out the records that ended early.
    """
    from redraft.app.cli.whatif_view import print_each, print_table
    from redraft.app.moments import moment_of

    policies = _policies(until or (), max_iterations, keep, rollback_margin)
    if bool(run) == bool(workflow):
        raise InputError("name one run, or many with --workflow" + (", not both" if run else ""))
    if run is None:
        table = ask(store, lambda log: _over(log, workflow, tag, moment_of(since, "--since"), limit, policies, loop))
        print_table(table, json=json)
        return
    if tag or since:
        raise InputError(f"{'--tag' if tag else '--since'} chooses among the runs of a --workflow; leave it out")
    print_each(ask(store, lambda log: _of_one(log, run, policies, loop)), json=json)


def _policies(
    until: Sequence[str], max_iterations: int | None, keep: str | None, rollback_margin: float | None
) -> list[Policy]:
    from redraft.actors.policy import Policy
    from redraft.app.sources import read_condition
    from redraft.events.plan import Keep

    kept = next((each for each in get_args(Keep) if each == keep), None)
    if keep is not None and kept is None:
        raise InputError(f"--keep is {keep!r}; write {' or '.join(get_args(Keep))}")
    conditions: list[Condition | None] = [read_condition(text) for text in until]
    found = [Policy(each, max_iterations, kept, rollback_margin) for each in conditions or [None]]
    if any(policy.changes_nothing for policy in found):
        raise InputError("say what is to be different: --until, --max-iterations, --keep or --rollback-margin")
    return found


async def _of_one(log: House, text: str, policies: Sequence[Policy], loop: str) -> list[tuple[Policy, WhatIf]]:
    from redraft.actors.whatif import what_if
    from redraft.app.cli.reading import events_of

    events = await events_of(log, text)
    return [(policy, what_if(events, policy, loop)) for policy in policies]


async def _over(
    log: House, workflow: str, tag: str, since: datetime | None, limit: int, policies: Sequence[Policy], loop: str
) -> tuple[Row, ...]:
    """The rows of a table: the runs as recorded, then each policy. Runs whose plan has no such loop are passed over."""
    from redraft.actors.whatif import what_if
    from redraft.app.whatif_table import AS_RECORDED, Tally, rows
    from redraft.projections.run_list import list_runs

    lines = await list_runs(log.views, limit=limit, status="ended", workflow=workflow, tag=tag or None, since=since)
    if not lines:
        raise InputError(f"no run of the workflow {workflow!r} has ended{' since then' if since else ''}")
    recorded, tallies = Tally(AS_RECORDED), [Tally(str(policy)) for policy in policies]
    fault: InputError | None = None
    counted = 0
    for line in lines:
        events = await log.store.read(line.run)
        try:
            found = [what_if(events, policy, loop) for policy in policies]
        except InputError as error:
            fault = error
            continue
        counted += 1
        recorded.add(found[0].recorded)
        for tally, each in zip(tallies, found, strict=True):
            tally.add(each.imagined)
    if not counted and fault is not None:
        raise fault
    return rows([recorded, *tallies])
