"""Tags: short words that people put on a run, to find it and its events again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec

from redraft.events.errors import InputError

MAX_TAGS: Final = 10
"""How many tags a run may have."""

MAX_TAG: Final = 64
"""The longest tag, in characters."""

PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:/-]*(?![\s\S])"
"""What a tag is made of, the same in JSON Schema as in Python, where `$` would let a line end through."""

Tag: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TAG, pattern=PATTERN)]
Tags: TypeAlias = Annotated[tuple[Tag, ...], msgspec.Meta(max_length=MAX_TAGS)]

_TAG: Final = re.compile(PATTERN)


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Tags that a run can have, each once, in their order. Raises InputError, naming the first that is wrong."""
    found = tuple(dict.fromkeys(tags))
    for tag in found:
        if len(tag) > MAX_TAG:
            raise InputError(f"tag {tag[:20]!r}… has {len(tag):,} characters; shorten it to {MAX_TAG}")
        if not _TAG.match(tag):
            raise InputError(
                f"tag {tag!r} cannot be used; write letters A to Z, digits, _ . : / and -, a letter or digit first"
            )
    if len(found) > MAX_TAGS:
        raise InputError(f"{len(found)} tags are given; a run has at most {MAX_TAGS}")
    return found
