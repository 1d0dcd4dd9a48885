"""The contract's headers: the attributes of CloudEvents 1.0 in AMQP binary mode, as RabbitBus writes them.

Each is an AMQP header: `cloudEvents:` and the attribute's name. CloudEvents' AMQP binding, section 3.1.3:
https://github.com/cloudevents/spec/blob/main/cloudevents/bindings/amqp-protocol-binding.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redraft.app.contract_schemas import Schema
from redraft.events.rabbit_letters import DELIVERED, QUEUE, REASON, SENT

PREFIX: Final = "cloudEvents:"
TYPE: Final = f"{PREFIX}type"

_HASH: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_PLACE: Final[Schema] = {"type": "integer", "minimum": 1}

_ALWAYS: Final[Mapping[str, Schema]] = {
    "specversion": {"const": "1.0", "description": "The version of CloudEvents."},
    "id": {"type": "string", "minLength": 1, "description": "The message's own id, the same however often it comes."},
    "source": {
        "type": "string",
        "format": "uri-reference",
        "pattern": "^/redraft/",
        "description": "Who spoke, percent-encoded.",
    },
    "type": {"type": "string", "minLength": 1, "description": "The stable name of the message."},
}
_OFTEN: Final[Mapping[str, Schema]] = {
    "subject": {"type": "string", "minLength": 1, "description": "The run that the message is about."},
    "causationid": {"type": "string", "description": "The id of what caused it."},
    "correlationid": {"type": "string", "description": "The id of what began it all."},
    "traceparent": {"type": "string", "description": "W3C trace context."},
}
_RECORDED: Final[Mapping[str, Schema]] = {
    "subject": _OFTEN["subject"],
    "time": {"type": "string", "format": "date-time", "description": "When it was recorded (UTC)."},
    "position": {**_PLACE, "description": "Its place in the log: growing, though not always by one."},
    "version": {**_PLACE, "description": "Its place in its run, without gaps."},
    "hash": {**_HASH, "description": "SHA-256 of what was stored."},
    "previoushash": {**_HASH, "description": "The hash of the event before it in its run."},
}
_SOMETIMES: Final[Mapping[str, Schema]] = {
    "workflow": {"type": "string", "description": "The name of the run's workflow."},
    "tags": {"type": "string", "description": "The run's tags, with a blank between them."},
    "follows": {
        **_PLACE,
        "description": "The position of the event announced before it, when both were announced together.",
    },
    "repeats": {
        "type": "string",
        "description": "In a fork: the id of its parent's event that this one stands for. It did not happen again.",
    },
}
_OWN: Final[Mapping[str, Schema]] = {
    SENT: {
        **_PLACE,
        "description": "How often the message was sent before without an answer: it may be there twice.",
    },
    DELIVERED: {
        **_PLACE,
        "description": "How often it was delivered before a reader sent it again, as it had been left unsettled.",
    },
    QUEUE: {"type": "string", "description": "On a parked message: the queue that it was in."},
    REASON: {"type": "string", "description": "On a parked message: why it was set aside."},
}


def _headers(told: str, required: Mapping[str, Schema], optional: Mapping[str, Schema]) -> Schema:
    attributes = {f"{PREFIX}{name}": schema for name, schema in {**required, **optional}.items()}
    return {
        "type": "object",
        "description": told,
        "properties": {**attributes, **_OWN},
        "required": [f"{PREFIX}{name}" for name in required],
    }


LETTER_HEADERS: Final = _headers("Of a request for work, or a message to the coordinator.", _ALWAYS, _OFTEN)
EVENT_HEADERS: Final = _headers("Of a recorded event.", {**_ALWAYS, **_RECORDED}, {**_OFTEN, **_SOMETIMES})
