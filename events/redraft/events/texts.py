"""What people and models wrote in an event, apart from its structure, so that it can be kept sealed.

Every string counts as such a text, but for those in fields that hold structure (`STRUCTURE`). So a field that somebody
adds is sealed unless it is put on that list. Digests of texts count too: a short text could be guessed by its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

ERASED: Final = "[erased]"
"""What stands in place of a text that cannot be read any more."""
ENCRYPTED: Final = "[encrypted]"
"""What stands in the read models in place of a text that the log keeps encrypted."""

# fmt: off
STRUCTURE: Final = frozenset(
    {
        "actor", "approvers", "arm", "by", "combine", "critic", "currency", "from_run", "judge", "keep", "kind", "loop",
        "media_type", "model", "name", "node", "on_deadline", "on_failure", "on_oscillation", "operator", "outcome",
        "parent", "path", "provider", "quantity", "role", "run", "step", "tags", "then", "until", "version", "wait",
        "why", "workflow",
    }
)
# fmt: on
"""Fields with names, places, kinds and people's names: who did what, where, and how it ended."""

Place: TypeAlias = tuple[str | int, ...]
"""Where a text is in an event: names of fields, and numbers in lists."""
Text: TypeAlias = str | dict[str, object]
"""A text, or the options that a plan gives to an actor, which stay together."""
Data: TypeAlias = dict[str, object]


def texts_in(value: object, place: Place = ()) -> Iterator[tuple[Place, Text]]:
    """Every text of an event that is not empty, with its place."""
    match value:
        case str() if value:
            yield place, value
        case dict() if value:
            yield place, value
        case tuple() | list():
            for number, each in enumerate(value):
                yield from texts_in(each, (*place, number))
        case msgspec.Struct():
            for name in value.__struct_fields__:
                inner = getattr(value, name)
                if name not in STRUCTURE or isinstance(inner, msgspec.Struct):
                    yield from texts_in(inner, (*place, name))
        case _:
            pass


def without(data: Data, texts: Sequence[tuple[Place, Text]], sign: str = ERASED) -> Data:
    """The data of an event with a sign in place of these texts."""
    for place, text in texts:
        _put(data, place, sign if isinstance(text, str) else {"erased": True})
    return data


def restored(data: Data, texts: Sequence[tuple[Place, Text]]) -> Data:
    """The data of an event with these texts in their places. Raises LookupError, TypeError where there is none."""
    for place, text in texts:
        _put(data, place, text)
    return data


def _put(data: Data, place: Place, text: Text) -> None:
    inside: object = data
    for part in place[:-1]:
        inside = inside[part]  # type: ignore[index]  # a list by a number, an object by a name
    last = place[-1]
    inside[last]  # type: ignore[index]  # raises where nothing is to be replaced
    inside[last] = text  # type: ignore[index]
