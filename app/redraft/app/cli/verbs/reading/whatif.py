"""`redraft whatif`: recorded runs decided on again under another policy, at no model cost."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from redraft.actors.deciding.policy import Policy
from redraft.app.cli.shared.options import JsonOption, StoreOption, refuse_beyond, with_options
from redraft.app.cli.shared.reading import ask, events_of
from redraft.app.process.times import moment_of
from redraft.app.runs.comparing import compare_policies, decide_each, read_policies
from redraft.events.errors import InputError
from redraft.projections.read_models.runs_query import RunFilter

EXAMPLE: Final = """\b
Examples:
  redraft whatif last --until 'score >= 0.95' --max-iterations 8 --keep last
  redraft whatif last --loop Chapters/ChapterRefinement --max-iterations 2
  redraft whatif --workflow article --since 7d --until 'score >= 0.8' --until 'score >= 0.95'
"""


class PolicyOptions(msgspec.Struct, frozen=True):
    """The options of the changed policy."""

    until: Annotated[
        list[str],
        typer.Option(help="End the loop when this holds; given several times, each is a policy of its own."),
    ] = []
    max_iterations: Annotated[int | None, typer.Option(metavar="N", help="Allow at most N iterations of the loop.")] = (
        None
    )
    keep: Annotated[str | None, typer.Option(help="Which draft leaves the loop: best or last.")] = None
    rollback_margin: Annotated[
        str | None,
        typer.Option(
            metavar="MARGIN",
            help="A fall in score beyond which refining starts from the best draft again: 0.1, or '1 of 10'.",
        ),
    ] = None

    def policies(self) -> list[Policy]:
        """Returns a policy for each condition. Raises InputError."""
        return read_policies(self.until, self.max_iterations, self.keep, self.rollback_margin)


class RunsOptions(msgspec.Struct, frozen=True):
    """The runs of a workflow to decide again."""

    workflow: Annotated[str, typer.Option(metavar="NAME", help="Over all runs of this workflow that ended.")] = ""
    tag: Annotated[str, typer.Option(metavar="TAG", help="Of these, only runs with this tag.")] = ""
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Of these, only runs begun at this time or later: 7d, 2h.")
    ] = ""
    limit: Annotated[int, typer.Option(callback=refuse_beyond, metavar="N", help="Of these, only the newest N.")] = 1000


@with_options
def whatif(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="A run's id, or the start or end of it, or `last`; or --workflow."),
    ] = None,
    *,
    given: PolicyOptions,
    loop: Annotated[str, typer.Option(metavar="NAME", help="Which loop, if there are several: its name or path.")] = "",
    many: RunsOptions,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Decide a recorded run again under another policy, with the answers that were recorded. No model is asked.

    It shows where the two first differ, how many steps would have been saved, or where the record ends. Over many
    runs it prints a table, in which means leave out the records that ended early. Runs for whose plan a policy cannot
    be read, as it names another loop or criterion, are in no row; it says how many, and why.
    """
    from redraft.app.cli.views.whatif import print_each, print_policies

    policies = given.policies()
    if bool(run) == bool(many.workflow):
        raise InputError("name one run, or many with --workflow" + (", not both" if run else ""))
    if run is None:
        since = moment_of(many.since, "--since")
        chosen = RunFilter("ended", many.workflow, tag=many.tag or None, since=since)
        found = ask(store, lambda log: compare_policies(log, chosen, many.limit, policies, loop))
        print_policies(found, json=json)
        return
    if many.tag or many.since:
        raise InputError(f"{'--tag' if many.tag else '--since'} chooses among the runs of a --workflow; leave it out")
    events = ask(store, lambda log: events_of(log, run))
    print_each(list(zip(policies, decide_each(events, policies, loop), strict=True)), json=json)
