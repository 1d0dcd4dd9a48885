"""Reads the values that people's functions return: objects of any kind, numbers, texts, lists."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from types import CoroutineType
from typing import Any, Final, TypeVar

import msgspec

from redraft.events.messages.content import Detail

T = TypeVar("T")


class InvalidResult(Exception):
    """The function returned a value that its role does not allow."""


def described(value: object) -> str:
    """Returns the type of a value with its article: `a list`, `an int`."""
    kind = type(value).__name__
    if value is None:
        return "None (is a `return` missing?)"
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


_PLAIN: Final = (str, int, float, tuple, list, dict, msgspec.Struct)


def refuse_coroutine(value: object, where: str = "") -> None:
    """Raises InvalidResult for what has to be awaited first."""
    if value is None or isinstance(value, _PLAIN):
        return  # as a rule; `inspect` takes ten times as long
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if isinstance(value, CoroutineType):
            value.close()  # else Python warns about it, without saying where it came from
        kind = type(value).__name__
        remedy = "an `await` is missing: write `await` before the call, in an `async def`"
        raise InvalidResult(f"returned {'an' if kind[0] in 'aeiou' else 'a'} {kind}{where}; {remedy}")


def fields_of(returned: object) -> dict[str, Any] | None:
    """Returns the fields of an object by name; None for one that has none, such as a list."""
    if isinstance(returned, msgspec.Struct):
        return msgspec.structs.asdict(returned)
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        return {each.name: getattr(returned, each.name) for each in dataclasses.fields(returned)}
    dump = getattr(returned, "model_dump", None)  # a pydantic model's; pydantic itself is not known here
    fields = dump() if callable(dump) and not isinstance(returned, type) else returned
    return {str(name): value for name, value in fields.items()} if isinstance(fields, Mapping) else None


def checked_as(fields: object, kind: type[T], what: str) -> T:
    """Returns these fields as this type once each has its declared type. Raises InvalidResult."""
    try:
        return msgspec.convert(msgspec.to_builtins(fields, enc_hook=_plain), kind, strict=True)
    except (msgspec.MsgspecError, TypeError, UnicodeError, OverflowError) as error:
        raise InvalidResult(f"returned {what} that is wrong: {error}") from None


def _plain(value: object) -> object:
    """Returns a kind of text or number as a plain one. Raises TypeError for any other object."""
    match value:
        case str():
            return exact(value)
        case int():
            return int(value)
        case float():
            return float(value)
        case _:
            raise TypeError(f"objects of type {type(value).__name__} are not supported")


def exact(text: str) -> str:
    """Returns the text as a `str` and nothing more: libraries return kinds of text that no message can hold."""
    return str.__str__(text)


def as_number(value: object, what: str) -> object:
    """Returns a number of any kind as a float; anything else, a bool among it, as it is."""
    return value if isinstance(value, bool) or not isinstance(value, Real | Decimal) else as_float(value, what)


def as_float(value: Real | Decimal | float, what: str) -> float:
    """Returns a number as a float. Raises InvalidResult for one that a float cannot hold, such as 10**400."""
    try:
        return float(value)
    except (OverflowError, ValueError) as error:
        raise InvalidResult(f"gave {what} as a number that cannot be recorded: {error}") from None


def as_list(value: object, what: str = "") -> list[Any]:
    """Returns the lines of a field: one text is one line, None is none."""
    if value is None:
        return []
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, str):
        return [value]
    raise InvalidResult(
        f"returned {what or 'a value'}: {described(value)}, where a text or a list of texts is expected"
    )


def as_detail(value: object) -> Detail:
    """Returns a simple value as it is, a date and the like as text, a list or an object as JSON, else as `repr`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return exact(value)
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, Real | Decimal):
        return float(value) if math.isfinite(value) else str(value)
    try:
        plain = msgspec.to_builtins(value, enc_hook=str)
        return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return repr(value)
