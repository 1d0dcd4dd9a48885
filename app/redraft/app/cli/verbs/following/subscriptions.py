"""`redraft subscriptions`: how far each named subscription has come, and what is parked for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Annotated, Final, TypeAlias, TypeVar

import typer

from redraft.app.cli.shared.options import JsonOption, StoreOption
from redraft.app.cli.shared.output import print_result
from redraft.app.cli.shared.reading import existing_store
from redraft.app.subscribing.lags import Lagging, find_parked, lag_document, list_lags, move_to, skip_event
from redraft.app.wiring.stores import open_store_of
from redraft.events.backends import open_subscriptions
from redraft.events.errors import InputError
from redraft.events.store.event_store import EventStore
from redraft.events.subscriptions.subscriptions import ParkedEvent, Subscriptions
from redraft.projections.display import counted, plain

T = TypeVar("T")


NameArgument: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="As `list` shows it.")]

APP: Final = typer.Typer(
    help="List named subscriptions, move their positions, and handle the events parked for them.",
    epilog="Example: redraft subscriptions list",
)


@APP.command("list", epilog="Example: redraft subscriptions list --json")
def list_(store: StoreOption = None, json: JsonOption = False) -> None:
    """List the names: position, lag in events and since when, how many events are parked, and where they go."""

    found = _ask(store, list_lags)
    lines = (line for each in found for line in _lines(each))
    print_result([*map(lag_document, found)], lines, json=json, nothing="there are no subscriptions with a name")


def _lines(lagging: Lagging) -> Iterator[str]:
    each = lagging.found
    parked = f"  {each.parked} parked" if each.parked else ""
    since = f" since {lagging.since:%Y-%m-%d %H:%M:%S} UTC" if lagging.since else ""
    yield f"{each.name}  at {each.position}, {lagging.lag} behind{since}{parked}  {plain(each.target, 200)}"
    if each.failing is not None:
        again = f"{each.failing.retry_at:%Y-%m-%d %H:%M:%S}"
        times = counted(each.failing.attempts, "time")
        failure = f"failed {times}, again at {again} UTC: {plain(each.failing.error, 300)}"
        yield f"    event {each.failing.position} {failure}"


@APP.command("reset", epilog="Example: redraft subscriptions reset search-index --to 1200")
def reset(
    name: NameArgument,
    to: Annotated[int, typer.Option(metavar="POSITION", help="Go on after this position (0: the beginning).")] = 0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Begin again after a position. Whoever serves the name goes there within a second."""
    _print_moved(_ask(store, lambda log, names: move_to(log, names, name, to)), json=json)


@APP.command("skip", epilog="Example: redraft subscriptions skip search-index")
def skip(
    name: NameArgument,
    to_end: Annotated[bool, typer.Option("--to-end", help="Skip every event that is in the log now.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Skip the current event: the one that fails, or else the next one. Nothing is parked."""
    _print_moved(_ask(store, lambda log, names: skip_event(log, names, name, to_end=to_end)), json=json)


@APP.command("parked", epilog="Example: redraft subscriptions parked search-index --retry 1201")
def parked(
    name: NameArgument,
    retry: Annotated[str, typer.Option(metavar="ID", help="Try this one once more, or `all`.")] = "",
    discard: Annotated[str, typer.Option(metavar="ID", help="Take this one away, or `all`.")] = "",
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """List the events that were set aside for a name, or try them again, or discard them.

    ID is an event's id, or its position. One that is tried again is handled by the process that serves the name, once;
    the log keeps every event, whatever becomes of it here.
    """
    if retry and discard:
        raise InputError("give --retry or --discard, not both")

    async def handle_parked(log: EventStore, names: Subscriptions) -> Sequence[ParkedEvent]:
        found = await names.parked(name)
        if not (retry or discard):
            return found
        act = names.retry if retry else names.discard
        return [each for each in find_parked(found, retry or discard, name) if await act(each)]

    found = _ask(store, handle_parked)
    if retry or discard:
        done = "retried" if retry else "discarded"
        lines = (f"{done} {each.position} {each.id}" for each in found)
        print_result({done: [each.id for each in found]}, lines, json=json, nothing="nothing is parked any more")
    else:
        print_result(found, map(_parked_line, found), json=json, nothing="nothing is parked")


@APP.command("remove", epilog="Example: redraft subscriptions remove search-index")
def remove(name: NameArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Forget a name: its position, and what is parked for it. End the process that serves it first."""

    async def remove_name(log: EventStore, names: Subscriptions) -> bool:
        await names.get(name)
        return await names.remove(name)

    _ask(store, remove_name)
    print_result({"removed": name}, [f"removed {name}"], json=json)


def _ask(store: str | None, question: Callable[[EventStore, Subscriptions], Awaitable[T]]) -> T:
    """The answer of the log and its subscriptions. Raises StoreError when there is no store yet."""
    from redraft.app.process.lifecycle import run

    settings = existing_store(store)

    async def ask_store() -> T:
        async with open_store_of(settings) as log, open_subscriptions(settings.store) as names:
            return await question(log, names)

    return run(ask_store())


def _print_moved(lagging: Lagging, *, json: bool) -> None:
    found = lagging.found
    line = f"{found.name} goes on after position {found.position}; {lagging.lag} events follow it"
    print_result(lag_document(lagging), [line], json=json)


def _parked_line(each: ParkedEvent) -> str:
    again = "  (will be tried again)" if each.retry else ""
    failed = f"failed {counted(each.attempts, 'time')}{again}"
    return f"{each.position}  {each.id}  {each.run}  {each.event}  {failed}  {plain(each.error, 300)}"
