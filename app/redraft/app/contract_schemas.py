"""JSON Schemas of everything that travels, made from the structs: the ones that encode are the ones that describe."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, cast

import msgspec

Schema: TypeAlias = dict[str, object]

POINTER: Final = "#/components/schemas/"


def schemas_of(kinds: Iterable[type]) -> dict[str, Schema]:
    """The schemas of these structs and of all that they hold, by class name, in the order of the alphabet."""
    chosen = tuple(kinds)
    _, found = msgspec.json.schema_components(chosen, ref_template=f"{POINTER}{{name}}")
    dated = _dated_fields(chosen)
    return {name: _described(schema, dated.get(name, frozenset())) for name, schema in sorted(found.items())}


def reference(kind: type) -> Schema:
    """A schema that points to this struct's."""
    return {"$ref": f"{POINTER}{kind.__name__}"}


def _described(schema: Mapping[str, object], dated: frozenset[str]) -> Schema:
    """A struct's schema with its docstring unindented, and with its times marked as such."""
    plain = _without_discriminators(schema)
    if isinstance(told := plain.get("description"), str):
        plain["description"] = inspect.cleandoc(told)
    fields = cast("dict[str, Schema]", plain.get("properties", {}))
    for name in sorted(dated):
        fields[name] = _timed(fields[name])
    return plain


def _without_discriminators(schema: Mapping[str, object]) -> Schema:
    """The schema without OpenAPI's `discriminator`, which AsyncAPI writes otherwise; the tags are in it as enums."""
    return {key: _cleaned(value) for key, value in schema.items() if key != "discriminator"}


def _cleaned(value: object) -> object:
    match value:
        case dict():
            return _without_discriminators(value)
        case list():
            return [_cleaned(each) for each in value]
        case _:
            return value


def _timed(field: Schema) -> Schema:
    """msgspec leaves out the format of a time that may lack a zone; ours are written in UTC."""
    match field:
        case {"type": "string"}:
            return {**field, "format": "date-time"}
        case {"anyOf": list() as choices}:
            return {**field, "anyOf": [_timed(each) for each in choices]}
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
