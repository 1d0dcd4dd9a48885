"""How a run ended, gathered from its events: what `refine` returns and `run --json` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from redraft.events.content import Critique, Draft, DraftRef
from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    IterationStarted,
    LimitsChanged,
    LoopClosing,
    LoopEnded,
    Outcome,
    PanelClosed,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
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


def result_of(events: Sequence[Recorded]) -> Result | None:
    """The result of a run from all its events; None while it has not ended."""
    drafts: dict[int, Draft] = {}
    critiques: list[CritiqueMade] = []
    attempts: list[AttemptMade] = []
    publications: list[Publication] = []
    usage = Usage()
    for event in events:
        data = event.data
        if isinstance(data, DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished | StepFailed | VerdictLate):
            usage += data.usage
        match data:
            case DraftGenerated(draft=draft):
                drafts[draft.version] = draft
            case DraftRefined(path=path, before=before, draft=draft, changes=changes):
                drafts[draft.version] = draft
                attempts.append(AttemptMade(path, _iteration(path), before, draft.ref, changes))
            case DraftCritiqued(path=path, draft=ref, critique=critique):
                critiques.append(CritiqueMade(path, ref, critique))
            case DraftPublished(path=path, draft=ref, receipt=receipt):
                publications.append(Publication(path, ref, receipt.location))
            case RunEnded(outcome, reason, iterations, ref, score):
                return Result(
                    event.run,
                    outcome,
                    reason,
                    iterations,
                    score,
                    _final(drafts, ref),
                    tuple(critiques),
                    tuple(attempts),
                    tuple(publications),
                    usage,
                )
            case (
                RunStarted()
                | IterationStarted()
                | StepRequested()
                | StepFailed()
                | LoopClosing()
                | LoopEnded()
                | RunErased()
            ):
                pass
            case DraftEdited(draft=draft):
                drafts[draft.version] = draft
            case RunGuided() | LimitsChanged() | RunPaused() | RunResumed() | RunCancelled():
                pass
            case (
                PanelClosed()
                | VerdictLate()
                | BudgetReached()
                | ApprovalRequested()
                | DraftApproved()
                | DraftRejected()
                | ApprovalExpired()
            ):
                pass
            case _:
                assert_never(data)
    return None


def _final(drafts: dict[int, Draft], ref: DraftRef | None) -> FinalDraft | None:
    draft = drafts.get(ref.version) if ref else None
    return FinalDraft(draft.version, draft.sha256, draft.text) if draft else None


def _iteration(path: str) -> int:
    """The innermost iteration that a path names; 0 outside of loops."""
    for part in reversed(path.split("/")):
        number = part.partition("[")[2].rstrip("]")
        if number.isdigit():
            return int(number)
    return 0
