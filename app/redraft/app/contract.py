"""The contract: an AsyncAPI 3.0 document of everything that travels over RabbitMQ, for programs in any language.

It is made from the structs that are sent and stored, so it cannot differ from them. AsyncAPI:
https://www.asyncapi.com/docs/reference/specification/v3.0.0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from redraft.app.contract_channels import CHANNELS, OPERATIONS, Channel, Operation
from redraft.app.contract_headers import EVENT_HEADERS, LETTER_HEADERS, TYPE
from redraft.app.contract_schemas import POINTER, Schema, reference, schemas_of
from redraft.events.commands import MESSAGE_NAMES, WORK_NAMES
from redraft.events.domain_events import EVENT_NAMES

CONTENT_TYPE: Final = "application/json"
_MESSAGES: Final = "#/components/messages/"


def contract(version: str) -> Schema:
    """The AsyncAPI document of this version of Redraft. It is the same, in the same order, each time it is made."""
    return {
        "asyncapi": "3.0.0",
        "info": _info(version),
        "defaultContentType": CONTENT_TYPE,
        "servers": {"rabbitmq": _server()},
        "channels": {name: _channel(channel) for name, channel in CHANNELS.items()},
        "operations": {name: _operation(operation) for name, operation in OPERATIONS.items()},
        "components": {
            "messages": {name: _message(name, kind) for name, kind in _kinds().items()},
            "schemas": {
                "EventHeaders": EVENT_HEADERS,
                "LetterHeaders": LETTER_HEADERS,
                **schemas_of(_kinds().values()),
            },
        },
    }


def _info(version: str) -> Schema:
    return {
        "title": "Redraft",
        "version": version,
        "description": (
            "Commands, outcomes and events of iterative refinement. Messages are CloudEvents 1.0 in AMQP binary mode: "
            "the attributes are headers, the body is the data, in JSON. Messages come at least once; the attribute "
            "`id` tells duplicates apart. Operations are told from Redraft's side: what it sends, others receive."
        ),
        "license": {"name": "Apache-2.0"},
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


def _channel(channel: Channel) -> Schema:
    return {
        "address": channel.address,
        "description": channel.meaning,
        "messages": {name: {"$ref": f"{_MESSAGES}{name}"} for name in channel.messages},
        **({"parameters": dict(channel.parameters)} if channel.parameters else {}),
        "bindings": {"amqp": {**channel.binding, "bindingVersion": "0.3.0"}},
    }


def _operation(operation: Operation) -> Schema:
    channel = f"#/channels/{operation.channel}"
    return {
        "action": operation.action,
        "channel": {"$ref": channel},
        "summary": operation.summary,
        "messages": [{"$ref": f"{channel}/messages/{name}"} for name in CHANNELS[operation.channel].messages],
    }
