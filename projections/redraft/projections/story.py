"""The whole story of one run: each event's sentence, what in the run caused it, and what else there is to say of it.

A fold over the run's stream, as `history` is; a prefix of the stream gives the story so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from redraft.events.conditions import Condition
from redraft.events.content import Critique
from redraft.events.domain_events import (
    Choice,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    IterationStarted,
    LimitsChanged,
    RunStarted,
    StepFailed,
    StepRequested,
    Tally,
)
from redraft.events.envelope import Recorded
from redraft.events.plan import Repeat, loops_of
from redraft.events.texts import ERASED
from redraft.events.usage import Usage
from redraft.projections.diff import summary
from redraft.projections.history import Line, told
from redraft.projections.plain import counted, plain, score_text, usage_text
from redraft.projections.vetoes import Vetoes

SHOWN: Final = 5
"""Errors, suggestions and the like of one critique that are told."""
COMPARED: Final = 200_000
"""Characters of a draft up to which it is told how many words a refinement changed."""

Say: TypeAlias = Callable[[Condition], str]
"""The text of a condition."""


class Entry(msgspec.Struct, frozen=True):
    """An event of a run, told in full.

    `cause` is the version of the event in the run that led to it, 0 when it came from outside. `details` are lines that
    go with the sentence, without control characters.
    """

    line: Line
    cause: int
    details: tuple[str, ...]


def story(events: Sequence[Recorded], say: Say) -> Iterator[Entry]:
    """What happened, in order: who asked, who answered, what was said and changed, why it went on or ended."""
    so_far = _SoFar(say)
    for event, line in zip(events, told(events), strict=True):
        entry = Entry(line, so_far.cause(event), tuple(so_far.details(event)))
        so_far.add(event)
        yield entry


class _SoFar:
    """What is known of a run up to an event: which event has which id, who was asked when, and the drafts' texts."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._versions: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._drafts: dict[int, str] = {}
        self._loops: dict[str, Repeat] = {}
        self._judged: tuple[int, float] | None = None
        self._explained: tuple[int, float] | None = None
        self._vetoes = Vetoes()

    def cause(self, event: Recorded) -> int:
        """The version of what led to an event. Earlier versions recorded none for what came in time."""
        known = self._versions.get(event.causation, 0)
        match event.data:
            case StepRequested(path=path, attempt=attempt) if not known and attempt > 1:
                return self._failed.get(path, 0)
            case StepFailed(path=path) if not known:
                return self._asked.get(path, 0)
            case _:
                return known

    def add(self, event: Recorded) -> None:
        self._versions[event.id] = event.version
        self._vetoes.note(event.data)
        match event.data:
            case RunStarted(plan=plan):
                self._loops = dict(loops_of(plan.steps))
            case StepRequested(path=path, draft=draft, score=score):
                self._asked[path] = event.version
                if draft is not None and score is not None:
                    self._judged = draft.version, score
            case StepFailed(path=path):
                self._failed[path] = event.version
            case DraftCritiqued(draft=ref, critique=critique):
                self._judged = ref.version, critique.score
            case DraftGenerated(draft=draft) | DraftRefined(draft=draft) | DraftEdited(draft=draft):
                self._drafts[draft.version] = draft.text
            case _:
                pass

    def details(self, event: Recorded) -> Iterator[str]:
        """What there is to say beside the sentence."""
        match event.data:
            case RunStarted():
                yield from self._begun(event.data)
            case IterationStarted():
                yield from self._went_on(event.data, self._loops if not event.repeats else {})
            case StepRequested():
                yield from self._asked_for(event.data, self._loops if not event.repeats else {})
            case DraftCritiqued(critique=critique, usage=usage):
                yield from _said(critique)
                yield from _used(usage)
            case DraftRefined(before=before, draft=draft, usage=usage):
                yield from _changed(self._drafts.get(before.version), draft.text)
                yield from _used(usage)
            case DraftEdited(before=before, draft=draft):
                yield from _changed(self._drafts.get(before.version), draft.text)
            case DraftGenerated(usage=usage) | DraftPublished(usage=usage) | StepFailed(usage=usage):
                yield from _used(usage)
            case LimitsChanged(until=until) if until is not None:
                yield f"it ends now when {self._say(until)}"
            case DraftApproved() if overruled := self._vetoes.overruled_by(event.data):
                yield f"it {overruled}"
            case _:
                pass

    def _begun(self, event: RunStarted) -> Iterator[str]:
        if event.tags:
            yield f"tags: {', '.join(map(plain, event.tags))}"
        if first := plain(event.brief.text.strip().partition("\n")[0]):
            yield f"the brief: {first}"
        for path, loop in loops_of(event.plan.steps):
            kept = "the best draft leaves it" if loop.keep == "best" else "the last draft leaves it"
            most = counted(loop.max_iterations, "pass")
            yield f"{plain(path)} goes on until {self._say(loop.until)}, for {most} at most; {kept}"

    def _went_on(self, event: IterationStarted, loops: Mapping[str, Repeat]) -> Iterator[str]:
        """`loops` are those of the plan by which it went on: what a fork repeats went on by another's."""
        loop = loops.get(_without_passes(event.path))
        if loop is None:
            return
        if event.iteration > 1:
            yield from self._unmet(loop)
        yield f"it is one of {counted(loop.max_iterations, 'pass')} at most"

    def _asked_for(self, event: StepRequested, loops: Mapping[str, Repeat]) -> Iterator[str]:
        if event.attempt > 1 and event.path in self._failed:
            yield f"the wait after event {self._failed[event.path]} was over"
        if event.role == "refiner" and event.attempt == 1:
            loop = loops.get(_without_passes(event.path.rpartition("/")[0]))
            if loop is not None and event.draft is not None and event.score is not None:
                self._judged = event.draft.version, event.score
                yield from self._unmet(loop)
        for what, versions in (("the critique of", event.critiques), ("the advice of", event.advice)):
            if versions:
                yield f"it is told {what} {_listed(versions)}"
        if event.choice is not None and event.choice.known and event.attempt == 1:
            yield f"chosen by how runs ended: {_weighed(event.choice)}"

    def _unmet(self, loop: Repeat) -> Iterator[str]:
        if self._judged is not None and self._judged != self._explained:
            self._explained = self._judged
            version, score = self._judged
            yield f"because draft {version}, scored at {score_text(score)}, did not end it: {self._say(loop.until)}"


