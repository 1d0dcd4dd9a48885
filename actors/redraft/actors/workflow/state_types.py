"""Reads what a plan says of its state: from a pydantic model, a msgspec struct, a dataclass, or values by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from redraft.actors.plans.check_state import check_state
from redraft.actors.values import shown
from redraft.events.errors import PlanError
from redraft.events.messages.plan import StateField, StateSpec, ValueKind
from redraft.events.messages.run_state import Value, Values

_KINDS: Final[Mapping[object, ValueKind]] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "list",
    tuple: "list",
    set: "list",
    frozenset: "list",
    dict: "dict",
    Mapping: "dict",
}
_MISSING: Final = object()


def state_spec(given: type | Mapping[str, Value] | None) -> StateSpec | None:
    """Returns the state that a plan has by this type or these values; None for None. Raises PlanError."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        spec = StateSpec(defaults=dict(given))
    elif (found := _fields(given)) is not None:
        spec = _spec_of(given, found)
    else:
        remedy = "give a pydantic model, a msgspec struct, a dataclass, or values by name"
        raise PlanError("", f"state is {shown(given)}; {remedy}")
    check_state(spec)
    return spec


def _fields(kind: object) -> dict[str, object] | None:
    """Returns the default of each field of a type, `_MISSING` where it has none; None for what has no fields."""
    if not isinstance(kind, type):
        return None
    if issubclass(kind, msgspec.Struct):
        return {each.name: _default(each.default, each.default_factory) for each in msgspec.structs.fields(kind)}
    if dataclasses.is_dataclass(kind):
        return {each.name: _default(each.default, each.default_factory) for each in dataclasses.fields(kind)}
    declared = getattr(kind, "model_fields", None)  # a pydantic model's; pydantic itself is not known here
    if not isinstance(declared, Mapping):
        return None
    return {
        name: _MISSING if each.is_required() else each.get_default(call_default_factory=True)
        for name, each in declared.items()
    }


def _default(default: Any, factory: Any) -> object:  # noqa: ANN401 - whatever a library says for "none"
    missing = (dataclasses.MISSING, msgspec.NODEFAULT)
    if not any(default is each for each in missing):
        return default
    return _MISSING if any(factory is each for each in missing) else factory()


def _spec_of(kind: type, found: Mapping[str, object]) -> StateSpec:
    hints = get_type_hints(kind, include_extras=True)
    fields = tuple(_field(name, hints.get(name, Any)) for name in found)
    defaults: Values = {}
    for name, default in found.items():
        if default is not _MISSING:
            defaults[name] = _plain(name, default)
    return StateSpec(fields, defaults)


def _plain(name: str, default: object) -> Value:
    dump = getattr(default, "model_dump", None)
    try:
        plain: Value = msgspec.to_builtins(dump(mode="json") if callable(dump) else default)
    except (msgspec.MsgspecError, TypeError) as error:
        raise PlanError("", f"state: the default of {name} is no JSON: {error}") from None
    return plain


def _field(name: str, hint: object) -> StateField:
    kinds = list(dict.fromkeys(_kinds(hint)))
    optional = "null" in kinds
    others = [each for each in kinds if each != "null"]
    if set(others) == {"int", "float"}:
        others = ["float"]
    return StateField(name, cast("ValueKind", others[0]) if len(others) == 1 else "any", optional)


def _kinds(hint: object) -> Iterator[str]:
    """Yields the kinds of values that a type allows, `null` among them."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        for each in get_args(hint):
            yield from _kinds(each)
    elif origin is Annotated:
        yield from _kinds(get_args(hint)[0])
    elif origin is Literal:
        yield from (_KINDS.get(type(each), "any") for each in get_args(hint))
    elif hint in (None, NoneType):
        yield "null"
    elif origin is None and _fields(hint) is not None:
        yield "dict"
    else:
        yield _KINDS.get(origin or hint, "any")
