"""The memory that texts take: Python keeps 2 or 4 bytes for each character of a text that has a wide one.

Beside a text that is not ASCII it also keeps the UTF-8, once that was asked for.
"""

from __future__ import annotations

import re
from typing import Final

from redraft.events.messages.domain_events import DomainEvent, DraftMade, RunStarted

_HEAD: Final = 80

WITHOUT_TEXT: Final = 512
"""The memory of an event in bytes, estimated, beside its draft or its brief."""

_ASTRAL: Final = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
"""A character above U+FFFF in JSON: in UTF-8, or as a pair of escapes."""

_WIDE: Final = re.compile(rb"[\xc4-\xef]|\\u")
"""A character above U+00FF, or any that is escaped."""

_CONTINUED: Final = bytes(range(0x80, 0xC0))


def text_memory(text: str) -> int:
    """Returns the memory of a text in bytes, with its UTF-8: the same number whatever was done with the text."""
    if text.isascii():
        return _HEAD + len(text)
    return _HEAD + _width(text) * len(text) + len(text.encode(errors="replace"))


def _width(text: str) -> int:
    """Returns the bytes that each character takes."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        is_wide = len(text.encode("utf-16-le", "surrogatepass")) > 2 * len(text)
        return 4 if is_wide else 2
    return 1


def memory_of(event: DomainEvent) -> int:
    """Returns the approximate memory of an event in bytes, of which drafts and briefs are the most."""
    if isinstance(event, DraftMade):
        return WITHOUT_TEXT + text_memory(event.draft.text)
    if isinstance(event, RunStarted):
        return WITHOUT_TEXT + text_memory(event.brief.text)
    return WITHOUT_TEXT


def memory_decoded(body: bytes) -> int:
    """Returns the memory in bytes that the texts in a JSON document take once it is decoded, at most."""
    width = 4 if _ASTRAL.search(body) else 2 if _WIDE.search(body) else 1
    return width * (len(body) if body.isascii() else len(body.translate(None, _CONTINUED)))
