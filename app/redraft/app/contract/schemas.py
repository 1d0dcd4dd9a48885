"""JSON Schemas of everything that travels, made from the structs: the ones that encode are the ones that describe."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, TypeAlias, cast

import msgspec

from redraft.actors.deciding.declared import LONGEST_CRITERION
from redraft.actors.runtime.admission import LONGEST_ID
from redraft.events.messages.conditions import Condition, Operator, Quantity, StateOperator
from redraft.events.messages.content import MOST_EVENTS, Severity
from redraft.events.messages.domain_events import FailureKind, Outcome
from redraft.events.messages.lessons import LESSON_ID
from redraft.events.messages.plan import (
    Combine,
    Ending,
    Keep,
    Node,
    OnDeadline,
    OnFailure,
    OnOscillation,
    OnStepFailure,
    Option,
    Role,
    ValueKind,
)
from redraft.events.messages.usage import PLAUSIBLE, USAGE_NUMBERS
from redraft.events.rabbit.cloudevents import DELIVERED, QUEUE, REASON, SENT, SHORTENED, USER

Schema: TypeAlias = dict[str, object]

POINTER: Final = "#/components/schemas/"


def schemas_of(kinds: Iterable[type], largest_draft: int) -> dict[str, Schema]:
    """The schemas of these structs and of all that they hold, by class name, in the order of the alphabet.

    New fields pass. Enums and unions have titles, so that types that are generated from them have names. Unions that
    contain themselves have schemas of their own.
    """
    chosen = tuple(kinds)
    _, found = msgspec.json.schema_components(chosen, ref_template=f"{POINTER}{{name}}")
    dated = _dated_fields(chosen)
    bounds = _bounds(largest_draft)
    shared: dict[str, Schema] = {}
    schemas = {
        name: cast("Schema", _share(_complete_schema(name, schema, dated.get(name, frozenset()), bounds), shared))
        for name, schema in found.items()
    }
    return dict(sorted((schemas | shared).items()))


def reference(kind: type) -> Schema:
    """A schema that points to this struct's."""
    return {"$ref": f"{POINTER}{kind.__name__}"}


def _complete_schema(
    name: str, schema: Mapping[str, object], dated: frozenset[str], bounds: Mapping[tuple[str, str], Schema]
) -> Schema:
    """A struct's schema with its docstring unindented, its times marked as such, bounds and titles."""
    plain = cast("Schema", _clean(schema))
    if isinstance(docstring := plain.get("description"), str):
        plain["description"] = inspect.cleandoc(docstring)
    fields = cast("dict[str, Schema]", plain.get("properties", {}))
    for field in fields:
        if field in dated:
            fields[field] = _mark_time(fields[field])
        fields[field] = _entitle(fields[field], name + field.title().replace("_", ""))
        fields[field] |= bounds.get((name, field)) or bounds.get(("", field), {})
    return plain


def _clean(value: object) -> object:
    """Leaves out OpenAPI's `discriminator`, which AsyncAPI writes otherwise; the tags are in the schema as enums.

    And that fields which are not known are refused: a reader of an older release is to let them pass.
    """
    match value:
        case {"prefixItems": list() as items, **others}:  # a pair of numbers, in the words of JSON Schema 7
            return {**{key: each for key, each in others.items() if key != "items"}, "items": _clean(items[0])}
        case dict():
            left_out = {"discriminator"} | (
                {"additionalProperties"} if value.get("additionalProperties") is False else set()
            )
            return {key: _clean(each) for key, each in value.items() if key not in left_out}
        case list():
            return [_clean(each) for each in value]
        case _:
            return value


_ALIASES: Final = {
    "Combine": Combine,
    "CompareOperator": Operator,
    "Condition": Condition,
    "Ending": Ending,
    "FailureKind": FailureKind,
    "Keep": Keep,
    "Node": Node,
    "OnDeadline": OnDeadline,
    "OnFailure": OnFailure,
    "OnOscillation": OnOscillation,
    "OnStepFailure": OnStepFailure,
    "Option": Option,
    "Outcome": Outcome,
    "Quantity": Quantity,
    "Role": Role,
    "Severity": Severity,
    "StateOperator": StateOperator,
    "ValueKind": ValueKind,
}
"""The enums and unions that have a name in the code."""


@cache
def _titles() -> Mapping[str, str]:
    """The names of these enums and unions, by what stands in their schemas."""
    found, _ = msgspec.json.schema_components(_ALIASES.values(), ref_template=f"{POINTER}{{name}}")
    return {_key(cast("Schema", _clean(schema))): name for name, schema in zip(_ALIASES, found, strict=True)}


def _key(schema: Schema) -> str:
    """The choices of an enum or a union, whatever their order; null is none of them."""
    choices = cast("Iterable[object]", schema.get("enum") or schema.get("anyOf") or ())
    return str(sorted(msgspec.json.encode(each) for each in choices if each != _NULL))


_NULL: Final = {"type": "null"}


def _entitle(value: Schema, name: str) -> Schema:
    """A schema in which every enum and every union has a title: its name in the code, or else one made of its place."""
    choices = cast("list[object]", value.get("enum") or value.get("anyOf") or [])
    several = "enum" in value or len([each for each in choices if each != _NULL]) > 1
    title = _titles().get(_key(value), name)
    below = f"{title}Item" if several else name
    inner = {
        key: _entitle_each(each, _name_below(key, below)) if key != "default" else each for key, each in value.items()
    }
    return {"title": title, **inner} if several else inner


def _name_below(key: str, name: str) -> str:
    """The name of what is below this key of a schema: the values of an object are not called as the items of a list."""
    return f"{name}Value" if key == "additionalProperties" else name


