"""The verbs that steer a run, `guide`, `limits`, `pause`, `resume`, `cancel`, `quarantine`, and those that decide on
its drafts: `approve`, `reject`, `edit`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Final, TypeAlias

import typer

from redraft.app.cli.shared.errors import say
from redraft.app.cli.shared.options import ReasonOption, RunArgument, SteeringOptions, name_of, with_options
from redraft.app.cli.shared.output import print_json, print_line
from redraft.app.cli.shared.reading import existing_store, run_quietly
from redraft.app.runs.steering import draft_meant, numbered_draft, step_meant
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.workflows.sources import read_condition
from redraft.events.errors import InputError
from redraft.events.messages.commands import (
    ApproveDraft,
    CancelRun,
    ChangeLimits,
    EditDraft,
    GuideRun,
    PauseRun,
    RejectDraft,
    ResumeRun,
    SteeringMessage,
)
from redraft.events.messages.envelope import Recorded
from redraft.projections.run_views.sentences import history

Message: TypeAlias = Callable[[Sequence[Recorded], str], SteeringMessage]
"""Makes what is said to a run, of its events and the name of who says it."""

GUIDE: Final = 'Example: redraft guide last "say why the sun matters too" --by ann'
LIMITS: Final = "Example: redraft limits last --max-iterations 8 --until 'score >= 0.85' --reason 'good enough'"
PAUSE: Final = "Example: redraft pause last --reason 'the facts are being checked'"
RESUME: Final = "Example: redraft resume last"
QUARANTINE: Final = "Example: redraft quarantine last --reason 'its answers are those of another run'"
CANCEL: Final = "Example: redraft cancel last --reason 'no longer needed'"
APPROVE: Final = "Example: redraft approve last --draft 4 --by ann"
REJECT: Final = 'Example: redraft reject last --draft 4 --feedback "the second half is about the sun" --by ann'
EDIT: Final = """\b
Examples:
  redraft show last --text > mine.md
  redraft edit last mine.md --by ann
