"""The tags of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec

from redraft.events.errors import InputError

MAX_TAGS: Final = 10
"""The largest number of tags of a run."""

MAX_TAG: Final = 64
"""The longest tag, in characters."""

PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:/-]*(?![\s\S])"
"""The pattern of a tag, with the same meaning in JSON Schema as in Python, where `$` would accept a line end."""

Tag: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TAG, pattern=PATTERN)]
Tags: TypeAlias = Annotated[tuple[Tag, ...], msgspec.Meta(max_length=MAX_TAGS)]

_TAG: Final = re.compile(PATTERN)


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Returns the tags in their order, without duplicates. Raises InputError, naming the first invalid tag."""
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
