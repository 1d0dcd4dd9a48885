"""Events whose bytes can be read again whatever they hold, so that no trial is needed before they are stored."""

from __future__ import annotations

from math import isfinite
from typing import Final

from redraft.events.messages.content import Critique, Draft
from redraft.events.messages.domain_events import (
    CriticSkipped,
    DomainEvent,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    IterationStarted,
    LoopClosing,
    LoopEnded,
    PanelClosed,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.usage import Usage

_NOTHING: Final = Usage()
_HARMLESS: Final = frozenset({CriticSkipped, IterationStarted, LoopClosing, PanelClosed})


def is_surely_readable(event: DomainEvent) -> bool:
    """Returns whether an event of the decider needs no trial: what it holds has the right type, and is within bounds.

    Text always can be read again, as what is no Unicode cannot be written. Only what comes from outside needs a look:
    numbers, and what an actor's function returned.
    """
    if type(event) in _HARMLESS:
        return True
    match event:
        case StepRequested():
            return _is_finite(event.score) and event.reserved == _NOTHING
        case DraftCritiqued():
            return event.usage == _NOTHING and _is_bool(event.hermetic) and _is_plain(event.critique)
        case DraftRefined():
            if event.edits != () or event.refusals != () or event.saved_tokens != 0 or event.usage != _NOTHING:
                return False
            return _is_bool(event.exit) and _is_text(event.draft) and _are_texts(event.changes, event.declined)
        case DraftGenerated():
            return event.usage == _NOTHING and _is_text(event.draft)
        case LoopEnded() | RunEnded():
            return _is_finite(event.score)
        case DraftPublished():
            return event.usage == _NOTHING and type(event.receipt.location) is type(event.receipt.note) is str
        case _:
            return False


def _is_plain(critique: Critique) -> bool:
    """Returns whether a critique has a score, a verdict and lines, and nothing else."""
    for more in (critique.samples, critique.criteria, critique.issues):
        if more != ():
            return False
    if critique.details != {} or critique.measures != {} or critique.on_scale is not False:
        return False
    if critique.confidence is not None or critique.scale is not None:
        return False
    score, approved = critique.score, critique.approved
    if not (type(score) is float and isfinite(score) and type(critique.critic) is str):
        return False
    if not (_is_bool(critique.scored) and (approved is None or _is_bool(approved))):
        return False
    return _are_texts(critique.strengths, critique.weaknesses, critique.suggestions, critique.errors)


def _is_text(draft: Draft) -> bool:
    return type(draft.text) is type(draft.media_type) is str


def _is_finite(score: float | None) -> bool:
    return score is None or (type(score) is float and isfinite(score))


def _is_bool(value: object) -> bool:
    return value is True or value is False


def _are_texts(*lists: object) -> bool:
    for each in lists:
        if type(each) is not tuple:
            return False
        for text in each:
            if type(text) is not str:
                return False
    return True
