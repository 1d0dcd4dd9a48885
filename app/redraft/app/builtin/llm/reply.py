"""The replies of a model, and their checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import starmap
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, create_model

from redraft.actors.editing.edits import MAX_EDITS, check_only_issues, with_text
from redraft.events.errors import ContentError
from redraft.events.messages.content import MOST_MEASURED, Critique, Edit, Issue, Refusal, Revision, Severity
from redraft.events.messages.folders import FOLDER, read_folder
from redraft.events.messages.plan import Criterion, measure_name
from redraft.events.messages.scales import Scale

Line: TypeAlias = Annotated[str, Field(min_length=1, max_length=2_000)]
Lines: TypeAlias = Annotated[list[Line], Field(max_length=50)]

Count: TypeAlias = Annotated[float, Field(ge=-MOST_MEASURED, le=MOST_MEASURED, allow_inf_nan=False)]
NO_MEASURES: Final[Mapping[str, str]] = MappingProxyType({})

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


class IssueReply(Fault):
    """Something to change: its place, what is wrong, how grave it is, and what should stand there instead."""

    severity: Annotated[Severity, Field(description="error: beyond taste; warning: should change; note: may change")]
    criterion: Annotated[str, Field(description="the criterion that it is about, if there are any")] = ""
    replacement: Annotated[
        str | None, Field(max_length=2_000, description="what should stand in place of the whole quote, if you know")
    ] = None


class CritiqueReply(Reply):
    """A critic's reply, on the critic's own scale."""

    score: Annotated[float | None, Field(allow_inf_nan=False)]
    strengths: Lines = []
    weaknesses: Lines = []
    suggestions: Lines = []
    errors: Annotated[list[Fault], Field(max_length=50)] = []
    approved: bool | None = None

    @property
    def located(self) -> list[IssueReply]:
        """Returns the issues of the reply; if it has none, its errors as issues of severity `error`."""
        issues: list[IssueReply] = getattr(self, "issues", [])
        return issues or [IssueReply(quote=e.quote, message=e.message, severity="error") for e in self.errors]

    @property
    def marks(self) -> dict[str, MarkReply]:
        """The scores by criterion."""
        found = getattr(self, "criteria", None)
        return {name: getattr(found, name) for name in type(found).model_fields} if found is not None else {}

    @property
    def counts(self) -> dict[str, float]:
        """The numbers by measure, without those that it may leave out and did."""
        found = getattr(self, "measures", None)
        named = {name: getattr(found, name) for name in type(found).model_fields} if found is not None else {}
        return {name: value for name, value in named.items() if value is not None}


class MarkReply(Reply):
    """The score for one criterion, why, what in the draft it means, and how sure the model is."""

    score: Annotated[float, Field(allow_inf_nan=False)]
    reason: Line
    quote: Annotated[str, Field(max_length=2_000)] = ""
    confidence: Annotated[float, Field(ge=0, le=1, description="how sure you are, from 0 to 1")]


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


class EditReply(Reply):
    """One change: a quote that stands in the draft once, what comes in its place, and the issues that it answers."""

    quote: Annotated[str, Field(min_length=1)]
    replacement: str
    issues: list[str] = []
    file: Annotated[str, Field(description="of a draft of several files, the path of the one that is changed")] = ""


class PatchReply(Reply):
    """A refiner's reply as edits of the draft; all outside of their quotes stays as it is."""

    edits: Annotated[list[EditReply], Field(max_length=MAX_EDITS)] = []
    changes: Lines = []
    declined: Annotated[list[Declined], Field(max_length=50)] = []


def critique_reply(
    scale: Scale,
    criteria: Sequence[Criterion] = (),
    measures: Mapping[str, str] = NO_MEASURES,
    *,
    verdict: bool,
    issues: bool = False,
) -> type[CritiqueReply]:
    """A CritiqueReply whose score lies on this scale, or that scores these criteria, and counts these measures.

    Without `verdict` nothing may be approved or vetoed; with `issues` it has these instead of errors and suggestions.
    """
    fields: dict[str, Any] = {"score": _score_on(scale)} if not criteria else {"score": (None, None)}
    if issues:
        nothing: tuple[Any, list[str]] = (Annotated[list[Line], Field(max_length=0)], [])
        fields |= {"issues": (Annotated[list[IssueReply], Field(max_length=50)], ...)}
        fields |= {"errors": nothing, "suggestions": nothing}
    if criteria:
        fields["criteria"] = (_marks_reply(scale, criteria), ...)
    if measures:
        counts, may_be_left_out = _counts_reply(measures), all(name.endswith("?") for name in measures)
        fields["measures"] = (counts | None, None) if may_be_left_out else (counts, ...)
    if verdict:
        return create_model("Critique", __base__=VerdictReply, **fields)
    return create_model("Critique", __base__=CritiqueReply, **fields, approved=(None, None))