"""

DraftOption: TypeAlias = Annotated[
    int | None, typer.Option(metavar="N", help="The draft that you mean (default: what is waited for).")
]


@with_options
def guide(
    run: RunArgument,
    advice: Annotated[str, typer.Argument(metavar="ADVICE", help="What the next refinement should take into account.")],
    *,
    reason: ReasonOption = "",
    given: SteeringOptions,
) -> None:
    """Give advice to the next refinement of a run; the refiner finds it in its history.

    What is under way goes on: the advice reaches the refiner that is asked next, once.
    """
    _say_to(run, given, lambda past, who: GuideRun(past[0].run, advice, reason, who))


@with_options
def limits(
    run: RunArgument,
    *,
    until: Annotated[str, typer.Option(help="End the loop when this holds, such as 'score >= 0.85'.")] = "",
    max_iterations: Annotated[
        int | None, typer.Option(metavar="N", help="Allow at most N iterations, counting those already made.")
    ] = None,
    loop: Annotated[str, typer.Option(metavar="PATH", help="Which loop (default: the one outermost loop).")] = "",
    reason: ReasonOption = "",
    given: SteeringOptions,
) -> None:
    """Change when a loop of a run ends, from its next critique on: the condition, the number of iterations, or both."""
    if not until and max_iterations is None:
        raise InputError("nothing is changed; give --until, --max-iterations, or both")
    condition = read_condition(until) if until else None
    _say_to(run, given, lambda past, who: ChangeLimits(past[0].run, loop, condition, max_iterations, reason, who))


@with_options
def pause(run: RunArgument, *, reason: ReasonOption = "", given: SteeringOptions) -> None:
    """Pause a run: what is under way is still recorded, and nothing more is asked for until it is resumed."""
    _say_to(run, given, lambda past, who: PauseRun(past[0].run, reason, who))


@with_options
def resume(run: RunArgument, *, reason: ReasonOption = "", given: SteeringOptions) -> None:
    """Go on with a run that is paused. (One whose process was interrupted goes on with `redraft run --resume`.)"""
    _say_to(run, given, lambda past, who: ResumeRun(past[0].run, reason, who))


@with_options
def cancel(run: RunArgument, *, reason: ReasonOption = "", given: SteeringOptions) -> None:
    """End a run as cancelled, with the best draft that was judged. A call under way is stopped, wherever it runs."""
    _say_to(run, given, lambda past, who: CancelRun(past[0].run, reason, who))


@with_options
def quarantine(
    run: RunArgument,
    *,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why the run cannot be relied on; it is kept in the record.")
    ],
    given: SteeringOptions,
) -> None:
    """Set a run aside whose record is wrong, or cannot be read: nothing more is done for it, and all else goes on.

    Its events stay in the log as they are. This cannot be taken back: begin a new run, or, if all its events can
    be read, fork it at one before it went wrong. `redraft doctor` names the runs that cannot be read.
    """
    from redraft.app.runs.steering import quarantine as set_aside

    _say(given, lambda settings: set_aside(settings, run, reason, name_of(given.by)))


@with_options
def approve(run: RunArgument, *, draft: DraftOption = None, reason: ReasonOption = "", given: SteeringOptions) -> None:
    """Approve the draft that a run waits with. It counts for that draft alone, by its hash."""
    _decide(ApproveDraft, run, draft, reason, given)


@with_options
def reject(
    run: RunArgument,
    *,
    draft: DraftOption = None,
    feedback: Annotated[
        str, typer.Option(metavar="TEXT", help="What the next refinement should take into account.")
    ] = "",
    given: SteeringOptions,
) -> None:
    """Reject the draft that a run waits with. In a loop it is refined once more, else the run ends as rejected."""
    _decide(RejectDraft, run, draft, feedback, given)


def _decide(
    word: type[ApproveDraft | RejectDraft], run: str, draft: int | None, reason: str, given: SteeringOptions
) -> None:
    """Sends a decision on the draft, or on that which waits, at the step that asks now; prints what records it."""

    def message(past: Sequence[Recorded], who: str) -> ApproveDraft | RejectDraft:
        return word(past[0].run, draft_meant(past, draft), reason, who, step=step_meant(past))

    _say_to(run, given, message)


@with_options
def edit(
    run: RunArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Your draft, a file or a folder; - for standard input.")],
    *,
    draft: Annotated[
        int | None, typer.Option(metavar="N", help="The draft that you changed (default: the newest).")
    ] = None,
    reason: ReasonOption = "",
    given: SteeringOptions,
) -> None:
    """Give a run a draft of your own. Critics judge it like any other, and the run goes on with it.

    What is under way is given up, and approvals of earlier drafts are void.
    """
    from redraft.app.workflows.briefs import read_brief

    limit = read_settings(store=given.store, bus=given.bus).max_draft_bytes
    text = read_brief(file, sys.stdin.buffer, as_text=None, limit=limit).text

    def message(past: Sequence[Recorded], who: str) -> EditDraft:
        return EditDraft(past[0].run, numbered_draft(past, draft), text, reason, who, latest=draft is None)

    _say_to(run, given, message)


def _say_to(run: str, given: SteeringOptions, message: Message) -> None:
    """Sends the message to the run, and prints the event that records it."""
    from redraft.app.runs.steering import NotAsked, steer

    async def send(settings: Settings) -> tuple[str, Recorded | None]:
        try:
            return await steer(settings, run, lambda past: message(past, name_of(given.by)))
        except NotAsked as error:
            raise InputError(f"{error} (--by NAME)") from None

    _say(given, send)


def _say(
    given: SteeringOptions, send: Callable[[Settings], Coroutine[None, None, tuple[str, Recorded | None]]]
) -> None:
    """Sends what is said, and prints what was recorded."""
    run, event = run_quietly(send(existing_store(given.store, given.bus)))
    if given.json:
        recorded = {"event": event.name, "version": event.version, "by": event.actor} if event else {"event": None}
        print_json({"run": run, **recorded})
    elif event:
        print_line(f"run {run}: {history((event,))[0].sentence}")
    if event is None:
        say(f"run {run}: the message was sent, but no coordinator has handled it yet; see redraft show {run}")
