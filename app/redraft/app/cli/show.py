"""`redraft show` and `redraft diff`: one run, and what changed between two of its drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from redraft.app.cli.options import JsonOption, RunArgument, StoreOption
from redraft.app.cli.output import out, print_json, print_text
from redraft.app.cli.reading import ask, drafts_of, events_of
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.events.content import Draft
    from redraft.events.envelope import Recorded

EXAMPLE: Final = """\b
Examples:
  redraft show last
  redraft show last --at 12
  redraft show last --text > final.md
"""


def show(
    run: RunArgument,
    at: Annotated[int | None, typer.Option(help="As it stood after so many events.", show_default=False)] = None,
    text: Annotated[bool, typer.Option("--text", help="Print the draft that it ended with, or the newest.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show a run as a tree, with scores and times, and why it ended."""
    from redraft.projections.tree import tree

    events = ask(store, lambda log: events_of(log, run, at))
    if text:
        print_text(_shown(events).text)
    elif json:
        print_json(tree(events))
    else:
        from redraft.app.cli.tree_view import tree_view

        out().print(tree_view(tree(events), whole=at is None))


def _shown(events: Sequence[Recorded]) -> Draft:
    """The draft that a run ended with, or its newest one. Raises InputError when it has none."""
    from redraft.projections.scores import kept

    drafts = drafts_of(events)
    if not drafts:
        raise InputError(
            f"run {events[0].run} has no draft after {len(events)} events; see redraft show {events[0].run}"
        )
    return drafts[kept(events) or max(drafts)]