def _marks_reply(scale: Scale, criteria: Sequence[Criterion]) -> type[Reply]:
    """A reply with one field for each criterion, which says what is meant."""
    fields: dict[str, Any] = {}
    for each in criteria:
        mark = create_model(f"Mark_{each.name}", __base__=MarkReply, score=_score_on(each.scale or scale))
        fields[each.name] = (mark, Field(description=each.says or each.name))
    return create_model("Criteria", __base__=Reply, **fields)


def _counts_reply(measures: Mapping[str, str]) -> type[Reply]:
    """A reply with one number for each measure, and what is counted. One that ends with `?` may be null or left out."""
    fields: dict[str, Any] = {
        measure_name(name): (Count | None, Field(None, description=says))
        if name.endswith("?")
        else (Count, Field(description=says))
        for name, says in measures.items()
    }
    return create_model("Measures", __base__=Reply, **fields)


def _score_on(scale: Scale) -> tuple[Any, Any]:
    low, high = scale
    return float, Field(ge=low, le=high, allow_inf_nan=False, description=f"from {low:g} to {high:g}")


def critique_fault(reply: CritiqueReply, text: str) -> str:
    """Returns the fault of a critic's reply to this text, a quote that is not in it; empty when there is none."""
    what = "errors" if reply.errors else "issues"
    for number, issue in enumerate(reply.located):
        if fault := place_fault(issue.quote, text):
            return f"{what}[{number}].{fault}"
        if issue.criterion and issue.criterion not in reply.marks:
            names = ", ".join(reply.marks) or "there are none: leave it out"
            return f"{what}[{number}].criterion is none of the criteria ({names})."
        if issue.replacement is not None and not issue.quote.strip():
            return f"{what}[{number}] has a replacement and no quote. Quote what it replaces."
    for name, mark in reply.marks.items():
        if fault := place_fault(mark.quote, text):
            return f"criteria.{name}.{fault}"
    return ""


def place_fault(quote: str, text: str) -> str:
    """Returns the fault of a quote from this text, spaces and line ends aside; empty when there is none."""
    if _one_line(quote) in _one_line(text):
        return ""
    return (
        f"quote is not in the draft: {quote[:200]!r}. "
        "Quote the draft word by word, or leave the quote empty when something is missing."
    )


def folder_fault(text: str, media_type: str) -> str:
    """Returns why a text is no draft of several files, where it has to be one; else nothing."""
    if media_type != FOLDER:
        return ""
    try:
        read_folder(text)
    except ContentError as error:
        return f"the text is no draft of several files: {error}."
    return ""


def revision_fault(reply: RevisionReply, text: str) -> str:
    """Returns the fault of a refiner's reply to this text; empty when there is none."""
    if reply.text is not None and not reply.text.strip():
        return "text is empty. Give the whole new text, or leave text out and say in declined why nothing changes."
    unchanged = reply.text is None or reply.text.strip() == text.strip()
    if unchanged and not reply.declined:
        return "nothing was changed, and declined does not say why. Give the whole new text, or say what you decline."
    return ""


def patch_fault(reply: PatchReply, text: str, critique: Critique | None, *, only_issues: bool) -> str:
    """Returns the fault of a refiner's edits of this text; empty when there is none."""
    if not _changing(reply) and not reply.declined:
        return "no edit changes anything, and declined does not say why. Give edits, or say what you decline."
    issues = critique.issues if critique else ()
    try:
        after = patched(reply, text, critique)
        if only_issues:
            check_only_issues(text, after.text, issues)
    except ContentError as error:
        return f"You {error}."
    return "the text would be empty. Give other edits." if not after.text.strip() else ""


def patched(reply: PatchReply, text: str, critique: Critique | None) -> Revision:
    """A refiner's edits as a Revision of this text. Raises ContentError when they do not apply."""
    edits = tuple(Edit(each.quote, each.replacement, tuple(each.issues), each.file) for each in _changing(reply))
    issues = critique.issues if critique else ()
    declined, refusals = declined_of(reply.declined, issues)
    said = Revision("", tuple(reply.changes), not edits, declined, edits, refusals)
    return with_text(said, text, issues)


def _changing(reply: PatchReply) -> list[EditReply]:
    return [each for each in reply.edits if each.replacement != each.quote]


def declined_of(declined: Sequence[Declined], issues: Sequence[Issue]) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """Returns what a reply declines: in words, and those issues that it names by their id, their line or their text."""
    named: dict[str, set[str]] = {}
    for issue in issues:
        for name in (issue.id, issue.line, issue.text):
            named.setdefault(_folded(name), set()).add(issue.id)
    words, refused = [], {}
    for each in declined:
        match tuple(named.get(_folded(each.suggestion), ())):
            case (one,):
                refused[one] = each.reason
            case _:  # none of them, or words that several share
                words.append(str(each))
    return tuple(words), tuple(starmap(Refusal, refused.items()))


def _folded(text: str) -> str:
    return _one_line(text).casefold().strip(".")


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
