"""`redraft subscriptions`: how far each named subscription has come, and what is parked for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias, TypeVar

import typer

from redraft.app.cli.options import JsonOption, StoreOption
from redraft.app.cli.output import print_json, print_line
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from redraft.events.store import EventStore
    from redraft.events.subscriptions import ParkedEvent, Subscription, Subscriptions

T = TypeVar("T")


class Lagging(NamedTuple):
    """A subscription, how many events of the log it has not passed yet, and when the first of them was recorded."""

    found: Subscription
    lag: int
    since: datetime | None


NameArgument: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="As `list` shows it.")]

APP: Final = typer.Typer(
    help="List named subscriptions, set where they are, and look after what is parked for them.",
    no_args_is_help=False,
    rich_markup_mode=None,
    epilog="Example: redraft subscriptions list",
)


@APP.command("list", epilog="Example: redraft subscriptions list --json")
def list_(store: StoreOption = None, json: JsonOption = False) -> None:
    """List the names: position, lag in events and since when, how many events are parked, and where they go."""

    async def asked(log: EventStore, names: Subscriptions) -> list[Lagging]:
        return [await _lagging(log, each) for each in await names.all()]

    found = _ask(store, asked)
    if json:
        print_json([_facts(each) for each in found])
        return
    for each in found:
        _print(each)
    if not found:
        print_line("there are no subscriptions with a name")


def _print(lagging: Lagging) -> None:
    from redraft.projections.plain import counted, plain

    each = lagging.found
    parked = f"  {each.parked} parked" if each.parked else ""
    since = f" since {lagging.since:%Y-%m-%d %H:%M:%S} UTC" if lagging.since else ""
    print_line(f"{each.name}  at {each.position}, {lagging.lag} behind{since}{parked}  {plain(each.target, 200)}")
    if each.failing is not None:
        again = f"{each.failing.retry_at:%Y-%m-%d %H:%M:%S}"
        times = counted(each.failing.attempts, "time")
        told = f"failed {times}, again at {again} UTC: {plain(each.failing.error, 300)}"
        print_line(f"    event {each.failing.position} {told}")


@APP.command("reset", epilog="Example: redraft subscriptions reset search-index --to 1200")
def reset(
    name: NameArgument,
    to: Annotated[int, typer.Option(metavar="POSITION", help="Go on after this position (0: the beginning).")] = 0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Begin again after a position. Whoever serves the name goes there within a second."""

    async def moved(log: EventStore, names: Subscriptions) -> Lagging:
        head = await log.head()
        if not 0 <= to <= head:
            raise InputError(f"--to {to}: the log ends at {head}; give a position from 0 to {head}")
        return await _lagging(log, await names.put(name, to))

    _tell(_ask(store, moved), json=json)


@APP.command("skip", epilog="Example: redraft subscriptions skip search-index")
def skip(
    name: NameArgument,
    to_end: Annotated[bool, typer.Option("--to-end", help="Pass over all that is in the log now.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Pass over the event that it is at: the one that fails, or the next that it wants. Nothing is parked."""

    async def moved(log: EventStore, names: Subscriptions) -> Lagging:
        head, found = await log.head(), await names.get(name)
        position = head if to_end else await _next(log, found, head)
        return await _lagging(log, await names.put(name, position))

    _tell(_ask(store, moved), json=json)


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

    async def acted(log: EventStore, names: Subscriptions) -> Sequence[ParkedEvent]:
        found = await names.parked(name)
        if not (retry or discard):
            return found
        act = names.retry if retry else names.discard
        return [each for each in _chosen(found, retry or discard, name) if await act(each)]

    found = _ask(store, acted)
    if retry or discard:
        _tell_done("retried" if retry else "discarded", found, json=json)
    else:
        _list_parked(found, json=json)


@APP.command("remove", epilog="Example: redraft subscriptions remove search-index")
def remove(name: NameArgument, store: StoreOption = None, json: JsonOption = False) -> None:
    """Forget a name: its position, and what is parked for it. End the process that serves it first."""

    async def gone(log: EventStore, names: Subscriptions) -> bool:
        await names.get(name)
        return await names.remove(name)

    _ask(store, gone)
    if json:
        print_json({"removed": name})
    else:
        print_line(f"removed {name}")


def _ask(store: str | None, question: Callable[[EventStore, Subscriptions], Awaitable[T]]) -> T:
    """The answer of the log and its subscriptions. Raises StoreError when there is no store yet."""
    from redraft.app.cli.reading import refuse_missing
    from redraft.app.deployment import open_log_of
    from redraft.app.loop import run
    from redraft.app.settings import read_settings
    from redraft.events.subscriptions import open_subscriptions

    settings = read_settings(store=store)
    refuse_missing(settings.store)

    async def asked() -> T:
        async with open_log_of(settings) as log, open_subscriptions(settings.store) as names:
            return await question(log, names)

    return run(asked())


async def _next(log: EventStore, found: Subscription, head: int) -> int:
    """The position of the event that a subscription is at; the end of the log when it wants nothing more of it."""
    from contextlib import aclosing

    import msgspec

    from redraft.app.feed import StoreFeed
    from redraft.events.filters import EventFilter

    if found.failing is not None:
        return found.failing.position
    wanted = msgspec.json.decode(found.wants, type=EventFilter)
    async with aclosing(StoreFeed(log).read(found.position, wanted, follow=False)) as batches:
        async for batch in batches:
            if batch.events:
                return batch.events[0].position
    return head


def _chosen(found: Sequence[ParkedEvent], text: str, name: str) -> Sequence[ParkedEvent]:
    if text == "all":
        return found
    exact = [each for each in found if text in (each.id, str(each.position))]
    if len(exact) != 1:
        raise InputError(f"no event {text!r} is parked; `redraft subscriptions parked {name}` shows those that are")
    return exact


async def _lagging(log: EventStore, found: Subscription) -> Lagging:
    from contextlib import aclosing

    lag = max(0, await log.head() - found.position)
    async with aclosing(log.tail(found.position, follow=False, limit=1)) as batches:
        async for batch in batches:
            return Lagging(found, lag, getattr(batch[0], "time", None))
    return Lagging(found, lag, None)


def _facts(lagging: Lagging) -> dict[str, object]:
    import msgspec

    found = lagging.found
    return {
        "name": found.name,
        "position": found.position,
        "lag": lagging.lag,
        "since": lagging.since,
        "parked": found.parked,
        "wants": msgspec.json.decode(found.wants),
        "target": found.target,
        "created": found.created,
        "moved": found.moved,
        "failing": found.failing,
    }


def _tell(lagging: Lagging, *, json: bool) -> None:
    if json:
        print_json(_facts(lagging))
        return
    found = lagging.found
    print_line(f"{found.name} goes on after position {found.position}; {lagging.lag} events follow it")


def _tell_done(done: str, found: Sequence[ParkedEvent], *, json: bool) -> None:
    if json:
        print_json({done: [each.id for each in found]})
        return
    for each in found:
        print_line(f"{done} {each.position} {each.id}")
    if not found:
        print_line("nothing is parked any more")


def _list_parked(found: Sequence[ParkedEvent], *, json: bool) -> None:
    from redraft.projections.plain import counted, plain

    if json:
        print_json(found)
        return
    for each in found:
        again = "  (is to be tried again)" if each.retry else ""
        failed = f"failed {counted(each.attempts, 'time')}{again}"
        told = f"{each.position}  {each.id}  {each.run}  {each.event}  {failed}"
        print_line(f"{told}  {plain(each.error, 300)}")
    if not found:
        print_line("nothing is parked")
