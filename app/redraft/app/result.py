"""How a run ended, gathered from its events: what `refine` returns and `run --json` prints."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from redraft.app.until import is_end
from redraft.events.content import Critique, DraftRef
from redraft.events.domain_events import (
    DomainEvent,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    Outcome,
    RunEnded,
    RunQuarantined,
    StepFailed,
    VerdictLate,
)
from redraft.events.envelope import Entry, Recorded, Unreadable
from redraft.events.errors import SetAside
from redraft.events.usage import Usage


class FinalDraft(msgspec.Struct, frozen=True):
    version: int
    sha256: str
    text: str


class CritiqueMade(msgspec.Struct, frozen=True):
    """A critique with the step that made it and the draft that it speaks of."""

    path: str
    draft: DraftRef
    critique: Critique


class AttemptMade(msgspec.Struct, frozen=True):
    """One refinement: the iteration (from 1), the draft before, the draft after, the changes applied."""

    path: str
    iteration: int
    before: DraftRef
    after: DraftRef
    changes: tuple[str, ...]


class Publication(msgspec.Struct, frozen=True):
    path: str
    draft: DraftRef
    location: str


class Result(msgspec.Struct, frozen=True):
    """A run's end. `score` is the final draft's (0..1); `draft` is None when no draft was made.

    `usage` is what all its steps used, failed attempts included.
    """

    run: str
    outcome: Outcome
    reason: str
    iterations: int
    score: float | None
    draft: FinalDraft | None
    critiques: tuple[CritiqueMade, ...]
    attempts: tuple[AttemptMade, ...]
    publications: tuple[Publication, ...]
    usage: Usage = Usage()

    @property
    def text(self) -> str:
        """The final draft's text; empty when no draft was made."""
        return self.draft.text if self.draft else ""


_ANSWERS = (DraftGenerated, DraftRefined, DraftCritiqued, DraftPublished, StepFailed, VerdictLate)


def result_of(events: Sequence[Recorded]) -> Result | None:
    """The result of a run from all its events; None while it has not ended. Raises SetAside for one that is."""
    ended = next((each for each in reversed(events) if is_end(each)), None)
    if ended is not None:
        refuse_set_aside(ended)
    if ended is None or not isinstance(ended.data, RunEnded):
        return None
    happened = [each.data for each in events]
    answers = [each for each in happened if isinstance(each, _ANSWERS)]
    return Result(
        ended.run,
        ended.data.outcome,
        ended.data.reason,
        ended.data.iterations,
        ended.data.score,
        _final(happened, ended.data.draft),
        tuple(_critique(each) for each in answers if isinstance(each, DraftCritiqued)),
        tuple(_attempt(each) for each in answers if isinstance(each, DraftRefined)),
        tuple(_publication(each) for each in answers if isinstance(each, DraftPublished)),
        sum((each.usage for each in answers if not each.usage.is_nothing), Usage()),
    )


def refuse_set_aside(event: Recorded) -> None:
    """Raises SetAside at the event by which a person set the run aside."""
    if isinstance(event.data, RunQuarantined):
        raise SetAside(f"run {event.run} was set aside by {event.data.by or 'a person'}: {event.data.reason}")


def readable(entries: Sequence[Entry]) -> tuple[Recorded, ...]:
    """The events of a run. Raises SetAside where one cannot be read, unless a person has set the run aside since."""
    events = tuple(each for each in entries if isinstance(each, Recorded))
    for each in entries:
        if isinstance(each, Unreadable) and not any(isinstance(event.data, RunQuarantined) for event in events):
            raise unread(each)
    return events


def unread(entry: Unreadable) -> SetAside:
    """Returns the error for a run with a row that cannot be read."""
    return SetAside(f"run {entry.run} cannot be read from event {entry.version} on: {entry.why}; see redraft doctor")


def _critique(event: DraftCritiqued) -> CritiqueMade:
    return CritiqueMade(event.path, event.draft, event.critique)


def _attempt(event: DraftRefined) -> AttemptMade:
    return AttemptMade(event.path, _iteration(event.path), event.before, event.draft.ref, event.changes)


def _publication(event: DraftPublished) -> Publication:
    return Publication(event.path, event.draft, event.receipt.location)


def _final(happened: Sequence[DomainEvent], chosen: DraftRef | None) -> FinalDraft | None:
    """The draft that was chosen, with its text; one that was refused in between may have the same number."""
    for event in happened:
        if isinstance(event, DraftGenerated | DraftRefined | DraftEdited) and event.draft.ref == chosen:
            return FinalDraft(event.draft.version, event.draft.sha256, event.draft.text)
    return None


def _iteration(path: str) -> int:
    """The innermost iteration that a path names; 0 outside of loops."""
    for part in reversed(path.split("/")):
        number = part.partition("[")[2].rstrip("]")
        if number.isdigit():
            return int(number)
    return 0
