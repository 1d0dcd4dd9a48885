"""What is worked on and what is said of it: briefs, drafts, critiques, revisions, receipts."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, TypeAlias

import msgspec

from redraft.events.errors import ContentError

MAX_DRAFT_BYTES = 2 * 1024 * 1024
"""The size of a draft, in bytes of UTF-8, above which it is refused unless a caller says otherwise."""


MOST_EVENTS = 2**31 - 1
"""The highest version, attempt or other number that counts something within a run; every store can hold it."""

Ordinal: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MOST_EVENTS)]


class Brief(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a run is asked to do. `source` names the file that the text came from, for people and publishers."""

    text: str
    media_type: str = "text/plain"
    source: str = ""


class DraftRef(msgspec.Struct, frozen=True, gc=False):
    """One version of a run's content, by number (from 1) and by SHA-256 of its UTF-8 text, in hex."""

    version: int
    sha256: str


class Draft(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A version of the content: its number in the run (from 1), its text, the text's SHA-256 in hex, its media type."""

    version: int
    text: str
    sha256: str
    media_type: str = "text/plain"

    @property
    def ref(self) -> DraftRef:
        return DraftRef(self.version, self.sha256)


class Critique(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a critic says of one draft.

    `score` is 0..1 once recorded; a critic that declares a scale returns it on that scale. `approved` is the critic's
    own verdict: True ends the loop, False is a veto of this draft, None ("not yet") leaves it to the condition.
    `critic` is filled in by the worker. `samples` are the scores of which `score` is the median, where the critic
    judged more than once.
    """

    score: float
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    approved: bool | None = None
    critic: str = ""
    samples: tuple[float, ...] = ()


class Revision(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A refiner's answer: the new text, what was changed, and `exit=True` when it has nothing more to change.

    `declined` is what it would not change, each with the reason.
    """

    text: str
    changes: tuple[str, ...] = ()
    exit: bool = False
    declined: tuple[str, ...] = ()


class Receipt(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a publisher did: where the draft now is, and a sentence about it."""

    location: str
    note: str = ""


class Round(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One judged draft of a loop, as the refiner is told of it: its score, what was said, and what had been changed."""

    draft: DraftRef
    score: float
    changes: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class History(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What was tried before: the latest rounds, oldest first, and what became of earlier suggestions and errors.

    `raised` are those that the latest critique names, `fixed` those that were named before and no longer are,
    `returned` those that had gone and came back. `advice` is what people said since the last refinement.
    `disputed` is what refiners would not change, each with the reason; `oscillation` which drafts were repeated, and
    which changes undone.
    """

    rounds: tuple[Round, ...] = ()
    raised: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    disputed: tuple[str, ...] = ()
    oscillation: tuple[str, ...] = ()


def digest(text: str) -> str:
    """The SHA-256 of a text's UTF-8 bytes, in hex."""
    return sha256(text.encode()).hexdigest()


def new_draft(version: int, text: str, media_type: str = "text/plain", limit: int = MAX_DRAFT_BYTES) -> Draft:
    """A draft of this text; raises ContentError when it is empty, holds lone surrogates, or is above `limit` bytes."""
    return Draft(version, text, sha256(checked(text, "draft", limit)).hexdigest(), media_type)


def checked(text: str, what: str, limit: int = MAX_DRAFT_BYTES) -> bytes:
    """The UTF-8 bytes of a text that is fit to be kept; raises ContentError naming `what` and the remedy."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise ContentError(f"{what}: character {error.start + 1} cannot be written as UTF-8; remove it") from None
    if not text.strip():
        raise ContentError(f"{what}: the text is empty; give at least one word")
    if len(raw) > limit:
        raise ContentError(f"{what}: {len(raw):,} bytes, more than the limit of {limit:,}; shorten or split it")
    return raw
