"""Options of the verbs that serve a named subscription, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from redraft.events.errors import InputError

if TYPE_CHECKING:
    from redraft.app.serving import Start
    from redraft.events.filters import EventFilter

_RUN_ID: Final = 26
"""Characters of an id, of a run with a key too."""

SubscriptionOption: TypeAlias = Annotated[
    str, typer.Option("--name", metavar="NAME", help="The subscription's name; its position is kept under it.")
]
TypesOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="Only events of this type; may be repeated.")
]
RunsOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--run", metavar="RUN", help="Only events of this run, by its whole id.")
]
WorkflowsOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--workflow", metavar="NAME", help="Only of runs of this workflow.")
]
TagsOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only of runs with this tag.")
]
FromOption: TypeAlias = Annotated[
    str, typer.Option("--from", metavar="PLACE", help="Where a new name begins: `beginning`, `now`, or a position.")
]
AttemptsOption: TypeAlias = Annotated[
    int, typer.Option(metavar="N", min=1, help="How often an event is tried before it is parked.")
]


def wanted_of(
    types: Sequence[str] | None,
    runs: Sequence[str] | None,
    workflows: Sequence[str] | None,
    tags: Sequence[str] | None,
) -> EventFilter:
    """The filter that the options mean. Raises InputError.

    A run may be one that is not recorded yet, so its id cannot be looked up, and `last` would mean another one later.
    """
    from redraft.events.filters import event_filter

    for run in runs or ():
        if len(run) < _RUN_ID:
            raise InputError(f"--run {run}: give the whole id of a run, {_RUN_ID} characters; `redraft list` shows it")
    return event_filter(types=types or (), runs=runs or (), workflows=workflows or (), tags=tags or ())


def start_of(text: str) -> Start:
    """Where a new name begins: after which position. Raises InputError."""
    if text == "now":
        return "now"
    if text == "beginning":
        return 0
    if text.isascii() and text.isdecimal() and int(text) >= 1:
        return int(text) - 1
    raise InputError(f"--from {text}: give `beginning`, `now`, or a position from 1 on")
