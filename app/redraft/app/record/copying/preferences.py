"""Pairs of drafts of a run of which one is better, and how that is known: by people's decisions, or by scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, assert_never

import msgspec

from redraft.events.messages.content import Brief, Critique, Draft, DraftRef
from redraft.events.messages.domain_events import (
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    DraftRejected,
    RunStarted,
)
from redraft.events.messages.envelope import Recorded
from redraft.projections.run_views.chart import scores

Basis: TypeAlias = Literal["person", "score"]
"""The source of a preference: a person who edited, approved or rejected a draft, or the critics' scores."""

Side: TypeAlias = Literal["chosen", "rejected"]


class Message(msgspec.Struct, frozen=True):
    """A message of a conversation, in the common format of chats."""

    role: Literal["user", "assistant"]
    content: str


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """An act of a person on a draft of the pair. `by` is left out unless names are wanted."""

    on: Side
    decision: Literal["approved", "rejected", "edited"]
    reason: str = ""
    by: str = ""


class Preference(msgspec.Struct, frozen=True):
    """A pair: the conversation so far, the better answer, the other one, and what was said of both.

    Scores are 0..1, None where a draft was not scored. `changes` lead from the earlier draft to the later one.
    """

    prompt: tuple[Message, ...]
    chosen: tuple[Message, ...]
    rejected: tuple[Message, ...]
    chosen_score: float | None
    rejected_score: float | None
    basis: Basis
    chosen_critiques: tuple[Critique, ...]
    rejected_critiques: tuple[Critique, ...]
    changes: tuple[str, ...]
    decisions: tuple[Decision, ...]
    run: str
    workflow: str
    drafts: tuple[int, int]

    @property
    def gap(self) -> float | None:
        """By how much the better one scored more; None where one of them has no score."""
        if self.chosen_score is None or self.rejected_score is None:
            return None
        return self.chosen_score - self.rejected_score


class _Known(msgspec.Struct):
    """The drafts of a run, with the scores and the acts of people that its events hold."""

    brief: Brief = Brief("")
    workflow: str = ""
    drafts: dict[DraftRef, Draft] = {}
    repeated: set[DraftRef] = set()
    steps: list[tuple[DraftRef, DraftRef, tuple[str, ...], bool]] = []
    critiques: dict[DraftRef, list[Critique]] = {}
    approved: dict[DraftRef, list[DraftApproved]] = {}
    refused: dict[DraftRef, list[DraftRejected]] = {}
    edits: dict[DraftRef, DraftEdited] = {}
    scores: dict[int, float] = {}

    def score(self, draft: DraftRef) -> float | None:
        """Returns the last joined score (0..1) of a draft."""
        return self.scores.get(draft.version)


def preferences(events: Sequence[Recorded], *, inherits: bool, names: bool) -> Iterator[Preference]:
    """Yields a pair for each refinement or edit that made a draft better, or worse: the better one is the chosen one.

    A draft that a person edited is worse than the edit, and a rejected one worse than one that was approved. A draft
    that a person rejected or a critic vetoed is never chosen, and one that a person approved never rejected. Else the
    higher score decides. Where nothing does, there is no pair. Of a fork that `inherits`, a pair may have one draft of
    its parent; two are a pair of the parent.
    """
    known = _gather(events)
    known.scores = {point.draft: point.score for point in scores(events)}
    run = events[0].run if events else ""
    for before, after, changes, edited in known.steps:
        repeated = (before in known.repeated) + (after in known.repeated)
        if before not in known.drafts or repeated == 2 or (repeated and not inherits):
            continue
        found = _better(known, before, after, edited=edited)
        if found is None or known.drafts[before].text == known.drafts[after].text:
            continue
        better, basis = found
        worse = before if better == after else after
        yield Preference(
            prompt=(Message("user", known.brief.text),),
            chosen=(Message("assistant", known.drafts[better].text),),
            rejected=(Message("assistant", known.drafts[worse].text),),
            chosen_score=known.score(better),
            rejected_score=known.score(worse),
            basis=basis,
            chosen_critiques=tuple(known.critiques.get(better, ())),
            rejected_critiques=tuple(known.critiques.get(worse, ())),
            changes=changes,
            decisions=(
                *_decisions(known, better, "chosen", names=names),
                *_decisions(known, worse, "rejected", names=names),
            ),
            run=run,
            workflow=known.workflow,
            drafts=(better.version, worse.version),
        )


def _gather(events: Iterable[Recorded]) -> _Known:
    known = _Known()
    for event in events:
        match event.data:
            case RunStarted(brief=brief, plan=plan):
                known.brief, known.workflow = brief, plan.name
            case DraftGenerated(draft=draft):
                _note(known, draft, event)
            case DraftRefined(draft=draft, before=before, changes=changes):
                _note(known, draft, event)
                known.steps.append((before, draft.ref, changes, False))
            case DraftEdited(draft=draft, before=before):
                _note(known, draft, event)
                known.edits[draft.ref] = event.data
                known.steps.append((before, draft.ref, (), True))
            case DraftCritiqued(draft=ref, critique=critique):
                known.critiques.setdefault(ref, []).append(critique)
            case DraftApproved(draft=ref):
                known.approved.setdefault(ref, []).append(event.data)
            case DraftRejected(draft=ref):
                known.refused.setdefault(ref, []).append(event.data)
            case _:
                pass
    return known


def _note(known: _Known, draft: Draft, event: Recorded) -> None:
    known.drafts[draft.ref] = draft
    if event.repeats:
        known.repeated.add(draft.ref)


def _better(known: _Known, before: DraftRef, after: DraftRef, *, edited: bool) -> tuple[DraftRef, Basis] | None:
    """Returns the better of two drafts, and how that is known; None where nothing says it."""
    if edited:
        return None if after in known.refused else (after, "person")
    for better, worse in ((after, before), (before, after)):
        if better in known.approved and worse in known.refused:
            return better, "person"
    was, now = known.score(before), known.score(after)
    if was is None or now is None or was == now:
        return None
    better, worse = (after, before) if now > was else (before, after)
    vetoed = any(each.approved is False for each in known.critiques.get(better, ()))
    return None if better in known.refused or vetoed or worse in known.approved else (better, "score")


def _decisions(known: _Known, draft: DraftRef, on: Side, *, names: bool) -> Iterator[Decision]:
    made: list[DraftApproved | DraftRejected | DraftEdited] = [
        *known.approved.get(draft, ()),
        *known.refused.get(draft, ()),
    ]
    if draft in known.edits:
        made.append(known.edits[draft])
    for each in made:
        by = each.by if names else ""
        match each:
            case DraftApproved(reason=reason):
                yield Decision(on, "approved", reason, by)
            case DraftRejected(reason=reason):
                yield Decision(on, "rejected", reason, by)
            case DraftEdited(reason=reason):
                yield Decision(on, "edited", reason, by)
            case _:
                assert_never(each)
