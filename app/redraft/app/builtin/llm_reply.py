"""What a model has to reply, checked before anything is made of it."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model

Line: TypeAlias = Annotated[str, Field(min_length=1, max_length=2_000)]
Lines: TypeAlias = Annotated[list[Line], Field(max_length=50)]


VERDICT = "true: good as it is; false: it must never be published; leave it out when it is merely not good enough yet"


class Reply(BaseModel):
    """A reply holds what it should and nothing else, each value of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Fault(Reply):
    """An error in the draft: the place, quoted word by word (empty where something is missing), and what is wrong."""

    quote: Annotated[str, Field(max_length=2_000)] = ""
    message: Line

    def __str__(self) -> str:
        return f"“{_one_line(self.quote)}”: {self.message}" if self.quote.strip() else self.message


class CritiqueReply(Reply):
    """A critic's reply, on the critic's own scale."""

    score: Annotated[float, Field(allow_inf_nan=False)]
    strengths: Lines = []
    weaknesses: Lines = []
    suggestions: Lines = []
    errors: Annotated[list[Fault], Field(max_length=50)] = []
    approved: bool | None = None


class VerdictReply(CritiqueReply):
    """A reply of a critic that may approve the draft or veto it."""

    approved: Annotated[bool | None, Field(description=VERDICT)] = None


class Declined(Reply):
    """A suggestion that was not followed, and why."""

    suggestion: Line
    reason: Line

    def __str__(self) -> str:
        return f"{self.suggestion} — {self.reason}"


class RevisionReply(Reply):
    """A refiner's reply: the whole new text (none when nothing should change), what changed, what did not and why."""

    text: str | None = None
    changes: Lines = []
    declined: Annotated[list[Declined], Field(max_length=50)] = []


def critique_reply(low: int, high: int, *, verdict: bool) -> type[CritiqueReply]:
    """A CritiqueReply whose score lies on this scale; without `verdict` nothing may be approved or vetoed."""
    score = (float, Field(ge=low, le=high, allow_inf_nan=False, description=f"from {low} to {high}"))
    if verdict:
        return create_model("Critique", __base__=VerdictReply, score=score)
    return create_model("Critique", __base__=CritiqueReply, score=score, approved=(None, None))


def critique_fault(reply: CritiqueReply, text: str) -> str:
    """What is wrong with a critic's reply to this text: quotes that are not in it; empty when nothing is."""
    for number, error in enumerate(reply.errors):
        if fault := place_fault(error.quote, text):
            return f"errors[{number}].{fault}"
    return ""


def place_fault(quote: str, text: str) -> str:
    """What is wrong with a quote from this text, spaces and line ends aside; empty when nothing is."""
    if _one_line(quote) in _one_line(text):
        return ""
    return (
        f"quote is not in the draft: {quote[:200]!r}. "
        "Quote the draft word by word, or leave the quote empty when something is missing."
    )


def revision_fault(reply: RevisionReply, text: str) -> str:
    """What is wrong with a refiner's reply to this text; empty when nothing is."""
    if reply.text is not None and not reply.text.strip():
        return "text is empty. Give the whole new text, or leave text out and say in declined why nothing changes."
    unchanged = reply.text is None or reply.text.strip() == text.strip()
    if unchanged and not reply.declined:
        return "nothing was changed, and declined does not say why. Give the whole new text, or say what you decline."
    return ""


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
