"""`redraft dead-letters`: lists, shows, retries and discards messages that nobody could work on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Final, TypeAlias, TypeVar

import typer

from redraft.app.cli.shared.options import BusOption, JsonOption
from redraft.app.cli.shared.output import print_json, print_line, print_result, print_text
from redraft.app.cli.shared.reading import ask_server
from redraft.app.settings.settings import read_settings
from redraft.app.wiring.dead_letters import letter_facts, queue_names
from redraft.app.wiring.deployment import open_bus
from redraft.events.bus.port import Bus, DeadLetter
from redraft.events.errors import InputError
from redraft.projections.display import plain

T = TypeVar("T")

IdArgument: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it, or the end of it.")]
AllOption: TypeAlias = Annotated[bool, typer.Option("--all", help="All dead letters, in place of ID.")]
SomeArgument: TypeAlias = Annotated[str, typer.Argument(metavar="[ID]", help="As `list` shows it, or the end of it.")]

APP: Final = typer.Typer(
    help="List, show, retry or discard the messages that were set aside: unreadable, or delivered too often.",
    epilog="Example: redraft dead-letters list",
)


@APP.command("list", epilog="Example: redraft dead-letters list --json")
def list_(bus: BusOption = None, json: JsonOption = False) -> None:
    """List the dead letters, the oldest first: id, queue, message, run, its users, bytes, and why."""
    naming = _naming()
    if json:
        print_json(_ask(bus, lambda opened: opened.dead_letters(partial(letter_facts, naming))))
        return
    for line in _ask(bus, lambda opened: opened.dead_letters(partial(_line, naming))) or ["there are no dead letters"]:
        print_line(line)


@APP.command("show", epilog="Example: redraft dead-letters show 9f3c")
def show(dead_letter_id: IdArgument, bus: BusOption = None, json: JsonOption = False) -> None:
    """Show one: where it was, why it was set aside, where it came from, and its body."""

    async def find(opened: Bus) -> DeadLetter:
        chosen = _find_id(await opened.dead_letters(_id), dead_letter_id)
        for each in await opened.dead_letters(lambda each: each if each.id == chosen else None):
            if each is not None:
                return each
        raise InputError(f"{chosen} is no longer a dead letter: another process has just retried or discarded it")

    dead_letter = _ask(bus, find)
    body = dead_letter.bus_message.body.decode(errors="backslashreplace")
    facts = letter_facts(_naming(), dead_letter)
    if json:
        print_json({**facts, "body": body})
        return
    for name, value in facts.items():
        print_line(f"{name:<12} {plain(str(value), 2_000)}")
    print_text(f"\n{plain(body, len(body))}\n")


@APP.command("retry", epilog="Example: redraft dead-letters retry --all")
def retry(
    dead_letter_id: SomeArgument = "", everything: AllOption = False, bus: BusOption = None, json: JsonOption = False
) -> None:
    """Put one, or all, back into the queue that it came from, to be delivered as if it were new."""
    every = (lambda opened: opened.retry_all()) if everything else None
    _change("retried", dead_letter_id, lambda opened, one: opened.retry(one), every, bus, json=json)


@APP.command("discard", epilog="Example: redraft dead-letters discard 9f3c")
def discard(
    dead_letter_id: SomeArgument = "", everything: AllOption = False, bus: BusOption = None, json: JsonOption = False
) -> None:
    """Delete one, or all, for good.

    If it asked for a step, that attempt fails as lost, and the step is tried again as planned.
    """
    every = (lambda opened: opened.discard_all()) if everything else None
    _change("discarded", dead_letter_id, lambda opened, one: opened.discard(one), every, bus, json=json)


def _change(
    done: str,
    dead_letter_id: str,
    one: Callable[[Bus, str], Awaitable[bool]],
    every: Callable[[Bus], Awaitable[Sequence[str]]] | None,
    bus: str | None,
    *,
    json: bool,
) -> None:
    """Does it to the dead letter that is named, or to `every` one, and prints their ids. Raises InputError."""
    if bool(dead_letter_id) == bool(every):
        raise InputError("name one dead letter, or --all; `redraft dead-letters list` shows them")

    async def change(opened: Bus) -> Sequence[str]:
        if every is not None:
            return await every(opened)
        chosen = _find_id(await opened.dead_letters(_id), dead_letter_id)
        return [chosen] if await one(opened, chosen) else []

    ids = _ask(bus, change)
    nothing = "there are no dead letters" if every else "another process has just retried or discarded it"
    print_result({done: ids}, (f"{done} {each}" for each in ids), json=json, nothing=nothing)


def _id(dead_letter: DeadLetter) -> str:
    return dead_letter.id


def _find_id(ids: Sequence[str], text: str) -> str:
    exact = [each for each in ids if each == text]
    found = exact or [each for each in ids if each.endswith(text) or each.startswith(text)]
    match found:
        case [one]:
            return one
        case []:
            raise InputError(f"there is no dead letter {text!r}; `redraft dead-letters list` shows those there are")
        case _:
            raise InputError(f"{len(found)} dead letters begin or end with {text!r}; give more of the id")


def _line(there: Callable[[str], str], dead_letter: DeadLetter) -> str:
    bus_message = dead_letter.bus_message
    where = f"{plain(there(dead_letter.queue)) or '(no known queue)'}  {plain(bus_message.name) or '(no name)'}"
    users = plain(", ".join(each or "nobody" for each in dead_letter.users), 300)
    return (
        f"{dead_letter.id}  {where}  {plain(bus_message.run) or '-'}  {users}  "
        f"{len(bus_message.body)} B  {plain(dead_letter.reason, 300)}"
    )


def _naming() -> Callable[[str], str]:
    return queue_names(read_settings().broker_prefix)


def _ask(bus: str | None, question: Callable[[Bus], Awaitable[T]]) -> T:
    """The answer of the bus. Raises BusError, InputError."""
    return ask_server(open_bus(read_settings(bus=bus), patience=20), question)
