"""Checks the lessons that a run was given as it began: that its plan asks for them, and nobody had struck them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from redraft.events.messages.domain_events import LessonStruck, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.lessons import MAX_LESSON_BYTES, MAX_LESSONS_BYTES, Lesson, Lessons
from redraft.events.messages.plan import LessonsSpec
from redraft.events.messages.redaction import ERASED
from redraft.projections.record_check.chain import Finding, finding_at


class Strike(NamedTuple):
    """An event that strikes a lesson out, or takes that back (`struck` is False), in a run of these rules."""

    position: int
    struck: bool
    rules: int = 1


Strikes: TypeAlias = Mapping[tuple[str, str], Sequence[Strike]]
"""The strikes of each lesson, by workflow and id."""

NO_STRIKES: Final[Strikes] = {}


def strikes_in(events: Sequence[Recorded]) -> Iterator[tuple[tuple[str, str], Strike]]:
    """Yields each strike among these events of a run, of which its start is the first, with the key of its lesson."""
    begun = events[0].data if events else None
    rules = begun.rules if isinstance(begun, RunStarted) else 1
    for event in events:
        data = event.data
        if isinstance(data, LessonStruck):
            yield (data.workflow, data.lesson), Strike(event.position, not data.withdrawn, rules)


def lesson_findings(events: Sequence[Recorded], strikes: Strikes) -> Iterator[Finding]:
    """Yields what is wrong with the lessons of a run; a fork has its parent's, with which it is compared elsewhere."""
    begun = events[0].data if events else None
    if not isinstance(begun, RunStarted) or begun.parent is not None:
        return
    asked, given = begun.plan.lessons, begun.lessons
    if asked is None or given is None:
        if asked is not None or given is not None:
            said = "asks for lessons, and none are recorded" if given is None else "asks for no lessons"
            yield finding_at("lessons", events[0], f"the plan {said}")
        return
    if fault := _fault_of(asked, given, begun.plan.name):
        yield finding_at("lessons", events[0], fault)
    for each in given.given:
        if _is_struck(strikes.get((given.workflow, each.id), ()), given.position, begun.rules):
            why = f"the lesson {each.id} had been struck out when the run began"
            yield finding_at("lessons", events[0], why)


def _fault_of(asked: LessonsSpec, given: Lessons, name: str) -> str:
    """Returns why these are not lessons that the plan asks for; empty if they may be."""
    if given.workflow != (asked.workflow or name):
        return f"the lessons are of {given.workflow}, not of {asked.workflow or name}"
    if len(given.given) > asked.limit:
        return f"{len(given.given)} lessons are given, and the plan asks for {asked.limit} at most"
    if any(each.id == ERASED for each in given.given):
        return ""
    if len({each.id for each in given.given}) < len(given.given):
        return "a lesson is given twice"
    sizes = [len(text.encode()) for each in given.given for text in (each.text, each.mended)]
    if sum(sizes) > MAX_LESSONS_BYTES or max(sizes, default=0) > MAX_LESSON_BYTES:
        return "the lessons are longer than lessons may be"
    ranks = [_rank(each) for each in given.given]
    return "" if ranks == sorted(ranks) else "a lesson stands before one that came back more often"


def _rank(lesson: Lesson) -> tuple[int, int]:
    return -(lesson.runs + lesson.returns), -lesson.times


def _is_struck(strikes: Sequence[Strike], position: int, rules: int) -> bool:
    """Returns whether the last of these strikes up to a position strikes the lesson out.

    A strike in a run of newer rules than these does not count: the release that began the run could not read it.
    """
    before = [each for each in strikes if each.position <= position and each.rules <= rules]
    return bool(before) and max(before).struck
