"""`redraft show`: one run as it stands or stood, its draft, or what a worker of it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import AtOption, JsonOption, RunArgument, StoreOption
from redraft.app.cli.output import out, print_json, print_line, print_text
from redraft.app.cli.reading import ask, drafts_of, events_at
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.app.commands_given import Given
    from redraft.app.compose import House
    from redraft.events.content import Draft
    from redraft.events.envelope import Recorded

EXAMPLE: Final = """\b
Examples:
  redraft show last
  redraft show last --at 12
  redraft show last --at 2026-01-03T10:00Z
  redraft show last --step 'Refinement[2]/improve' --attempt 1
  redraft show last --text > final.md
"""


def show(
    run: RunArgument,
    at: AtOption = "",
    step: Annotated[
        str, typer.Option(metavar="PATH", help="Print the very command that the worker of this step was given.")
    ] = "",
    attempt: Annotated[
        int | None, typer.Option(help="That of this attempt at the step (default: the last).", show_default=False)
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the draft that it ended with, or the newest.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show a run as a tree, with scores and times, and why it ended; as it stood then with --at.

    With --step it shows what a worker saw when it decided: the command with brief, draft, critique and history, made
    from the log as it was made then.
    """
    from redraft.projections.tree import tree

    if attempt is not None and not step:
        raise InputError("--attempt is of a step; name it with --step PATH")
    if step:
        _print_given(ask(store, lambda log: _given(log, run, at, step, attempt)), json=json)
        return
    events, is_readable = ask(store, lambda log: _read(log, run, at))
    if text:
        print_text(_shown(events).text)
    elif json:
        print_json(tree(events))
    else:
        from redraft.app.cli.tree_view import tree_view

        out().print(tree_view(tree(events), whole=is_readable and not at))
        if is_readable and not at:
            _tell_unserved(events)


def _tell_unserved(events: Sequence[Recorded]) -> None:
    """Says which actors a run waits for that no worker serves, where there is a broker to ask."""
    from redraft.actors.evolve import fold
    from redraft.app.logs import libraries
    from redraft.app.loop import run
    from redraft.app.settings import read_settings
    from redraft.app.unserved import unserved

    waiting = [step.request for step in fold(event.data for event in events).open.values() if step.retry_at is None]
    if waiting:
        with libraries():
            lines = run(unserved(read_settings(), [(asked.role, asked.actor) for asked in waiting]))
        for line in lines:
            out().print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)


async def _read(log: House, run: str, at: str) -> tuple[Sequence[Recorded], bool]:
    """Returns the events of a run that can be read, and whether all of them can be."""
    from redraft.projections.run_list import find_run

    events = await events_at(log, run, at)
    return events, (await find_run(log.views, events[0].run)).status != "unreadable"


def _shown(events: Sequence[Recorded]) -> Draft:
    """The draft that a run ended with, or its newest one. Raises InputError when it has none."""
    from redraft.projections.scores import kept

    drafts = drafts_of(events)
    if not drafts:
        raise InputError(
            f"run {events[0].run} has no draft after {len(events)} events; see redraft show {events[0].run}"
        )
    return drafts[kept(events) or max(drafts)]


async def _given(log: House, run: str, at: str, step: str, attempt: int | None) -> Given:
    from redraft.app.commands_given import given

    return await given(await events_at(log, run, at), step, attempt, log.client.history)


def _print_given(found: Given, *, json: bool) -> None:
    """The command, as JSON in one line with where it is from, or indented under a line that says so."""
    import msgspec

    if json:
        print_json(found)
        return
    asked = found.command.request
    where = f"event {found.version} of run {found.run}, {found.time:%Y-%m-%d %H:%M:%S} UTC"
    print_line(f"{found.name} for {asked.actor}, attempt {asked.attempt} ({where})")
    print_text(msgspec.json.format(msgspec.json.encode(found.command), indent=2).decode() + "\n")