def _weighed(choice: Choice) -> str:
    """`judge_b (3 of 4 accepted) over judge_a (1 of 5 accepted)`."""
    told = {each.arm: _record(each) for each in choice.known}
    others = ", ".join(record for arm, record in told.items() if arm != choice.arm)
    return f"{told.get(choice.arm, plain(choice.arm))} over {others}"


def _record(tally: Tally) -> str:
    runs = tally.successes + tally.failures
    known = f"{tally.successes:,} of {runs:,} accepted" if runs else "not known yet"
    return f"{plain(tally.arm)} ({known})"


def _said(critique: Critique) -> Iterator[str]:
    parts = (
        ("error", critique.errors),
        ("weakness", critique.weaknesses),
        ("suggestion", critique.suggestions),
        ("strength", critique.strengths),
    )
    for name, lines in parts:
        for line in lines[:SHOWN]:
            yield f"{name}: {plain(line)}"
        if len(lines) > SHOWN:
            yield f"and {counted(len(lines) - SHOWN, f'more {name}')}"


def _changed(before: str | None, after: str) -> Iterator[str]:
    if before is None or ERASED in (before, after) or max(len(before), len(after)) > COMPARED or before == after:
        return
    changed = summary(before, after)
    yield f"{counted(changed.added, 'word')} came, {changed.removed:,} went"


def _used(usage: Usage) -> Iterator[str]:
    if not usage.is_nothing:
        yield f"used {usage_text(usage)}"


def _without_passes(path: str) -> str:
    """`Chapters[2]/Refinement[1]` is the loop `Chapters/Refinement` of the plan."""
    return "/".join(part.partition("[")[0] for part in path.split("/"))


def _listed(versions: Sequence[int]) -> str:
    numbers = ", ".join(map(str, versions))
    return f"event {numbers}" if len(versions) == 1 else f"events {numbers}"
