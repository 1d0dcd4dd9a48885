"""Compares two drafts of a run: their scores and measures, their lines, and the issues that the changes answer.

Also two states, of one run or of two, value by value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from redraft.app.record.past import two_drafts
from redraft.events.errors import InputError
from redraft.events.messages.content import DraftRef
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.folders import FOLDER
from redraft.projections.run_views.answers import Answers, named_between, with_answers
from redraft.projections.run_views.diff import Line, Skipped, diff, fold_unchanged
from redraft.projections.run_views.scores_between import ScoreChange, scores_between
from redraft.projections.run_views.state import StateAt, ValueDifference, differences

_LINE_END: Final = re.compile(r"\r\n|\r")


class Changes(msgspec.Struct, frozen=True):
    """The scores and the lines of two drafts of a run; lines that are the same are counted, away from a change.

    `only_line_ends`: the words are the same, and lines end in another way (CR and LF, or LF alone).
    """

    before: DraftRef
    after: DraftRef
    scores: tuple[ScoreChange, ...]
    lines: tuple[Line | Skipped | Answers, ...]
    only_line_ends: bool = False

    @property
    def is_same(self) -> bool:
        return self.before.sha256 == self.after.sha256


def compare_drafts(events: Sequence[Recorded], before: int, after: int) -> Changes:
    """Returns what changed from one draft to another. Raises InputError where a draft is not there, or was erased."""
    was, now = two_drafts(events, before, after)
    scores = tuple(scores_between(events, before, after)) if before != after else ()
    folded = fold_unchanged(diff(was.text, now.text), files=FOLDER in (was.media_type, now.media_type))
    lines = with_answers(folded, was.text, named_between(events, before, after))
    return Changes(was.ref, now.ref, scores, tuple(lines), differ_in_line_ends(was.text, now.text))


class StatePlace(msgspec.Struct, frozen=True):
    """A state's run, and the version at which it stood so."""

    run: str
    version: int


class StateChanges(msgspec.Struct, frozen=True):
    """The values that differ between two states."""

    before: StatePlace
    after: StatePlace
    values: tuple[ValueDifference, ...]


def compare_states(before: StateAt, after: StateAt) -> StateChanges:
    """Returns which values differ between two states. Raises InputError where one was erased."""
    for each in (before, after):
        if each.erased:
            raise InputError(f"run {each.run} was erased: the values of its state can no longer be read")
    was, now = StatePlace(before.run, before.version), StatePlace(after.run, after.version)
    return StateChanges(was, now, differences(before.state, after.state))


def differ_in_line_ends(before: str, after: str) -> bool:
    """Returns whether two texts differ in how their lines end, and in nothing else."""
    return before != after and _LINE_END.sub("\n", before) == _LINE_END.sub("\n", after)
