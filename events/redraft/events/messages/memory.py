"""The memory that texts take: Python keeps 2 or 4 bytes for each character of a text that has a wide one.

Beside a text that is not ASCII it also keeps the UTF-8, once that was asked for.
"""

from __future__ import annotations

import re
from typing import Final, get_args

from redraft.events.messages.domain_events import DomainEvent, DraftMade, RunStarted

_HEAD: Final = 80

WITHOUT_TEXT: Final = 512
"""The memory of an event in bytes, estimated, beside its draft or its brief."""

_WITH_TEXT: Final = frozenset((*get_args(DraftMade), RunStarted))

_ASTRAL: Final = bytes(range(0xF0, 0xF5))
"""The first bytes of characters above U+FFFF, in UTF-8."""

_WIDE: Final = bytes(range(0xC4, 0xF0))
"""The first bytes of all others above U+00FF."""

_PAIR: Final = re.compile(rb"\\u[dD][89abAB]")
"""A character above U+FFFF, escaped."""

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
    if type(event) not in _WITH_TEXT:
        return WITHOUT_TEXT
    if isinstance(event, DraftMade):
        return WITHOUT_TEXT + text_memory(event.draft.text)
    if isinstance(event, RunStarted):
        return WITHOUT_TEXT + text_memory(event.brief.text)
    return WITHOUT_TEXT


def memory_decoded(body: bytes) -> int:
    """Returns the memory in bytes that the texts in a JSON document take once it is decoded, at most.

    Reads the body with nothing slower than `translate`: the event loop waits for it, also where a body has 50 MB.
    """
    escapes = b"\\u" in body
    if body.isascii():
        return len(body) * (_escaped_width(body) if escapes else 1)
    width = 4 if _has_any(body, _ASTRAL) else 2 if _has_any(body, _WIDE) else 1
    return len(body.translate(None, _CONTINUED)) * max(width, _escaped_width(body) if escapes else 1)


def _has_any(body: bytes, those: bytes) -> bool:
    return len(body.translate(None, those)) < len(body)


def _escaped_width(body: bytes) -> int:
    return 4 if _PAIR.search(body) else 2
