"""The contract: an AsyncAPI 3.0 document of everything that travels over RabbitMQ, for programs in any language.

It is made from the structs that are sent and stored, so it cannot differ from them. AsyncAPI:
https://www.asyncapi.com/docs/reference/specification/v3.0.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from redraft.actors.runtime.admission import LONGEST_GIVEN
from redraft.app.contract.channels import BATCH_MESSAGE, EVENT_BATCH_MESSAGE, OPERATIONS, Channel, Operation, channels
from redraft.app.contract.schemas import (
    BATCH_SCHEMA,
    EVENT_BATCH_SCHEMA,
    EVENT_HEADERS,
    LETTER_HEADERS,
    POINTER,
    TYPE,
    Schema,
    reference,
    schemas_of,
)
from redraft.events.bus.port import DELIVERY_LIMIT, LARGEST_BODY, LARGEST_HEADERS, LONGEST_ATTRIBUTE
from redraft.events.messages.commands import MESSAGE_NAMES, WORK_NAMES
from redraft.events.messages.content import MAX_DRAFT_BYTES
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.run_state import MAX_STATE
from redraft.events.rabbit.bus import INBOX_BATCH
from redraft.events.rabbit.structured_events import BATCH, LARGEST
from redraft.events.rabbit.topology import PREFIX, Kind, Names

CONTENT_TYPE: Final = "application/json"
_MESSAGES: Final = "#/components/messages/"


def contract(version: str, prefix: str = PREFIX, kind: Kind = "quorum", largest_draft: int = MAX_DRAFT_BYTES) -> Schema:
    """The AsyncAPI document of this version of Redraft, where names on the broker begin with `prefix`.

    `kind` is that of the inbox and its partitions, `largest_draft` the limit of a draft in bytes. The document is the
    same, in the same order, each time it is made.
    """
    places = channels(Names(prefix), kind)
    return {
        "asyncapi": "3.0.0",
        "info": _info(version),
        "defaultContentType": CONTENT_TYPE,
        "x-limits": _limits(largest_draft),
        "servers": {"rabbitmq": _server()},
        "channels": {name: _channel(channel) for name, channel in places.items()},
        "operations": {name: _operation(each, places[each.channel]) for name, each in OPERATIONS.items()},
        "components": {
            "messages": {
                **{name: _message(name, kind) for name, kind in _kinds().items()},
                BATCH_MESSAGE: _batch(),
                EVENT_BATCH_MESSAGE: _event_batch(),
            },
            "schemas": {
                "Batch": BATCH_SCHEMA,
                "EventBatch": EVENT_BATCH_SCHEMA,
                "EventHeaders": EVENT_HEADERS,
                "LetterHeaders": LETTER_HEADERS,
                **schemas_of(_kinds().values(), largest_draft),
            },
        },
    }


_MEANING: Final = """\
Commands, outcomes and events of iterative refinement. Messages are CloudEvents 1.0 in AMQP binary mode: attributes \
are headers, the body is the data, in JSON. Messages come at least once; the attribute `id` tells duplicates apart. \
Operations are told from Redraft's side: what it sends, others receive.

Fields may be added to every message: ignore those that you do not know. A plan that you send may have only \
fields that are in this document.

A worker takes a command from the queue of its actor, does the work within `request.timeout` seconds, publishes one \
outcome to the channel `incoming`, persistent, mandatory and with publisher confirms, and acknowledges the command \
when the outcome is confirmed. The outcome repeats `run`, `path` and `attempt` of the request, and the `version` and \
`sha256` of the draft that was judged or published; its header `subject` is the run, and `causationid` the `id` of the \
command. Work that fails is answered with `outcome.failed.v1`; any other outcome may change values of the run's state, \
which the command has in `request.state`, by a `state` of its own. The first outcome of an attempt counts. A command \
that was sent before (`sent` above 1, or redelivered) and is not `confirmed` may have been answered already: a worker \
whose work is expensive sends `step.confirm.v1` in place of an outcome, acknowledges the command, and gets it again, \
`confirmed`, if it is still open.

