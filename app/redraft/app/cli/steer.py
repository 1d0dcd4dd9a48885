"""`redraft guide`, `limits`, `pause`, `resume`, `cancel`, `quarantine`: what people say to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from redraft.app.cli.options import BusOption, JsonOption, RunArgument, StoreOption

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from redraft.app.settings import Settings
    from redraft.events.commands import SteeringMessage
    from redraft.events.envelope import Recorded

    Word: TypeAlias = Callable[[Sequence[Recorded], str], SteeringMessage]

ByOption: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="Who says so (default: your user name).", show_default=False)
]
ReasonOption: TypeAlias = Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept in the record.")]

GUIDE: Final = 'Example: redraft guide last "say why the sun matters too" --by ann'
LIMITS: Final = "Example: redraft limits last --max-iterations 8 --until 'score >= 0.85' --reason 'good enough'"
PAUSE: Final = "Example: redraft pause last --reason 'the facts are being checked'"
RESUME: Final = "Example: redraft resume last"
QUARANTINE: Final = "Example: redraft quarantine last --reason 'its answers are those of another run'"
CANCEL: Final = "Example: redraft cancel last --reason 'no longer needed'"


def guide(
    run: RunArgument,
    advice: Annotated[str, typer.Argument(metavar="ADVICE", help="What the next refinement is to heed.")],
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """Give advice to the next refinement of a run; the refiner finds it in its history.

    What is under way goes on: the advice reaches the refiner that is asked next, once.
    """
    from redraft.events.commands import GuideRun

    say_to(run, lambda past, who: GuideRun(past[0].run, advice, reason, who), by, store, bus, json=json)


def limits(
    run: RunArgument,
    until: Annotated[str, typer.Option(help="End the loop when this holds, such as 'score >= 0.85'.")] = "",
    max_iterations: Annotated[int | None, typer.Option(help="At most so many passes, those made included.")] = None,
    loop: Annotated[str, typer.Option(metavar="PATH", help="Which loop (default: the one outermost loop).")] = "",
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """Change when a loop of a run ends, from its next critique on: the condition, the number of passes, or both."""
    from redraft.app.sources import read_condition
    from redraft.events.commands import ChangeLimits
    from redraft.events.errors import InputError

    if not until and max_iterations is None:
        raise InputError("nothing is changed; give --until, --max-iterations, or both")
    condition = read_condition(until) if until else None
    say_to(
        run,
        lambda past, who: ChangeLimits(past[0].run, loop, condition, max_iterations, reason, who),
        by,
        store,
        bus,
        json=json,
    )


def pause(
    run: RunArgument,
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """Pause a run: what is under way is still recorded, and nothing more is asked for until it is resumed."""
    from redraft.events.commands import PauseRun

    say_to(run, lambda past, who: PauseRun(past[0].run, reason, who), by, store, bus, json=json)


def resume(
    run: RunArgument,
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """Go on with a run that is paused. (One whose process was interrupted goes on with `redraft run --resume`.)"""
    from redraft.events.commands import ResumeRun

    say_to(run, lambda past, who: ResumeRun(past[0].run, reason, who), by, store, bus, json=json)


def cancel(
    run: RunArgument,
    by: ByOption = "",
    reason: ReasonOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """End a run as cancelled, with the best draft that was judged. A call under way is stopped, wherever it runs."""
    from redraft.events.commands import CancelRun

    say_to(run, lambda past, who: CancelRun(past[0].run, reason, who), by, store, bus, json=json)


def quarantine(
    run: RunArgument,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why nobody is to rely on it; it is kept in the record.")],
    by: ByOption = "",
    store: StoreOption = None,
    bus: BusOption = None,
    json: JsonOption = False,
) -> None:
    """Set a run aside whose record is wrong, or cannot be read: nothing more is done for it, and all else goes on.

    Its events stay in the log as they are. This cannot be taken back: begin a new run, or fork it at an event before
    it went wrong. `redraft doctor` names the runs that cannot be read.
    """
    from redraft.app.quarantine import quarantine as set_aside

    _say(lambda settings: set_aside(settings, run, reason, name_of(by)), store, bus, json=json)


def name_of(by: str) -> str:
    """Who says so: the name that was given, else that of the user."""
    from getpass import getuser

    if by.strip():
        return by.strip()
    try:
        return getuser()
    except (OSError, KeyError):  # as in a container whose user has no name
        return "somebody"


def say_to(text: str, word: Word, by: str, store: str | None, bus: str | None, *, json: bool) -> None:
    """Says it to the run that is meant, and prints what was recorded. `word` takes its events, and who says it."""
    from redraft.app.steering import steer

    _say(lambda settings: steer(settings, text, lambda past: word(past, name_of(by))), store, bus, json=json)


def _say(
    word: Callable[[Settings], Coroutine[None, None, tuple[str, Recorded | None]]],
    store: str | None,
    bus: str | None,
    *,
    json: bool,
) -> None:
    """Has it said, and prints what was recorded."""
    from redraft.app.cli.faults import say
    from redraft.app.cli.output import print_json, print_line
    from redraft.app.cli.reading import refuse_missing
    from redraft.app.logs import libraries
    from redraft.app.loop import run
    from redraft.app.settings import read_settings
    from redraft.projections.history import history

    settings = read_settings(store=store, bus=bus)
    refuse_missing(settings.store)
    with libraries():
        known, event = run(word(settings))
    if json:
        told = {"event": event.name, "version": event.version, "by": event.actor} if event else {"event": None}
        print_json({"run": known, **told})
    elif event:
        print_line(f"run {known}: {history((event,))[0].sentence}")
    if event is None:
        say(f"run {known}: it was sent, and no coordinator has taken it up yet; see redraft show {known}")
