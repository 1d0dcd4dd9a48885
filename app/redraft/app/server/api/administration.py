"""Dead letters, and named subscriptions: looked at, retried, discarded, moved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final

from litestar import Response, delete, get, post
from litestar.params import FromPath, JSONBody, PathParameter

from redraft.app.server.access.identity import needs
from redraft.app.server.api.answers import answer
from redraft.app.server.api.bodies import Move, Skip
from redraft.app.server.problems import Refused
from redraft.app.server.service import Serves, Service
from redraft.app.subscribing.lags import find_parked, lag_document, list_lags, move_to, skip_event
from redraft.app.wiring.dead_letters import letter_facts, queue_names
from redraft.events.bus.port import DeadLetter
from redraft.events.errors import InputError
from redraft.events.subscriptions.subscriptions import ParkedEvent, Subscription, Subscriptions

LetterId = Annotated[str, PathParameter(description="Its id, as the list has it.")]
ParkedId = Annotated[str, PathParameter(description="The event's id or position, or `all`.")]
Name = Annotated[str, PathParameter(description="The name of the subscription.")]


@get("/dead-letters", summary="List the dead letters")
async def list_letters(service: Serves) -> Response[bytes]:
    """Lists the messages that nobody could work on, the oldest first."""
    return answer(await read_letters(service))


async def read_letters(service: Service) -> Sequence[dict[str, object]]:
    """Returns the facts of every dead letter, the oldest first."""
    facts = partial(letter_facts, queue_names(service.settings.broker_prefix))
    return await service.runtime.bus.dead_letters(facts)


@get("/dead-letters/{letter:str}", summary="Show a dead letter")
async def show_letter(service: Serves, letter: LetterId) -> Response[bytes]:
    """Shows one: where it was, why it was set aside, where it came from, and its body."""

    def keep(each: DeadLetter) -> DeadLetter | None:
        return each if each.id == letter else None

    found = next((each for each in await service.runtime.bus.dead_letters(keep) if each is not None), None)
    if found is None:
        raise _no_letter(letter)
    body = found.bus_message.body.decode(errors="backslashreplace")
    return answer({**letter_facts(queue_names(service.settings.broker_prefix), found), "body": body})


@post("/dead-letters/{letter:str}/retry", status_code=200, summary="Retry a dead letter")
async def retry_letter(service: Serves, letter: LetterId) -> Response[bytes]:
    """Puts one back into the queue that it came from, to be delivered as if it were new."""
    await retry(service, letter)
    return answer({"retried": [letter]})


async def retry(service: Service, letter: str) -> None:
    """Puts a dead letter back into its queue. Raises Refused when there is none of this id."""
    if not await service.runtime.bus.retry(letter):
        raise _no_letter(letter)


@delete("/dead-letters/{letter:str}", status_code=200, summary="Discard a dead letter", guards=[needs("admin")])
async def discard_letter(service: Serves, letter: LetterId) -> Response[bytes]:
    """Deletes one for good. If it asked for a step, that attempt fails as lost, and is tried again as planned."""
    await discard(service, letter)
    return answer({"discarded": [letter]})


async def discard(service: Service, letter: str) -> None:
    """Deletes a dead letter. Raises Refused when there is none of this id."""
    if not await service.runtime.bus.discard(letter):
        raise _no_letter(letter)


@get("/subscriptions", summary="List the named subscriptions")
async def list_subscriptions(service: Serves) -> Response[bytes]:
    """Lists the names: position, lag in events and since when, how many events are parked, and where they go."""
    if service.subscriptions is None:
        return answer([])
    return answer([*map(lag_document, await list_lags(service.runtime.store, service.subscriptions))])


@get("/subscriptions/{name:str}/parked", answer=list[ParkedEvent], summary="List parked events")
async def list_parked(service: Serves, name: Name) -> Response[bytes]:
    """Lists the events that were set aside for a name."""
    await _require(service, name)
    return answer(await _names(service).parked(name))


@post("/subscriptions/{name:str}/parked/{event:str}/retry", status_code=200, summary="Retry parked events")
async def retry_parked(service: Serves, name: Name, event: ParkedId) -> Response[bytes]:
    """Has the process that serves the name try a parked event once more."""
    return answer({"retried": await settle_parked(service, name, event, retried=True)})


@delete(
    "/subscriptions/{name:str}/parked/{event:str}",
    status_code=200,
    summary="Discard parked events",
    guards=[needs("admin")],
)
async def discard_parked(service: Serves, name: Name, event: ParkedId) -> Response[bytes]:
    """Takes a parked event away; the log keeps it."""
    return answer({"discarded": await settle_parked(service, name, event, retried=False)})


async def settle_parked(service: Service, name: str, event: str, *, retried: bool) -> list[str]:
    """Has parked events tried once more, or takes them away; returns the ids of those. Raises Refused."""
    names = _names(service)
    settle = names.retry if retried else names.discard
    return [each.id for each in await _parked(service, name, event) if await settle(each)]


@post("/subscriptions/{name:str}/reset", status_code=200, summary="Move a subscription", guards=[needs("admin")])
async def reset(service: Serves, name: Name, data: JSONBody[Move]) -> Response[bytes]:
    """Has a subscription begin again after a position."""
    await _require(service, name)
    return answer(lag_document(await move_to(service.runtime.store, _names(service), name, data.to)))


@post("/subscriptions/{name:str}/skip", status_code=200, summary="Skip an event", guards=[needs("admin")])
async def skip(service: Serves, name: Name, data: JSONBody[Skip]) -> Response[bytes]:
    """Has a subscription skip the event that it is at, or every event that is in the log now."""
    await _require(service, name)
    return answer(lag_document(await skip_event(service.runtime.store, _names(service), name, to_end=data.to_end)))


@delete("/subscriptions/{name:str}", status_code=200, summary="Forget a subscription", guards=[needs("admin")])
async def remove(service: Serves, name: FromPath[str]) -> Response[bytes]:
    """Forgets a name: its position, and what is parked for it."""
    await _require(service, name)
    await _names(service).remove(name)
    return answer({"removed": name})


async def _parked(service: Service, name: str, event: str) -> Sequence[ParkedEvent]:
    await _require(service, name)
    try:
        return find_parked(await _names(service).parked(name), event, name)
    except InputError as error:
        raise Refused(404, "not-parked", str(error)) from None


async def _require(service: Service, name: str) -> Subscription:
    """Returns the subscription. Raises Refused when there is none of this name."""
    try:
        return await _names(service).get(name)
    except InputError as error:
        raise Refused(404, "no-such-subscription", str(error)) from None


def _names(service: Service) -> Subscriptions:
    if service.subscriptions is None:
        raise Refused(404, "no-such-subscription", "a store in memory keeps no subscriptions")
    return service.subscriptions


def _no_letter(letter: str) -> Refused:
    return Refused(404, "no-such-letter", f"there is no dead letter {letter!r}; another process may have handled it")


LOOKING: Final = (list_letters, show_letter, list_subscriptions, list_parked)
HANDLERS: Final = (retry_letter, discard_letter, retry_parked, discard_parked, reset, skip, remove)
