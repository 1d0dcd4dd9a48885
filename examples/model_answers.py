"""The answers of a script, in whatever protocol they are sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

PIECE = 12
"""Characters of each piece of a streamed answer."""


def text_of(answer: Json) -> str:
    """The answer of the model, as text; a `reply` as JSON."""
    return str(answer["text"]) if "text" in answer else json.dumps(answer.get("reply", ""), ensure_ascii=False)


def arguments_of(answer: Json) -> str:
    """The arguments of a tool that is called, as JSON text, which `arguments` may break."""
    return str(answer.get("arguments", text_of(answer)))


def object_of(answer: Json) -> Json:
    """The same for a protocol that has them as an object: what is broken or no object stands in one."""
    try:
        given = json.loads(arguments_of(answer))
    except ValueError:
        return {"broken": arguments_of(answer)}
    return given if isinstance(given, dict) else {"given": given}


def tokens_of(answer: Json, body: Json) -> tuple[int, int]:
    """Tokens in and out, by a rule of thumb: four characters each."""
    return len(json.dumps(body)) // 4, max(1, len(text_of(answer)) // 4)


def pieces(text: str) -> Iterator[str]:
    """The text as it is streamed."""
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))
