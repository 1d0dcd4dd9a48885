"""Options and arguments that several verbs share."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from redraft.events.errors import InputError

StoreOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where the events are: sqlite:///path or postgresql://… (default: REDRAFT_STORE, else your data folder).",
        show_default=False,
    ),
]
BusOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bus",
        metavar="URL",
        help="The broker: amqp://user:password@host:5672/ (default: REDRAFT_BUS, where a password is safer).",
        show_default=False,
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
BudgetOption: TypeAlias = Annotated[
    str,
    typer.Option(metavar="LIMITS", help="What the run may use at most: tokens=50000,cost=2,calls=40,seconds=600."),
]
RunArgument: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, or the start or end of it, or `last`."),
]
TagOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="TAG", help="A word to find the run by; may be repeated.", show_default=False),
]
AtOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--at",
        metavar="N|TIME",
        help="As it stood after so many events, or at that time: 2026-01-03T10:00Z, or 2h ago.",
        show_default=False,
    ),
]


TextOption: TypeAlias = Annotated[
    bool, typer.Option("--text", help="SOURCE is the text itself, whatever it looks like.")
]
UntilOption: TypeAlias = Annotated[
    str, typer.Option(help="End the outermost loop when this holds, such as 'score >= 0.9'.")
]
PassesOption: TypeAlias = Annotated[int | None, typer.Option(help="At most so many passes of the outermost loop.")]
ModelOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="For steps that ask a model and name none: openai:…, anthropic:…, google:…, ollama:… (REDRAFT_MODEL).",
        show_default=False,
    ),
]
TrustOption: TypeAlias = Annotated[
    bool, typer.Option("--trust", help="Go on with a run that was imported: carry out somebody else's plan.")
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def named(key: str | None) -> str:
    """The `--key` that was given, empty for none.

    Raises InputError for one of blanks: a script whose variable is empty would get a run more with each call.
    """
    if key is not None and not key.strip():
        raise InputError("--key is empty: give it a word, such as notes-7, or leave it out")
    return key or ""


PATIENCE: Final = 60.0
"""For how many seconds servers are tried at the start, unless told otherwise."""

PatienceOption: TypeAlias = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="For how long servers are tried at the start.")
]


def _without_leftovers(path: Path | None) -> Path | None:
    """Takes away the files of a process that was killed: their age would say of this one that it hangs."""
    from redraft.app.health import alive_beside

    for left in (path, alive_beside(path)) if path else ():
        with suppress(OSError):  # whoever writes it says what is wrong
            left.unlink()
    return path


HealthOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        callback=_without_leftovers,
        envvar="REDRAFT_HEALTH_FILE",
        show_envvar=False,
        help="A file that is touched every 5 s while all is well (default: REDRAFT_HEALTH_FILE, else none).",
        show_default=False,
    ),
]
TiedOption: TypeAlias = Annotated[bool, typer.Option("--tied", hidden=True, help="End when standard input ends.")]
NameOption: TypeAlias = Annotated[str, typer.Option("--name", hidden=True, help="What it is called in the log.")]
JsonLogOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Log JSON lines, on a terminal too.")]
