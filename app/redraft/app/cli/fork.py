"""`redraft fork`: a new run that begins with another's history, and goes its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import (
    BusOption,
    JsonOption,
    QuietOption,
    RunArgument,
    StoreOption,
    TagOption,
    TrustOption,
    named,
)

if TYPE_CHECKING:
    from redraft.app.cli.fork_order import Forked
    from redraft.app.settings import Settings

EXAMPLE: Final = """\b
Examples:
  redraft fork last --at 12 --set 'until=score >= 0.95' --set max_iterations=8
  redraft fork last --at 6 --set judge.model=openai:gpt-5 --out other.md
  redraft fork last --at 1 --brief "Why tides exist, for children" --workflow article.py:article
"""


def fork(
    run: RunArgument,
    at: Annotated[
        str,
        typer.Option("--at", metavar="N|TIME", help="Begin with its first N events, or with those up to that time."),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="What is different from there on: until, max_iterations, keep, rollback_margin (LOOP.until where "
            "there are several loops), on_failure, STEP.timeout, STEP.queue_wait, STEP.actor, STEP.OPTION. "
            "May be repeated.",
        ),
    ] = None,
    brief: Annotated[str, typer.Option(metavar="SOURCE", help="Another brief: a file, -, or the text itself.")] = "",
    workflow: Annotated[
        str, typer.Option("--workflow", "-w", metavar="FILE.py:NAME", help="Where the plan's own functions are.")
    ] = "",
    actors: Annotated[str, typer.Option(metavar="FILE.py", help="A Python file with the plan's own functions.")] = "",
    out: Annotated[str, typer.Option(metavar="PATH", help="Publish to this file, by the publisher file.")] = "",
    key: Annotated[
        str | None, typer.Option(help="The same key is the same fork, however often it is asked for.")
    ] = None,
    tag: TagOption = None,
    trust: TrustOption = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="In a deployment: wait for its end, and tell it as `run` does.")
    ] = False,
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Start a new run that begins with another's history up to an event, and names it as its parent.

    Nothing that was done by then is done again; what was open is asked for again, and workers do the rest: in this
    process, as for `run`, or, where a broker is set, in the deployment, as for `submit`. Exit codes are those of both.
    """
    from redraft.app.cli.conduct import carry_out
    from redraft.app.cli.fork_order import Forked, fork_order
    from redraft.app.settings import LOCAL, read_settings

    given = Forked(run, at, tuple(settings or ()), brief, workflow, actors, out, named(key), tuple(tag or ()), trust)
    chosen = read_settings(store=store, bus=bus)
    if chosen.bus == LOCAL:
        return carry_out(lambda outlets, read: fork_order(given, outlets, read), store, json=json, quiet=quiet)
    return _submitted(given, chosen, wait=wait, json=json, quiet=quiet)


def _submitted(given: Forked, settings: Settings, *, wait: bool, json: bool, quiet: bool) -> int:
    """Submits the fork for a deployment to work on; returns the exit code."""
    from redraft.app.cli.fork_order import start_of
    from redraft.app.cli.order import Order, begun
    from redraft.app.cli.waiting import submitted
    from redraft.app.models import Models
    from redraft.events.errors import InputError

    elsewhere = {"--out": given.out, "--workflow": given.workflow, "--actors": given.actors}
    for name in (name for name, value in elsewhere.items() if value):
        raise InputError(f"{name} is for a fork in this process; leave it out, or give --bus local:")
    start = start_of(given, settings, Models(prices=settings.model_prices))
    order = Order(start.plan, (), start.brief, given.key, tags=start.tags, parent=start.parent)
    facts = {"parent": start.parent}
    return submitted(
        settings, lambda client: begun(client, order), facts, wait=wait, reads=True, json=json, quiet=quiet
    )
