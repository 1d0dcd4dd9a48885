"""The content of a run: briefs, drafts, critiques, revisions, receipts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from redraft.events.errors import ContentError, EmptyText, PermanentError
from redraft.events.messages.folders import FOLDER, File, check_folder, read_folder
from redraft.events.messages.run_state import Values
from redraft.events.messages.scales import UNIT, Scale, on_scale, score_text, to_share

MAX_DRAFT_BYTES = 2 * 1024 * 1024
"""The default limit for the size of a draft, in bytes of UTF-8."""

MOST_EVENTS = 2**31 - 1
"""The highest version, attempt or other count within a run; every store can hold it."""

Ordinal: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MOST_EVENTS)]
Moment: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]


class Brief(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The task of a run, from the file `source`, if any. Its `state` come in place of defaults of the plan's state."""

    text: str
    media_type: str = "text/plain"
    source: str = ""
    state: Values = {}

    @property
    def files(self) -> Mapping[str, File]:
        """The files of a brief of several files, by path, read anew each time; none of a brief that is one text."""
        return read_folder(self.text) if self.media_type == FOLDER else {}


class Files(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The files on the machine where a run began that its own functions came from, for that machine to go on with it.

    `workflow` is as a person names it (`/home/ann/loop.py:loop`), `actors` a file of further actors, and `plan` the
    SHA-256, in hex, of the plan as the file had it. Empty for what shipped with Redraft, and what came by a broker.
    """

    workflow: str = ""
    actors: str = ""
    plan: str = ""


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

    @property
    def files(self) -> Mapping[str, File]:
        """The files of a draft of several files, by path, read anew each time; none of a draft that is one text."""
        return read_folder(self.text) if self.media_type == FOLDER else {}


Detail: TypeAlias = bool | int | float | str | None
Number: TypeAlias = int | float

MOST_MEASURED: Final = 10**15
"""The largest size of a measure."""


class Mark(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A critic's score for one criterion; 0..1 once recorded, as all scores.

    `confidence` (0..1) is how sure it is; `reason` and `quote` say why, and what in the draft it means.
    `scale` is the one that the criterion has instead of the critic's.
    """

    name: str
    score: float
    confidence: float | None = None
    reason: str = ""
    quote: str = ""
    scale: Scale | None = None


NOTICE: Final = "notice"
"""The name of the detail that says what a critic did not judge; `redraft run` prints it beside the run's end."""

Severity: TypeAlias = Literal["error", "warning", "note"]
"""The severity of an issue. Only errors count in `errors == 0`."""

Span: TypeAlias = tuple[int, int]
"""A place in a text: the index of its first character, and that after its last. Characters are Unicode code points."""


class Issue(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Something wrong with a draft, and where: `quote` is the place, word by word, and `span` where it stands.

    Of a quote that stands several times the first place is meant, unless a `span` is given. An issue without a quote
    has no place, as where something is missing. `criterion` is one that the critic declares; `replacement` the text
    that the critic suggests for the quote. `id` is the same from draft to draft for the same words about the same
    words, unless the critic gives one itself; of several such issues each keeps its own, by the place where it stands.
    """

    text: str
    quote: str = ""
    span: Span | None = None
    criterion: str = ""
    severity: Severity = "warning"
    replacement: str | None = None
    id: str = ""

    @property
    def line(self) -> str:
        """The issue as one line, as it stands in a critique's errors or suggestions: `“teh”: misspelled`."""
        return f"“{' '.join(self.quote.split())}”: {self.text}" if self.quote else self.text


class Edit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A change to a draft: `replacement` comes in place of `quote`, which stands in the draft exactly once.

    `issues` are the ids of those that it answers; one that no edit names is added where a quote overlaps it. In a draft
    of several files `file` names one by its path: the quote then stands exactly once in that file.
    """

    quote: str
    replacement: str
    issues: tuple[str, ...] = ()
    file: str = ""


class Refusal(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An issue, by its id, that a refiner would not act on, and why."""

    issue: str
    reason: str


class Critique(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A critic's judgement of one draft.

    `score` is 0..1 once recorded; a critic that declares a scale returns it on that scale. `approved` is the critic's
    own verdict: True ends the loop, False vetoes this draft, None ("not yet") leaves it to the condition. The worker
    fills in `critic`. `samples` are the scores of which `score` is the median, where the critic judged more than once.
    A critique that is not `scored` gives a verdict only: its `score` is 0 and is not counted. `details` are whatever
    else the critic returned, by name.

    `criteria` are its scores for the criteria that it declares, `confidence` (0..1) is how sure it is of the whole, and
    `scale` the scale that it declares; the worker fills that in. `measures` are the numbers that it counted, by the
    names that it declares. What a refiner's function is given is `on_scale`: its scores are on their scales, not 0..1.
    `issues` say what is wrong where; each has also a line of its own in `errors`, if it is one, or in `suggestions`.
    """

    score: float
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    approved: bool | None = None
    critic: str = ""
    samples: tuple[float, ...] = ()
    scored: bool = True
    details: dict[str, Detail] = {}
    criteria: tuple[Mark, ...] = ()
    confidence: float | None = None
    scale: Scale | None = None
    measures: dict[str, Number] = {}
    on_scale: bool = False
    issues: tuple[Issue, ...] = ()

    @property
    def known_score(self) -> float | None:
        """The score; None if the critic gave a verdict only."""
        return self.score if self.scored else None

    @property
    def shown_score(self) -> str:
        """The score as people read it: `9 of 10`, or `0.93` without a declared scale; empty for a verdict only."""
        share = to_share(self.score, self.scale or UNIT) if self.on_scale else self.score
        return score_text(share, self.scale) if self.scored else ""

    @property
    def shown_criteria(self) -> str:
        """The scores by criterion as people read them: `accuracy 9 of 10, tone 6 of 10, confidence 0.8`."""
        return marks_text(msgspec.structs.replace(self, measures={}))

    @property
    def shown_measures(self) -> str:
        """The measures as people read them: `words 1,312, coverage 0.81`."""
        return measures_text(self.measures)

    def __hash__(self) -> int:  # `details` cannot be hashed, and equal critiques are equal in these too
        return hash((self.score, self.suggestions, self.errors, self.approved, self.critic))


class Revision(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A refiner's answer: the new text, its changes, and `exit=True` when the refiner has nothing more to change.

    Instead of the text it may give `edits` of the draft: each quote stands in it exactly once, and none overlap; all
    outside of them stays as it is, byte for byte. With neither, and with `exit` or something declined, the text stays.
    `declined` are the suggestions that it rejected, each with the reason, `refusals` the issues, by id; the worker adds
    these to `declined`. `saved_tokens` is how many fewer the edits took than the whole text would have, by estimate.
    """

    text: str = ""
    changes: tuple[str, ...] = ()
    exit: bool = False
    declined: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    saved_tokens: int = 0


class Receipt(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A publisher's answer: where the draft now is, and a sentence about it."""

    location: str
    note: str = ""


class Round(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One judged draft, as later actors see it: its score, its critique, and the changes that led to it.

    `criteria` are the scores by criterion; `scale` is the critics', if they declare one. All scores are 0..1; what a
    refiner's function is given is on their scales. `measures`
    are what they counted, by name, or by critic and name where several count the same. `before` is the number of the
    draft that it was made from, 0 for one that a generator wrote; `gain` is how much higher it scored than that.
    A draft that nobody `scored`, only counted or approved, has the score 0 and no gain.
    """

    draft: DraftRef
    score: float
    changes: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    criteria: dict[str, float] = {}
    scale: Scale | None = None
    measures: dict[str, Number] = {}
    before: int = 0
    gain: float | None = None
    scored: bool = True


class History(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Earlier attempts: the latest rounds, oldest first, and what became of earlier suggestions and errors.

    They are told of the draft that is worked on and those that it was made from: `raised` are those that its
    critics name, `fixed` those that their critics named before and no longer name, `returned` those that had gone
    and came back. `advice` is people's advice since the last refinement. `disputed` are the suggestions that
    refiners rejected, each with the reason; `oscillation` says which drafts were repeated, and which changes
    undone. `drafts` are the earlier ones whose texts came along, as many of the latest as the step's `history`
    says; the one that the actor works on is none of them, and `own` in what a function is given.
    """

    rounds: tuple[Round, ...] = ()
    raised: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    disputed: tuple[str, ...] = ()
    oscillation: tuple[str, ...] = ()
    drafts: tuple[Draft, ...] = ()
    own: Draft | None = None

    async def text(self, number: int) -> str:
        """Returns the text of the run's draft of this number, from 1: an earlier one, or that which the actor works on.

        Raises PermanentError for one that did not come along, TypeError for what is no number.
        """
        if type(number) is not int:  # True and False would be numbers
            raise TypeError(f"history.text({number!r}): give the number of a draft, such as 3")
        for each in (*self.drafts, self.own):
            if each is not None and each.version == number:
                return each.text
        raise PermanentError(f"history.text({number}): {self._why_missing(number)}")

    def _why_missing(self, number: int) -> str:
        own = self.own.version if self.own else 0
        judged = [each.draft.version for each in self.rounds if each.draft.version != own]
        there = ", ".join(str(each.version) for each in self.drafts) or "none"
        if number not in judged:
            known = ", ".join(map(str, filter(None, (*judged, own)))) or "none"
            return f"draft {number} is none of those that the history tells of ({known})"
        needed = len(judged) - judged.index(number)
        return (
            f"the text of draft {number} did not come with the request (those that did: {there}); "
            f"history: {needed} beside the actor in the plan brings it, if together they are no larger than 4 MiB"
        )


def with_points(critique: Critique) -> Critique:
    """Returns a critique with its scores on the scales that they are shown on, as a refiner's function gets it."""
    if critique.scale is None and all(each.scale is None for each in critique.criteria):
        return critique
    scale = critique.scale or UNIT
    marks = tuple(
        msgspec.structs.replace(each, score=on_scale(each.score, each.scale or scale)) for each in critique.criteria
    )
    score, *samples = (
        on_scale(each, scale) if critique.scored else each for each in (critique.score, *critique.samples)
    )
    return msgspec.structs.replace(critique, score=score, samples=tuple(samples), criteria=marks, on_scale=True)


def history_with_points(history: History, scales: Mapping[str, Scale | None]) -> History:
    """Returns a history whose scores are on the scales that its critics declare; `scales` are those of criteria."""
    if not scales and all(each.scale is None for each in history.rounds):
        return history
    rounds = []
    for each in history.rounds:
        scale = each.scale or UNIT
        marks = {name: on_scale(share, scales.get(name) or scale) for name, share in each.criteria.items()}
        gain = None if each.gain is None else round(each.gain * (scale[1] - scale[0]), 6)
        score = on_scale(each.score, scale) if each.scored else each.score
        rounds.append(msgspec.structs.replace(each, score=score, criteria=marks, gain=gain))
    return msgspec.structs.replace(history, rounds=tuple(rounds))


def says_more(critique: Critique) -> bool:
    """Returns whether a critique has criteria, a confidence or measures."""
    return bool(critique.criteria or critique.measures) or critique.confidence is not None


def marks_text(critique: Critique) -> str:
    """Returns the criteria and measures of a critique as people read them: `accuracy 9 of 10, words 1,312`."""
    said = []
    for each in critique.criteria:
        scale = each.scale or critique.scale
        share = to_share(each.score, scale or UNIT) if critique.on_scale else each.score
        said.append(f"{each.name} {score_text(share, scale)}")
    said += [f"confidence {score_text(critique.confidence)}"] if critique.confidence is not None else []
    said += [measures_text(critique.measures)] if critique.measures else []
    return ", ".join(said)


def measures_text(measures: Mapping[str, Number]) -> str:
    """Returns measures as people read them: `words 1,312, coverage 0.81`."""
    return ", ".join(f"{name} {number_text(value)}" for name, value in measures.items())


def number_text(value: Number) -> str:
    """Returns a number as people read it: `1,312`, `0.81`, at most six digits after the point."""
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.6f}".rstrip("0").rstrip(".") if abs(value) >= 1e-4 else f"{value:.6g}"


def digest(text: str) -> str:
    """Returns the SHA-256 of a text's UTF-8 bytes, in hex."""
    return sha256(text.encode()).hexdigest()


def new_draft(version: int, text: str, media_type: str = "text/plain", limit: int = MAX_DRAFT_BYTES) -> Draft:
    """Returns a draft; raises ContentError for a text that is empty, above `limit` bytes, not UTF-8, or no folder."""
    raw = checked(text, "draft", limit)
    if media_type == FOLDER:
        check_folder(text)
    return Draft(version, text, sha256(raw).hexdigest(), media_type)


def check_brief(brief: Brief, what: str = "brief", limit: int = MAX_DRAFT_BYTES) -> None:
    """Raises ContentError, naming `what`, for a brief with a text that no draft can have, or that is no folder's."""
    checked(brief.text, what, limit)
    try:
        brief.files  # noqa: B018 - reading them is the check
    except ContentError as error:
        raise ContentError(f"{what}: {error}") from None


def checked(text: str, what: str, limit: int = MAX_DRAFT_BYTES) -> bytes:
    """Returns the UTF-8 bytes of a valid text; raises ContentError naming `what` and the remedy."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise ContentError(f"{what}: character {error.start + 1} cannot be written as UTF-8; remove it") from None
    if not text.strip():
        raise EmptyText(f"{what}: the text is empty; give at least one word")
    if len(raw) > limit:
        remedy = "shorten or split it, or raise REDRAFT_MAX_DRAFT_BYTES"
        raise ContentError(f"{what}: {len(raw):,} bytes, more than the limit of {limit:,}; {remedy}")
    return raw
