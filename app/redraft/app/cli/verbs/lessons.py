"""`redraft lessons`: which lessons later runs are given. `redraft stats lessons` lists them."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.options import ReasonOption, SteeringOptions, name_of, with_options
from redraft.app.cli.shared.output import print_json, print_line
from redraft.app.cli.shared.reading import existing_store, run_quietly
from redraft.projections.run_views.sentences import history

APP: Final = typer.Typer(
    help="Strike lessons out that later runs should not be given, or give them again.",
    epilog="Example: redraft lessons strike 5f0c1c2a9be1d077 --reason 'it was about one text'",
)

LessonArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="LESSON", help="The lesson's id, as `redraft stats lessons` shows it.")
]


@APP.command("strike", epilog="Example: redraft lessons strike 5f0c1c2a9be1d077 --reason 'it was about one text'")
@with_options
def strike(lesson: LessonArgument, *, reason: ReasonOption = "", given: SteeringOptions) -> None:
    """Strike a lesson out: runs that begin from now on are not given it. Runs that have it keep it."""
    _strike(lesson, reason, given, withdrawn=False)


@APP.command("restore", epilog="Example: redraft lessons restore 5f0c1c2a9be1d077")
@with_options
def restore(lesson: LessonArgument, *, reason: ReasonOption = "", given: SteeringOptions) -> None:
    """Give a lesson again that was struck out, to runs that begin from now on."""
    _strike(lesson, reason, given, withdrawn=True)


def _strike(lesson: str, reason: str, given: SteeringOptions, *, withdrawn: bool) -> None:
    """Sends what is said of a lesson, and prints what was recorded."""
    from redraft.app.runs import lessons

    settings = existing_store(given.store, given.bus)
    found, event = run_quietly(lessons.strike(settings, lesson, reason, name_of(given.by), withdrawn=withdrawn))
    is_so = (found.struck_by is not None) != withdrawn
    if given.json:
        recorded = {"event": event.name, "version": event.version, "by": event.actor} if event else {"event": None}
        print_json({"lesson": found.id, "run": found.run, **recorded})
    elif event is not None:
        print_line(f"run {found.run}: {history((event,))[0].sentence}")
    elif is_so:
        print_line(f"lesson {found.id} is {'not struck out' if withdrawn else 'struck out already'}")
    if event is None and not is_so:
        later = "the message was sent, but no coordinator has handled it yet"
        say(f"lesson {found.id}: {later}; see redraft stats lessons")
