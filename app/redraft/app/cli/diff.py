"""`redraft diff`: what changed between two drafts of a run, word by word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final, assert_never

import typer

from redraft.app.cli.options import JsonOption, RunArgument, StoreOption
from redraft.app.cli.output import out, print_json
from redraft.app.cli.reading import ask, drafts_of, events_of
from redraft.events.errors import InputError
from redraft.events.texts import ERASED

if TYPE_CHECKING:
    from rich.text import Text

    from redraft.projections.diff import Line, Skipped, Word

EXAMPLE: Final = "Example: redraft diff last 1 3"


def diff(
    run: RunArgument,
    a: Annotated[int, typer.Argument(metavar="A", help="The number of the draft before.")],
    b: Annotated[int, typer.Argument(metavar="B", help="The number of the draft after.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Show what changed between two drafts, word by word.

    Words that went are [-marked so-], those that came {+so+}; on a terminal they are in colour too.
    """
    from redraft.projections.diff import diff as compare
    from redraft.projections.diff import folded
    from redraft.projections.plain import counted

    events = ask(store, lambda log: events_of(log, run))
    drafts = drafts_of(events)
    for version in (a, b):
        if version not in drafts:
            known = f"it has {counted(len(drafts), 'draft')}, from 1" if drafts else "it has none yet"
            raise InputError(f"run {events[0].run} has no draft {version}; {known}")
    if ERASED in (drafts[a].text, drafts[b].text):
        raise InputError(f"run {events[0].run} was erased: what its drafts said can no longer be read")
    lines = folded(compare(drafts[a].text, drafts[b].text))
    if json:
        print_json({"before": drafts[a].ref, "after": drafts[b].ref, "lines": list(lines)})
    elif drafts[a].text == drafts[b].text:
        out().print(f"drafts {a} and {b} are the same text")
    else:
        _print(lines)


def _print(lines: Iterable[Line | Skipped]) -> None:
    from redraft.projections.diff import Added, Kept, Removed, Skipped

    console = out()
    for line in lines:
        match line:
            case Kept(text=text):
                shown = _words((), " ", text)
            case Removed(words=words):
                shown = _words(words, "-")
            case Added(words=words):
                shown = _words(words, "+")
            case Skipped(lines=count):
                shown = _words((), "…", f" {count} lines are the same")
            case _:
                assert_never(line)
        console.print(shown, soft_wrap=True)


def _words(words: Iterable[Word], sign: str, text: str = "") -> Text:
    """A line with its sign; the words that changed in it are marked, unless all of them did."""
    from rich.text import Text

    from redraft.projections.plain import visible

    listed = list(words)
    colour = {"-": "red", "+": "green"}.get(sign, "dim" if sign == "…" else "")
    line = Text(f"{sign} {visible(text)}", style=colour)
    partly = not all(word.changed for word in listed)
    opening, closing = ("[-", "-]") if sign == "-" else ("{+", "+}")
    for word in listed:
        text = visible(word.text)
        if word.changed and partly:
            line.append(f"{opening}{text}{closing}", style="bold")
        else:
            line.append(text)
    return line
