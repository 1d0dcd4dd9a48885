"""`redraft parked`: what was set aside because nobody could work on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar

import typer

from redraft.app.cli.options import BusOption, JsonOption

if TYPE_CHECKING:
    from redraft.events.bus import Bus, Parked

T = TypeVar("T")

IdArgument: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it, or the end of it.")]
AllOption: TypeAlias = Annotated[bool, typer.Option("--all", help="All that are parked now, in place of ID.")]
SomeArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="[ID]", help="As `list` shows it, or the end of it.", show_default=False)
]

APP: Final = typer.Typer(
    help="List, show, retry or discard the messages that were set aside: unreadable, or delivered too often.",
    no_args_is_help=False,
    rich_markup_mode=None,
    epilog="Example: redraft parked list",
)


@APP.command("list")
def list_(bus: BusOption = None, json: JsonOption = False) -> None:
    """List what is parked, the oldest first: id, queue, message, run, bytes, and why."""
    from redraft.app.cli.output import print_json, print_line

    if json:
        print_json(_ask(bus, lambda opened: opened.parked(_facts)))
        return
    lines = _ask(bus, lambda opened: opened.parked(_line))
    for line in lines or ["nothing is parked"]:
        print_line(line)


@APP.command("show")
def show(parked_id: IdArgument, bus: BusOption = None, json: JsonOption = False) -> None:
    """Show one: where it was, why it was set aside, where it came from, and its body."""
    from redraft.app.cli.output import print_json, print_line, print_text
    from redraft.events.errors import InputError
    from redraft.projections.plain import plain

    async def found(opened: Bus) -> Parked:
        chosen = _one(await opened.parked(_id), parked_id)
        for each in await opened.parked(lambda each: each if each.id == chosen else None):
            if each is not None:
                return each
        raise InputError(f"{chosen} is parked no more: somebody else was faster")

    parked = _ask(bus, found)
    body = parked.letter.body.decode(errors="backslashreplace")
    facts = _facts(parked)
    if json:
        print_json({**facts, "body": body})
        return
    for name, value in facts.items():
        print_line(f"{name:<12} {plain(str(value), 2_000)}")
    print_text(f"\n{plain(body, len(body))}\n")


@APP.command("retry")
def retry(
    parked_id: SomeArgument = "", everything: AllOption = False, bus: BusOption = None, json: JsonOption = False
) -> None:
    """Put one, or all, back into the queue that it came from, to be delivered as if it were new."""
    if everything:
        _all(parked_id, bus, lambda opened: opened.retry_all(), "retried", json=json)
    else:
        _one_of(parked_id, bus, lambda opened, one: opened.retry(one), "retried", json=json)


@APP.command("discard")
def discard(
    parked_id: SomeArgument = "", everything: AllOption = False, bus: BusOption = None, json: JsonOption = False
) -> None:
    """Take one, or all, away for good. The step that it asked for has failed as lost, and is tried again as planned."""
    if everything:
        _all(parked_id, bus, lambda opened: opened.discard_all(), "discarded", json=json)
    else:
        _one_of(parked_id, bus, lambda opened, one: opened.discard(one), "discarded", json=json)


def _all(
    parked_id: str, bus: str | None, do: Callable[[Bus], Awaitable[Sequence[str]]], done: str, *, json: bool
) -> None:
    if parked_id:
        raise _which()
    _tell(_ask(bus, do), done, "nothing is parked", json=json)


def _one_of(
    parked_id: str, bus: str | None, do: Callable[[Bus, str], Awaitable[bool]], done: str, *, json: bool
) -> None:
    if not parked_id:
        raise _which()

    async def acted(opened: Bus) -> list[str]:
        chosen = _one(await opened.parked(_id), parked_id)
        return [chosen] if await do(opened, chosen) else []

    _tell(_ask(bus, acted), done, "somebody else was faster", json=json)


def _which() -> Exception:
    from redraft.events.errors import InputError

    return InputError("name one parked message, or --all; `redraft parked list` shows them")


def _tell(ids: Sequence[str], done: str, nothing: str, *, json: bool) -> None:
    from redraft.app.cli.output import print_json, print_line

    if json:
        print_json({done: ids})
        return
    for each in ids:
        print_line(f"{done} {each}")
    if not ids:
        print_line(nothing)


def _id(parked: Parked) -> str:
    return parked.id


def _one(ids: Sequence[str], text: str) -> str:
    from redraft.events.errors import InputError

    exact = [each for each in ids if each == text]
    found = exact or [each for each in ids if each.endswith(text) or each.startswith(text)]
    match found:
        case [one]:
            return one
        case []:
            raise InputError(f"nothing is parked as {text!r}; `redraft parked list` shows what is")
        case _:
            raise InputError(f"{len(found)} parked messages begin or end with {text!r}; give more of the id")


def _line(parked: Parked) -> str:
    from redraft.projections.plain import plain

    letter = parked.letter
    where = f"{plain(parked.queue) or '(no known queue)'}  {plain(letter.name) or '(no name)'}"
    return f"{parked.id}  {where}  {plain(letter.run) or '-'}  {len(letter.body)} B  {plain(parked.reason, 300)}"


def _facts(parked: Parked) -> dict[str, object]:
    letter = parked.letter
    return {
        "id": parked.id,
        "queue": parked.queue,
        "name": letter.name,
        "run": letter.run,
        "reason": parked.reason,
        "bytes": len(letter.body),
        "from": letter.origin.actor,
        "causation": letter.origin.causation,
    }


def _ask(bus: str | None, question: Callable[[Bus], Awaitable[T]]) -> T:
    """The answer of the bus. Raises BusError, InputError."""
    from redraft.app.deployment import open_bus
    from redraft.app.logs import libraries
    from redraft.app.loop import run
    from redraft.app.settings import read_settings

    settings = read_settings(bus=bus)

    async def asked() -> T:
        async with open_bus(settings, patience=20) as opened:
            return await question(opened)

    with libraries():
        return run(asked())
