"""The contract's channels: where messages travel over RabbitMQ, and who sends and receives them there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from redraft.app.contract_schemas import Schema
from redraft.events.bus import INBOX
from redraft.events.commands import MESSAGE_NAMES, WORK_NAMES
from redraft.events.domain_events import EVENT_NAMES
from redraft.events.plan import Role
from redraft.events.rabbit_topology import PREFIX, Names


class Channel(msgspec.Struct, frozen=True):
    """A place on the server: its address (a routing key or a queue), what it is for, and what travels there."""

    address: str
    meaning: str
    messages: tuple[str, ...]
    binding: Schema
    parameters: Mapping[str, Schema] = {}


class Operation(msgspec.Struct, frozen=True):
    """What a part of Redraft does with a channel."""

    action: Literal["send", "receive"]
    channel: str
    summary: str


_NAMES: Final = Names(PREFIX)
_WORK: Final = tuple(WORK_NAMES.values())
_INBOX: Final = tuple(MESSAGE_NAMES.values())
_EVENTS: Final = tuple(EVENT_NAMES.values())

_ACTOR: Final[Mapping[str, Schema]] = {
    "role": {"enum": list(get_args(Role)), "description": "The role of the actor."},
    "actor": {"description": "The name of the actor."},
}


def _exchange(name: str, kind: Literal["direct", "topic"]) -> Schema:
    return {"is": "routingKey", "exchange": {"name": name, "type": kind, "durable": True, "autoDelete": False}}


def _queue(name: str | None, kind: Literal["quorum", "stream"]) -> Schema:
    named = {"name": name} if name else {}
    return {
        "is": "queue",
        "queue": {**named, "durable": True, "exclusive": False, "autoDelete": False, "x-queue-type": kind},
    }


CHANNELS: Final[Mapping[str, Channel]] = {
    "commands": Channel(
        "{role}.{actor}",
        "Requests for work, routed to the queue of one actor.",
        _WORK,
        _exchange(_NAMES.commands, "direct"),
        _ACTOR,
    ),
    "work": Channel(
        f"{PREFIX}.{{role}}.{{actor}}",
        "The queue of one actor. Its replicas compete for what is in it, and acknowledge a request once its outcome "
        "is in the inbox. It is a classic queue, like the inbox, where REDRAFT_QUEUES=classic.",
        _WORK,
        _queue(None, "quorum"),
        _ACTOR,
    ),
    "inbox": Channel(
        INBOX,
        "Outcomes of work, and what people and programs ask of a run, for the coordinator.",
        _INBOX,
        _queue(_NAMES.there(INBOX), "quorum"),
    ),
    "incoming": Channel(
        "inbox",
        "The way to the inbox. Each message names its user (the property `user_id`), which RabbitMQ checks, where "
        "coordinators are told who may say what.",
        _INBOX,
        _exchange(_NAMES.incoming, "direct"),
    ),
    "events": Channel(
        "{event}.{workflow}",
        "Every recorded event, in the order of the log. Bind a queue of your own: `draft.critiqued.#` brings the "
        "critiques of every workflow, `#.article` all events of one.",
        _EVENTS,
        _exchange(_NAMES.events, "topic"),
        {
            "event": {"description": "The event's name without its version, such as draft.critiqued."},
            "workflow": {"description": "The name of the run's workflow."},
        },
    ),
    "history": Channel(
        _NAMES.events,
        "A stream that keeps the recorded events. Consume it with the argument `x-stream-offset`, `first` for all.",
        _EVENTS,
        _queue(_NAMES.events, "stream"),
    ),
    "parked": Channel(
        _NAMES.parked,
        "What could not be read, or was delivered too often: `redraft parked list` shows it. Nothing is dropped.",
        (*_WORK, *_INBOX),
        _queue(_NAMES.parked, "quorum"),
    ),
}

OPERATIONS: Final[Mapping[str, Operation]] = {
    "askForWork": Operation("send", "commands", "The relay asks an actor for what an event StepRequested names."),
    "work": Operation("receive", "work", "A worker takes a request and calls its actor."),
    "tell": Operation("send", "incoming", "A worker reports an outcome; a client starts or steers a run."),
    "decide": Operation("receive", "inbox", "The coordinator decides, and records what follows."),
    "announce": Operation("send", "events", "The relay announces what was recorded."),
    "keepHistory": Operation("send", "history", "The same, kept for those who come later."),
    "park": Operation("send", "parked", "A consumer, or the server, sets a message aside with the reason."),
}
