"""Finds and replaces the texts of an event, as opposed to its structure, so that they can be encrypted or erased.

Every string counts as a text unless its field holds structure (`STRUCTURE`). So a newly added field is encrypted unless
it is put on that list. Digests of texts count too, because a short text could be guessed from its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

ERASED: Final = "[erased]"
"""Stands in place of a text that was erased."""
ENCRYPTED: Final = "[encrypted]"
"""Stands in the read models in place of a text that the log keeps encrypted."""

# fmt: off
STRUCTURE: Final = frozenset(
    {
        "actor", "approvers", "arm", "by", "combine", "criterion", "critic", "currency", "from_run", "judge",
        "keep", "kind", "loop", "measures", "media_type", "model", "name", "node", "of", "on_deadline",
        "on_exhausted", "on_failure", "on_oscillation", "on_plateau", "operator", "outcome", "parent", "path",
        "provider", "quantity", "reuse", "role", "rollback_of", "run", "severity", "step", "tags", "then", "until",
        "version", "wait", "why", "workflow", "writes",
    }
)
# fmt: on
"""Fields that hold names, paths, kinds and people's names."""

Place: TypeAlias = tuple[str | int, ...]
"""The location of a text in an event: field names, and indexes in lists."""
Text: TypeAlias = str | dict[str, object]
"""A text, or an actor's options in a plan, which stay together."""
Data: TypeAlias = dict[str, object]


def find_texts(value: object, place: Place = ()) -> Iterator[tuple[Place, Text]]:
    """Yields every non-empty text of an event with its place."""
    match value:
        case str() if value:
            yield place, value
        case dict() if value:
            yield place, value
        case tuple() | list():
            for number, each in enumerate(value):
                yield from find_texts(each, (*place, number))
        case msgspec.Struct():
            for name in value.__struct_fields__:
                inner = getattr(value, name)
                if name not in STRUCTURE or isinstance(inner, msgspec.Struct):
                    yield from find_texts(inner, (*place, name))
        case _:
            pass


def redact(data: Data, texts: Sequence[tuple[Place, Text]], sign: str = ERASED) -> Data:
    """Returns the data of an event with `sign` in place of these texts. Changes `data` itself."""
    for place, text in texts:
        _set_text(data, place, sign if isinstance(text, str) else {"erased": True})
    return data


def restore(data: Data, texts: Sequence[tuple[Place, Text]]) -> Data:
    """Returns the data of an event with these texts in place. Raises LookupError, TypeError for an invalid place."""
    for place, text in texts:
        _set_text(data, place, text)
    return data


def _set_text(data: Data, place: Place, text: Text) -> None:
    inside: object = data
    for part in place[:-1]:
        inside = inside[part]  # type: ignore[index]  # a list by a number, an object by a name
    last = place[-1]
    inside[last]  # type: ignore[index]  # raises where there is nothing to replace
    inside[last] = text  # type: ignore[index]
