"""A request whose body is JSON, or refused with what is wrong with it."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from litestar import Request

from redraft.app.server.problems import Refused

DEEPEST: Final = 100
"""The maximum depth of nested lists and objects in a body."""


class JsonRequest(Request[Any, Any, Any]):
    """A request as handlers get it."""

    async def body(self) -> bytes:
        """Returns the body. Raises Refused for an empty one."""
        found = await super().body()
        if not found:
            raise _refused("is empty; send a JSON object, such as {}")
        return found

    async def json(self) -> Any:  # noqa: ANN401 - a handler's type says what it is to be
        """Returns what the body says. Raises Refused for what is not JSON, or nested too deep."""
        return _decoded(await self.body())


def _decoded(body: bytes) -> object:
    try:
        found = msgspec.json.decode(body)
    except UnicodeDecodeError as error:
        raise _refused(f"is not UTF-8 at byte {_fault_in(body, error)}") from None
    except RecursionError:
        raise _refused(f"is nested deeper than {DEEPEST}") from None
    except msgspec.ValidationError:
        raise _refused("holds a number that is out of range: one above 1e308 or so") from None
    except msgspec.DecodeError as error:
        raise _refused(_fault_of_json(body, error)) from None
    level = [found]
    for _ in range(DEEPEST):
        level = [each for outer in level for each in _within(outer)]
        if not level:
            return found
    raise _refused(f"is nested deeper than {DEEPEST}")


def _fault_of_json(body: bytes, error: msgspec.DecodeError) -> str:
    """Returns what is wrong with a body that is no JSON for the decoder."""
    if json.detect_encoding(body) != "utf-8":
        return "is UTF-16 or UTF-32, or begins with a byte order mark; send UTF-8 without one"
    return "holds half a surrogate pair" if _is_json(body) else f"is not JSON: {error}"


def _fault_in(body: bytes, error: UnicodeDecodeError) -> int:
    """Returns the number of the first byte that is not UTF-8: the error of a decoder counts within its string."""
    try:
        body.decode()
    except UnicodeDecodeError as found:
        return found.start + 1
    return error.start + 1


def _within(value: object) -> list[object]:
    """Returns the lists and objects in a list or an object."""
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in held if isinstance(each, dict | list)]


def _is_json(body: bytes) -> bool:
    """Returns whether this is JSON for those who let half a surrogate pair pass, which is no text."""
    try:
        json.loads(body, parse_constant=int)  # of NaN and Infinity, which are no JSON, `int` makes a ValueError
    except (ValueError, RecursionError):
        return False
    return True


def _refused(what: str) -> Refused:
    return Refused(400, "parameters", f"the body {what}")
