"""`redraft approve`, `reject`, `edit`: people decide on drafts, and make drafts of their own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from redraft.app.cli.options import BusOption, JsonOption, RunArgument, StoreOption
from redraft.app.cli.steer import ByOption, ReasonOption, say_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from redraft.events.content import DraftRef
    from redraft.events.envelope import Recorded

DraftOption: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="The draft that you mean (default: what is waited for).", show_default=False),
]

APPROVE: Final = "Example: redraft approve last --draft 4 --by ann"
REJECT: Final = 'Example: redraft reject last --draft 4 --feedback "the second half is about the sun" --by ann'
EDIT: Final = """\b
Examples:
  redraft show last --text > mine.md
  redraft edit last mine.md --by ann
"""


def approve(
    run: RunArgument,
    draft: DraftOption = None,
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """Approve the draft that a run waits with. It counts for that draft alone, by its hash."""
    from redraft.events.commands import ApproveDraft

    say_to(
        run, lambda past, who: ApproveDraft(past[0].run, _meant(past, draft), reason, who), by, store, bus, json=json
    )


def reject(
    run: RunArgument,
    draft: DraftOption = None,
    feedback: Annotated[str, typer.Option(metavar="TEXT", help="What the next refinement is to heed.")] = "",
    by: ByOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """Reject the draft that a run waits with. In a loop it is refined once more, else the run ends as rejected."""
    from redraft.events.commands import RejectDraft

    say_to(
        run, lambda past, who: RejectDraft(past[0].run, _meant(past, draft), feedback, who), by, store, bus, json=json
    )


def edit(
    run: RunArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Your draft; - for standard input.")],
    draft: Annotated[
        int | None,
        typer.Option(metavar="N", help="The draft that you changed (default: the newest).", show_default=False),
    ] = None,
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """Give a run a draft of your own. Critics judge it like any other, and the run goes on with it.

    What is under way is given up, and approvals of earlier drafts are void.
    """
    from redraft.app.briefs import read_brief
    from redraft.app.cli.reading import drafts_of
    from redraft.app.settings import read_settings
    from redraft.events.commands import EditDraft

    text = read_brief(file, sys.stdin.buffer, as_text=None, limit=read_settings(store=store, bus=bus).draft_limit).text

    def word(past: Sequence[Recorded], who: str) -> EditDraft:
        newest = max(drafts_of(past), default=0)
        return EditDraft(past[0].run, _named(past, draft or newest), text, reason, who)

    say_to(run, word, by, store, bus, json=json)


def _meant(past: Sequence[Recorded], number: int | None) -> DraftRef:
    """The draft that a person means: by its number, or the one that is waited for."""
    from redraft.actors.evolve import fold
    from redraft.events.content import DraftRef

    waiting = fold(event.data for event in past).approval
    if number is None:
        return waiting.request.draft if waiting else DraftRef(0, "")
    return _named(past, number)


def _named(past: Sequence[Recorded], number: int) -> DraftRef:
    from redraft.app.cli.reading import drafts_of
    from redraft.events.content import DraftRef
    from redraft.events.errors import InputError

    drafts = drafts_of(past)
    if not drafts:
        return DraftRef(0, "")
    if number not in drafts:
        raise InputError(f"--draft {number}: run {past[0].run} has drafts 1 to {max(drafts)}")
    return drafts[number].ref
