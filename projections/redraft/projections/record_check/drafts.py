"""Drafts of a run: numbered, as their hashes say, known before they are named, judged before they are published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redraft.events.content import Draft, DraftRef, digest
from redraft.events.domain_events import (
    ApprovalRequested,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    LoopEnded,
    RunEnded,
    RunGuided,
    RunStarted,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
from redraft.events.texts import ERASED
from redraft.projections.record_check.findings import Finding, found


def draft_faults(events: Sequence[Recorded]) -> list[Finding]:
    """Returns what is wrong with drafts, with what names them, and with critiques and advice that are named."""
    begun = events[0].data if events else None
    check = _Drafts(begun.rules if isinstance(begun, RunStarted) else 1)
    for event in events:
        check.take(event, event.data)
    return check.findings


class _Drafts:
    def __init__(self, rules: int) -> None:
        self._rules = rules
        self.findings: list[Finding] = []
        self._known: dict[int, str] = {}
        self._critiques: dict[int, DraftRef] = {}
        self._advice: set[int] = set()
        self._judged: set[str] = set()
        self._rejected: set[str] = set()

    def take(self, event: Recorded, data: DomainEvent) -> None:
        for ref in _named(data):
            if self._known.get(ref.version) != ref.sha256 and ref.version:
                self._found("draft-unknown", event, f"there was no draft {ref.version} with that hash before it")
        match data:
            case DraftEdited(draft=draft):
                self._made(event, draft)
                self._judged.add(draft.sha256)  # by the person who wrote it
            case DraftGenerated(draft=draft) | DraftRefined(draft=draft):
                self._made(event, draft)
            case DraftCritiqued(draft=ref):
                self._critiques[event.version] = ref
                self._judged.add(ref.sha256)
            case StepRequested():
                self._asked(event, data)
            case RunGuided():
                self._advice.add(event.version)
            case DraftRejected(draft=ref):
                self._advice.add(event.version)
                self._rejected.add(ref.sha256)
            case DraftApproved(draft=ref):
                self._rejected.discard(ref.sha256)
            case DraftPublished(draft=ref):
                self._published(event, ref)
            case _:
                pass

    def _made(self, event: Recorded, draft: Draft) -> None:
        if draft.version != len(self._known) + 1:
            self._found("draft-number", event, f"draft {draft.version} follows {len(self._known)} drafts")
        if draft.text != ERASED and draft.sha256 not in (ERASED, digest(draft.text)):
            self._found("draft-hash", event, f"the hash of draft {draft.version} is not that of its text")
        self._known[draft.version] = draft.sha256

    def _asked(self, event: Recorded, data: StepRequested) -> None:
        for version in data.critiques:
            judged = self._critiques.get(version)
            if judged is None or data.draft is None or judged.sha256 != data.draft.sha256:
                self._found("critiques", event, f"event {version} is no critique of its draft")
        for version in data.advice:
            if version not in self._advice:
                self._found("advice", event, f"nobody gave advice in event {version}")

    def _published(self, event: Recorded, ref: DraftRef) -> None:
        if ref.sha256 not in self._judged:
            self._found("published", event, f"draft {ref.version} was judged by nobody")
        if self._rules > 1 and ref.sha256 in self._rejected and ref.sha256 != ERASED:
            self._found("published", event, f"people had rejected draft {ref.version}")

    def _found(self, code: str, event: Recorded, told: str) -> None:
        self.findings.append(found(code, event, told))


def _named(data: DomainEvent) -> Iterator[DraftRef]:
    """The drafts that an event names as known."""
    match data:
        case StepRequested(draft=draft, outputs=outputs, beside=beside):
            yield from (*((draft,) if draft else ()), *outputs, *beside)
        case DraftRefined(before=before) | DraftEdited(before=before):
            yield before
        case DraftCritiqued(draft=ref) | DraftPublished(draft=ref) | VerdictLate(draft=ref) | LoopEnded(draft=ref):
            yield ref
        case ApprovalRequested(draft=ref) | DraftApproved(draft=ref) | DraftRejected(draft=ref):
            yield ref
        case RunEnded(draft=ref) if ref is not None:
            yield ref
        case _:
            pass