Several messages may travel as one, as a CloudEvents batch: commands where the setting `request_batch_size` is above \
1, messages for the inbox, and events in the stream that keeps them. A queue that is bound to the events gets each \
by itself."""


def _info(version: str) -> Schema:
    return {"title": "Redraft", "version": version, "description": _MEANING, "license": {"name": "Apache-2.0"}}


def _limits(largest_draft: int) -> Schema:
    """Returns limits of messages that JSON Schema cannot express: sizes in bytes, and the number of deliveries."""
    return {
        "bodyBytes": LARGEST_BODY,
        "draftBytes": largest_draft,
        "stateBytes": MAX_STATE,
        "attributeBytes": LONGEST_ATTRIBUTE,
        "idBytes": LONGEST_GIVEN,
        "attributesCharacters": LARGEST_HEADERS,
        "batchBytes": LARGEST,
        "inboxBatchMessages": INBOX_BATCH,
        "deliveries": DELIVERY_LIMIT,
    }


def _server() -> Schema:
    return {
        "host": "{host}",
        "protocol": "amqp",
        "protocolVersion": "0.9.1",
        "description": "The RabbitMQ that REDRAFT_BUS names.",
        "variables": {"host": {"description": "Name and port of the broker.", "default": "localhost:5672"}},
    }


def _kinds() -> Mapping[str, type]:
    """Every struct that travels, by its stable name: requests for work, messages to the coordinator, events."""
    named = (*WORK_NAMES.items(), *MESSAGE_NAMES.items(), *EVENT_NAMES.items())
    return {name: kind for kind, name in named}


def _message(name: str, kind: type) -> Schema:
    headers = "EventHeaders" if kind in EVENT_NAMES else "LetterHeaders"
    return {
        "name": name,
        "title": kind.__name__,
        "contentType": CONTENT_TYPE,
        "headers": {
            "type": "object",
            "allOf": [{"$ref": f"{POINTER}{headers}"}],
            "properties": {TYPE: {"const": name}},
        },
        "payload": reference(kind),
    }


def _event_batch() -> Schema:
    return {
        "name": EVENT_BATCH_MESSAGE,
        "title": "EventBatch",
        "summary": "Several events in one message of the stream, in order, each a CloudEvent in JSON: its attributes "
        "are those that an event alone has as headers, without `cloudEvents:`.",
        "contentType": BATCH,
        "payload": {"$ref": f"{POINTER}EventBatch"},
    }


def _batch() -> Schema:
    return {
        "name": BATCH_MESSAGE,
        "title": "Batch",
        "summary": "Several messages in one, each a CloudEvent in JSON with its `data`; one reader gets all of them.",
        "contentType": BATCH,
        "payload": {"$ref": f"{POINTER}Batch"},
    }


def _channel(channel: Channel) -> Schema:
    return {
        "address": channel.address,
        "description": channel.meaning,
        "messages": {name: {"$ref": f"{_MESSAGES}{name}"} for name in channel.messages},
        **({"parameters": dict(channel.parameters)} if channel.parameters else {}),
        "bindings": {"amqp": {**channel.binding, "bindingVersion": "0.3.0"}},
    }


def _operation(operation: Operation, channel: Channel) -> Schema:
    sent = {"deliveryMode": 2, "mandatory": True} if operation.action == "send" else {"ack": True}
    reply = operation.reply and {"reply": _pointers(*operation.reply)}
    return {
        "action": operation.action,
        "summary": operation.summary,
        **_pointers(operation.channel, operation.messages or channel.messages),
        **(reply or {}),
        "bindings": {"amqp": {**sent, "bindingVersion": "0.3.0"}},
    }


def _pointers(channel: str, messages: Sequence[str]) -> Schema:
    place = f"#/channels/{channel}"
    return {"channel": {"$ref": place}, "messages": [{"$ref": f"{place}/messages/{name}"} for name in messages]}
