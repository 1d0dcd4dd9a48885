"""The channels of the contract, with every argument of their queues, and the use that Redraft makes of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from redraft.app.contract.schemas import Schema
from redraft.events.bus.port import DELIVERY_LIMIT, INBOX, partition_queue, work_queue
from redraft.events.messages.commands import MESSAGE_NAMES, OUTCOMES, ROLES, WORK_NAMES, ConfirmStep, Failed, Work
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.plan import ACTOR_ROLES
from redraft.events.rabbit.topology import (
    DEAD_LETTER_ARGUMENTS,
    STREAM_ARGUMENTS,
    Kind,
    Names,
    queue_arguments,
)

BATCH_MESSAGE: Final = "cloudevents.batch"
"""The name of the message that holds several others."""

EVENT_BATCH_MESSAGE: Final = "cloudevents.batch.events"
"""The name of the message that holds several events."""


def replies_to(command: type[Work]) -> Sequence[str]:
    """Returns the names of the messages with which a worker may answer a command."""
    return [MESSAGE_NAMES[kind] for kind in (OUTCOMES[command], Failed, ConfirmStep)]


class Channel(msgspec.Struct, frozen=True):
    """A place on the server: its address (a routing key or a queue), what it is for, and what travels there."""

    address: str
    meaning: str
    messages: tuple[str, ...]
    binding: Schema
    parameters: Mapping[str, Schema] = {}


class Operation(msgspec.Struct, frozen=True):
    """The use that a part of Redraft makes of a channel; `reply` is the channel and the messages of the answer."""

    action: Literal["send", "receive"]
    channel: str
    summary: str
    messages: tuple[str, ...] = ()
    reply: tuple[str, Sequence[str]] | None = None


_WORK: Final = (*WORK_NAMES.values(), BATCH_MESSAGE)
_INBOX: Final = (*MESSAGE_NAMES.values(), BATCH_MESSAGE)
_EVENTS: Final = tuple(EVENT_NAMES.values())
_KEPT: Final = (*_EVENTS, EVENT_BATCH_MESSAGE)

_ACTOR: Final[Mapping[str, Schema]] = {
    "role": {"enum": list(ACTOR_ROLES), "description": "The role of the actor."},
    "actor": {
        "description": "The name of the actor; in names of queues and routing keys each byte that is no ASCII letter, "
        "digit, `_`, `.` or `-` is `+` and its two hex digits: the critic `prüfer` has the key `critic.pr+C3+BCfer`."
    },
}


def channels(names: Names, kind: Kind) -> Mapping[str, Channel]:
    """Returns the channels by their names in the contract; `kind` is that of the inbox and its partitions."""
    arguments = queue_arguments(INBOX, kind, names, DELIVERY_LIMIT)
    work_arguments = queue_arguments(work_queue("critic", "any"), kind, names, DELIVERY_LIMIT)
    part = names.there(partition_queue(0)).removesuffix("0") + "{number}"
    work, key = names.there("redraft.ROLE.ACTOR").replace("ROLE.ACTOR", "{role}.{actor}"), "{role}.{actor}"
    return {
        "commands": Channel(
            key,
            "Requests for work, routed to the queue of one actor.",
            _WORK,
            _exchange(names.commands, "direct"),
            _ACTOR,
        ),
        "work": Channel(
            work,
            "The queue of one actor. Its replicas compete for what is in it, and acknowledge a request once its "
            "outcome is confirmed to be in the inbox. The broker keeps requests in memory alone, and does not count "
            "their deliveries: what it loses when it restarts is sent again. Who finds the queue missing declares it, "
            "with exactly these arguments, or the server refuses those of others. A user who may not declare it waits "
            "until a coordinator has.",
            _WORK,
            _queue(work, work_arguments, [(names.commands, key), (work, key)]),
            _ACTOR,
        ),
        "inbox": Channel(
            names.there(INBOX),
            "Outcomes of work, and what people and programs ask of a run, for the coordinator.",
            _INBOX,
            _queue(
                names.there(INBOX), arguments, [(each, names.key(INBOX)) for each in (names.commands, names.incoming)]
            ),
        ),
        "inbox-partition": Channel(
            part,
            "One of the parts of the inbox, which coordinators divide among themselves. Only they declare it.",
            _INBOX,
            _queue(
                part,
                queue_arguments(partition_queue(0), kind, names, DELIVERY_LIMIT),
                [(names.incoming, f"{names.key(INBOX)}.{{number}}")],
            ),
            {
                "number": {
                    "description": "The partition of a run: CRC-32 (as in gzip) of its id in UTF-8, modulo the number "
                    "of partitions, the setting `inbox_partitions` (16 unless it is set)."
                }
            },
        ),
        "incoming": Channel(
            names.key(INBOX),
            "The way to the inbox. An outcome goes to its partition: give its request's `reply_key`, if it has one, as "
            "the routing key. Each message names its user (the property `user_id`), which RabbitMQ checks, if the "
            "setting `users` is set.",
            _INBOX,
            _exchange(names.incoming, "direct"),
        ),
        "events": Channel(
            "{event}.{workflow}",
            "Every recorded event, in the order of the log. Bind a queue of your own: `draft.critiqued.#` brings the "
            "critiques of every workflow, `#.article` all events of one.",
            _EVENTS,
            _exchange(names.events, "topic"),
            {
                "event": {"description": "The event's name without its version, such as draft.critiqued."},
                "workflow": {"description": "The name of the run's workflow, percent-encoded, a dot as `%2E`."},
            },
        ),
        "stream": Channel(
            names.events,
            "A stream that keeps the recorded events, in the order of the log, alone or several in one message: the "
            "content type says which. Consume it with the argument `x-stream-offset`, `first` for all.",
            _KEPT,
            _queue(names.events, STREAM_ARGUMENTS, []),
        ),
        "dead-letters": Channel(
            names.dead_letters,
            "Messages that nobody could read, or that were delivered too often: see `redraft dead-letters list`.",
            (*_WORK, *(name for name in _INBOX if name != BATCH_MESSAGE)),
            _queue(names.dead_letters, DEAD_LETTER_ARGUMENTS, []),
        ),
    }


def _asking(command: type[Work]) -> Operation:
    name, role = WORK_NAMES[command], ROLES[command]
    summary = f"The relay asks a {role} for what an event StepRequested names."
    return Operation("send", "commands", summary, (name,), ("inbox", replies_to(command)))


def _working(command: type[Work]) -> Operation:
    summary = f"A worker takes a request, calls its {ROLES[command]} and reports the outcome."
    return Operation("receive", "work", summary, (WORK_NAMES[command],), ("incoming", replies_to(command)))


OPERATIONS: Final[Mapping[str, Operation]] = {
    **{f"ask{ROLES[command].title()}": _asking(command) for command in WORK_NAMES},
    **{f"workAs{ROLES[command].title()}": _working(command) for command in WORK_NAMES},
    "tell": Operation("send", "incoming", "A worker reports an outcome; a client starts or steers a run."),
    "decidePartition": Operation("receive", "inbox-partition", "The same for the runs of this coordinator's share."),
    "decide": Operation("receive", "inbox", "The coordinator decides, and records what follows."),
    "announce": Operation("send", "events", "The relay announces what was recorded."),
    "keepHistory": Operation("send", "stream", "The same, kept for those who come later."),
    "deadLetter": Operation("send", "dead-letters", "A consumer, or the server, sets a message aside with the reason."),
}


def _exchange(name: str, kind: Literal["direct", "topic"]) -> Schema:
    return {"is": "routingKey", "exchange": {"name": name, "type": kind, "durable": True, "autoDelete": False}}


def _queue(name: str, arguments: Mapping[str, object], bound: Sequence[tuple[str, str]]) -> Schema:
    """A binding of AsyncAPI, with the arguments and the bindings of the queue, for which it has no words."""
    return {
        "is": "queue",
        "queue": {
            "name": name,
            "durable": True,
            "exclusive": False,
            "autoDelete": False,
            "x-queue-type": arguments["x-queue-type"],
            "x-arguments": dict(arguments),
            "x-bindings": [{"exchange": exchange, "routingKey": key} for exchange, key in bound],
        },
    }
