"""`redraft submit`: a run for a deployment, from anywhere that reaches its broker."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from redraft.app.cli.options import (
    BudgetOption,
    BusOption,
    JsonOption,
    ModelOption,
    PassesOption,
    QuietOption,
    StoreOption,
    TagOption,
    TextOption,
    UntilOption,
    named,
)

EXAMPLE: Final = """\b
Examples:
  redraft submit article.py:article "Why tides exist"
  redraft submit plan.yaml notes.md --key notes-7 --tag spring --wait --json
  redraft submit code module.py --tests tests/test_module.py --model openai:gpt-5
"""


def submit(
    workflow: Annotated[str, typer.Argument(metavar="WORKFLOW", help="A shipped one, file.py:name, or plan.yaml.")],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, - for standard input, or the text itself.")],
    key: Annotated[
        str | None, typer.Option(help="The same key is the same run, however often it is submitted.")
    ] = None,
    tag: TagOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and tell it as `run` does.")] = False,
    text: TextOption = False,
    until: UntilOption = "",
    max_iterations: PassesOption = None,
    tests: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Tests that judge the code too, on this machine; may be repeated."),
    ] = None,
    model: ModelOption = "",
    budget: BudgetOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Send a run to a deployment and print its id. Its actors are not needed here, and without --wait no store.

    With --wait the final draft is printed instead. Exit codes: 0 submitted or accepted, 1 failed, 2 wrong input,
    3 ended without acceptance, 5 the broker or store cannot be reached, 130 interrupted (the run goes on).
    """
    from pathlib import Path

    from redraft.actors.pinning import pinned
    from redraft.actors.plan_paths import steps_in
    from redraft.app.briefs import check_tested, read_brief
    from redraft.app.cli.faults import say
    from redraft.app.cli.order import Order, begun
    from redraft.app.cli.waiting import submitted
    from redraft.app.deployment import require_broker, require_store
    from redraft.app.loop import run
    from redraft.app.models import Models, check_money, seats_of
    from redraft.app.outlets import Outlets, refuse_folder
    from redraft.app.prepare import prepare
    from redraft.app.settings import read_settings
    from redraft.app.sources import override, read_source
    from redraft.app.staff import staff
    from redraft.app.unserved import unserved
    from redraft.events.tags import checked_tags

    settings = read_settings(store=store, bus=bus)
    require_broker(settings)
    if wait:
        require_store(settings)
    key, tags = named(key), checked_tags(tag or ())
    brief = read_brief(source, sys.stdin.buffer, as_text=text, limit=settings.draft_limit)
    found = read_source(workflow, tests=tests or (), model=model)
    check_tested(brief, tests or ())
    refuse_folder(found.plan, found.actors)
    models, mine = Models(prices=settings.model_prices), seats_of(found.actors)
    plan = prepare(override(found.plan, until, max_iterations, budget), brief, models, mine, model)
    if note := check_money(plan, models, mine):
        say(note)
    seats = [(step.role, step.actor) for _, step in steps_in(plan.steps)]
    own = staff(plan, (), Outlets(sys.stdout, Path.cwd())) if found.shipped else found.actors
    if not quiet:
        for line in run(unserved(settings, seats)):
            say(line)
    order = Order(pinned(plan, own), (), brief, key, tags=tags)
    return submitted(
        settings,
        lambda client: begun(client, order, by="redraft submit"),
        {},
        wait=wait,
        reads=False,
        json=json,
        quiet=quiet,
    )
