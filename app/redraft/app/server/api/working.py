"""Working by HTTP, where AMQP does not reach: lease a request, extend the lease, answer, give back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, post
from litestar.params import JSONBody, PathParameter

from redraft.actors.workflow.actor import ActorKey
from redraft.app.process.ids import new_message_id
from redraft.app.server.access.identity import Asks, Identity
from redraft.app.server.api.answers import answer
from redraft.app.server.api.bodies import Extension, GivenBack, LeaseWish, WorkAnswer
from redraft.app.server.leases import Lease
from redraft.app.server.problems import Refused
from redraft.app.server.service import Serves, Service
from redraft.events.bus.port import BusMessage
from redraft.events.errors import CodecError, NoSuchRun
from redraft.events.messages.codec import decode_message
from redraft.events.messages.commands import (
    ANSWERS,
    MESSAGE_NAMES,
    OUTCOMES,
    ROLES,
    ConfirmStep,
    Critiqued,
    CritiqueDraft,
    Failed,
    OutcomeMessage,
    Publish,
    Published,
)
from redraft.events.messages.envelope import Origin
from redraft.events.messages.plan import ACTOR_ROLES, Role
from redraft.events.rabbit.cloudevents import actor_of
from redraft.events.rabbit.structured_events import structured
from redraft.projections.read_models.runs_query import find_run

LeaseId = Annotated[str, PathParameter(description="The lease's id, as it was given with the request.")]

_OUTCOMES: Final[Mapping[Role, type[OutcomeMessage]]] = {ROLES[asked]: made for asked, made in OUTCOMES.items()}


NONE_CAME: Final = {204: "No request came within the wait."}
NOT_SAFE: Final = {202: "It was taken, and is not recorded yet: if the server is killed, the request is asked again."}
"""The further responses of an operation in the OpenAPI description, by status code."""


class Leased(msgspec.Struct, frozen=True):
    """A request that is yours until then. `command` is a CloudEvent, with what `redraft contract` describes as its
    data; `delivery` counts how often the request was handed out: above 1 somebody may have begun it before.
    """

    lease: str
    until: datetime
    delivery: int
    command: dict[str, Any]


class Extended(msgspec.Struct, frozen=True):
    """Until when a lease goes on now: its step's timeout limits it. `cancelled`: nobody wants an answer any more, as
    its run was cancelled or has ended; the lease ended with that.
    """

    lease: str
    until: datetime
    cancelled: bool = False


class Answered(msgspec.Struct, frozen=True):
    """Confirms an answer. `in_time`: its lease had not expired; after that another worker may answer too."""

    lease: str
    in_time: bool


@post("/requests/lease", answer=Leased, also=NONE_CAME, status_code=200, summary="Lease a request")
async def lease(
    service: Serves, identity: Asks, request: Request[Any, Any, Any], data: JSONBody[LeaseWish]
) -> Response[bytes]:
    """Waits for a request to an actor, and leases it; 204 when none came. A lease that ends gives the request back."""
    actor = _actor(data.actor)
    _require_may(identity, actor)
    taking = asyncio.create_task(service.working.take(identity, actor, data.wait, data.seconds))
    ending = {asyncio.create_task(_gone(request)), asyncio.create_task(service.closing.wait())}
    try:
        await asyncio.wait({taking, *ending}, return_when=asyncio.FIRST_COMPLETED)
        found = taking.result() if taking.done() else None
    finally:
        for task in (taking, *ending):
            task.cancel()
        await asyncio.wait({taking, *ending})
    return Response(b"", status_code=204) if found is None else answer(_leased(found, found.extend(data.seconds)))


@post("/leases/{lease_id:str}/extend", answer=Extended, status_code=200, summary="Extend a lease")
async def extend(service: Serves, identity: Asks, lease_id: LeaseId, data: JSONBody[Extension]) -> Response[bytes]:
    """Has a lease end so many seconds from now, though not after its step's timeout and half a minute.

    Where its run has ended meanwhile, the lease ends, and the worker is told so.
    """
    run = service.working.held(identity, lease_id).work.request.run
    until = await service.working.extend(identity, lease_id, data.seconds)
    is_over = await _is_over(service, run)
    if is_over:
        service.working.drop(identity, lease_id)
    return answer(Extended(lease_id, until, is_over))


async def _is_over(service: Service, run: str) -> bool:
    """Returns whether a run has ended, as far as the read models know."""
    try:
        return (await find_run(service.runtime.views, run)).status in ("ended", "quarantined")
    except NoSuchRun:
        return False


@post("/leases/{lease_id:str}/answer", answer=Answered, also=NOT_SAFE, status_code=200, summary="Answer a request")
async def answer_request(
    service: Serves, identity: Asks, lease_id: LeaseId, data: JSONBody[WorkAnswer]
) -> Response[bytes]:
    """Sends the outcome of a request, or its failure, as a CloudEvent of the contract; the lease ends.

    It is answered once the outcome is recorded, or on the broker: what then happens to the server loses nothing.
    """

    def made(found: Lease) -> BusMessage:
        _require_may(identity, found.actor)
        return _bus_message(identity, found, data)

    accepted = await service.working.answer(identity, lease_id, made)
    return answer(Answered(lease_id, accepted.in_time), 200 if accepted.safe else 202)


@post("/leases/{lease_id:str}/release", status_code=200, summary="Give a request back")
async def release(service: Serves, identity: Asks, lease_id: LeaseId, data: JSONBody[GivenBack]) -> Response[bytes]:
    """Gives a request back unanswered: another worker gets it, or (`requeue` false) it becomes a dead letter."""
    service.working.give_back(identity, lease_id, data.reason, requeue=data.requeue)
    return answer({"released": lease_id})


def _actor(text: str) -> ActorKey:
    role, dot, name = text.partition(".")
    if role not in ACTOR_ROLES or not dot or not name.isprintable() or not name:
        raise Refused(422, "input", f"{text!r} is no actor; name its role too, such as critic.judge")
    return role, name


def _require_may(identity: Identity, actor: ActorKey) -> None:
    if not identity.may_work_for(actor):
        known = ", ".join(sorted(identity.actors)) or "nobody"
        raise Refused(403, "scope", f"{identity.name} may not work for {'.'.join(actor)}; this token is for {known}")


def _leased(found: Lease, until: datetime) -> Leased:
    command = msgspec.json.decode(structured(found.delivery.bus_message))
    return Leased(found.id, until, found.delivery.count, command)


def _bus_message(identity: Identity, found: Lease, given: WorkAnswer) -> BusMessage:
    """Returns the message for the coordinator. Raises Refused for one that does not answer this request."""
    body, came, request = msgspec.json.encode(given.data), found.delivery.bus_message.origin, found.work.request
    try:
        message = decode_message(given.type, body)
    except CodecError as error:
        raise Refused(422, "input", f"this answer cannot be read: {error}") from None
    role, name = found.actor
    if not isinstance(message, ANSWERS) or not isinstance(message, (_OUTCOMES[role], Failed, ConfirmStep)):
        wanted = f"{MESSAGE_NAMES[_OUTCOMES[role]]} or {MESSAGE_NAMES[Failed]}"
        raise Refused(422, "input", f"{given.type[:100]!r} does not answer a {role}'s request: send {wanted}")
    if (message.run, message.path, message.attempt) != (request.run, request.path, request.attempt):
        raise Refused(422, "input", "run, path and attempt of the answer are not those of the leased request")
    asked = found.work.draft.ref if isinstance(found.work, CritiqueDraft | Publish) else None
    if isinstance(message, Critiqued | Published) and message.draft != asked:
        raise Refused(422, "input", "version and sha256 of the answer's draft are not those of the leased request's")
    who = actor_of(given.source)
    known = who if who.startswith(f"{role} {name}@") else f"{role} {name}"
    origin = Origin(new_message_id(), f"{known} ({identity.how})", came.id, came.correlation, came.trace)
    return BusMessage(given.type, body, origin, message.run)


async def _gone(request: Request[Any, Any, Any]) -> None:
    """Returns when who asked has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


HANDLERS: Final = (lease, extend, answer_request, release)
