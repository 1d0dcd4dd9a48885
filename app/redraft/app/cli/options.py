"""Options and arguments that several verbs share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the events are: sqlite:///path (default: REDRAFT_STORE, else in your data folder).",
        show_default=False,
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
RunArgument: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, or the start or end of it, or `last`."),
]