def _entitle_each(value: object, name: str) -> object:
    match value:
        case dict():
            return _entitle(value, name)
        case list():
            return [_entitle_each(each, name) for each in value]
        case _:
            return value


_SHARED: Final = frozenset({"Condition", "Node"})
"""The unions that contain themselves. A parser that resolves each reference anew takes minutes if they are written out
wherever they are used: each loop, group and condition contains all others.
"""


def _share(value: object, shared: dict[str, Schema]) -> object:
    """Returns the schema with references to the unions in `_SHARED`, whose own schemas are put into `shared`."""
    match value:
        case {"title": str(title), "anyOf": _, **others} if title in _SHARED and not others:
            shared[title] = cast("Schema", value)
            return {"$ref": f"{POINTER}{title}"}
        case dict():
            return {key: _share(each, shared) for key, each in value.items()}
        case list():
            return [_share(each, shared) for each in value]
        case _:
            return value


def _bounds(largest_draft: int) -> Mapping[tuple[str, str], Schema]:
    """Returns the limits that coordinators and workers check, by struct and field; an empty struct means every one."""
    share: Schema = {"minimum": 0, "maximum": 1}
    version: Schema = {"minimum": 1, "maximum": MOST_EVENTS}
    text: Schema = {"minLength": 1, "maxLength": largest_draft}
    return {
        ("", "run"): {"minLength": 1, "maxLength": LONGEST_ID},
        ("Mark", "name"): {"maxLength": LONGEST_CRITERION},
        ("StrikeLesson", "lesson"): {"minLength": 1, "maxLength": LESSON_ID},
        **{("Usage", name): {"description": f"An outcome gives at most {PLAUSIBLE:,}."} for name in USAGE_NUMBERS},
        ("Critique", "score"): share,
        ("Round", "score"): share,
        ("Critique", "samples"): {"items": {"type": "number", **share}},
        ("Request", "timeout"): {"exclusiveMinimum": 0},
        **{(name, "version"): version for name in ("DraftRef", "Draft", "Parent", "EventRef")},
        **{(name, "text"): text for name in ("Brief", "Generated", "EditDraft")},
        ("Refined", "text"): {"maxLength": largest_draft},
        ("Issue", "span"): {"description": "Characters are Unicode code points. Leave it out to have it filled in."},
        ("Edit", "quote"): {"minLength": 1},
    }


def _mark_time(field: Schema) -> Schema:
    """msgspec leaves out the format of a time that may lack a zone; ours are written in UTC."""
    match field:
        case {"type": "string"}:
            return {**field, "format": "date-time"}
        case {"anyOf": list() as choices}:
            return {**field, "anyOf": [_mark_time(each) for each in choices]}
        case _:
            return field


def _dated_fields(kinds: Iterable[type]) -> dict[str, frozenset[str]]:
    """The fields of these structs that hold a time, by class name."""
    described = (
        each for each in msgspec.inspect.multi_type_info(kinds) if isinstance(each, msgspec.inspect.StructType)
    )
    return {each.cls.__name__: frozenset(f.name for f in each.fields if _holds_time(f.type)) for each in described}


def _holds_time(kind: msgspec.inspect.Type) -> bool:
    match kind:
        case msgspec.inspect.DateTimeType():
            return True
        case msgspec.inspect.UnionType(types=types):
            return any(_holds_time(each) for each in types)
        case _:
            return False


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
        "description": "Who spoke, percent-encoded: /redraft/relay, /redraft/critic%20judge.",
    },
    "type": {"type": "string", "minLength": 1, "description": "The stable name of the message."},
}
_OFTEN: Final[Mapping[str, Schema]] = {
    "subject": {"type": "string", "minLength": 1, "description": "The run that the message is about."},
    "causationid": {"type": "string", "description": "The id of what caused it: of the command, on an outcome."},
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
    QUEUE: {"type": "string", "description": "On a dead letter: the queue that it was in."},
    REASON: {"type": "string", "description": "On a dead letter: why it was set aside."},
    USER: {"type": "string", "description": "The first sender, on a message that was sent again and on a dead letter."},
    SHORTENED: {**_PLACE, "description": "The original size of the headers in bytes, where they were too large."},
}


def _headers(description: str, required: Mapping[str, Schema], optional: Mapping[str, Schema]) -> Schema:
    attributes = {f"{PREFIX}{name}": schema for name, schema in {**required, **optional}.items()}
    return {
        "type": "object",
        "description": description,
        "properties": {**attributes, **_OWN},
        "required": [f"{PREFIX}{name}" for name in required],
    }


LETTER_HEADERS: Final = _headers("Of a request for work, or a message to the coordinator.", _ALWAYS, _OFTEN)
EVENT_HEADERS: Final = _headers("Of a recorded event.", {**_ALWAYS, **_RECORDED}, {**_OFTEN, **_SOMETIMES})

EVENT_BATCH_SCHEMA: Final[Schema] = {
    "title": "EventBatch",
    "description": "Several events, in the order of the log. `data` is what the event of this `type` has as its body.",
    "type": "array",
    "minItems": 1,
    "items": {
        "title": "BatchedEvent",
        "type": "object",
        "properties": {
            **_ALWAYS,
            **_RECORDED,
            **_OFTEN,
            **_SOMETIMES,
            "data": {"type": "object", "description": "The body of the event."},
        },
        "required": [*_ALWAYS, *_RECORDED, "data"],
    },
}

BATCH_SCHEMA: Final[Schema] = {
    "title": "Batch",
    "description": "Several messages. `data` is what the message of this `type` has as its body.",
    "type": "array",
    "minItems": 1,
    "items": {
        "title": "BatchedMessage",
        "type": "object",
        "properties": {**_ALWAYS, **_OFTEN, "data": {"type": "object", "description": "The body of the message."}},
        "required": [*_ALWAYS, "data"],
    },
}
