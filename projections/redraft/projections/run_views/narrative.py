"""Narrates one run in full: a sentence for each event, the event that caused it, and details."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from redraft.events.messages import domain_events as events
from redraft.events.messages.conditions import Condition
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import Choice, DomainEvent, Tally
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.folders import FOLDER
from redraft.events.messages.plan import Node, Parallel, Repeat, Step, describe_endings, loops_of, steps_of
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.scales import Scale, score_text
from redraft.events.messages.usage import Usage
from redraft.projections.display import NAME_LENGTH, counted, plain, usage_text, values_text
from redraft.projections.run_views.diff import count_changes
from redraft.projections.run_views.sentences import Line, sentences


class Vetoes:
    """Collects the vetoes of a run, by the draft's hash. A gate's refusal is not a veto: people cannot overrule it."""

    def __init__(self) -> None:
        self._gates: frozenset[str] = frozenset()
        self._counts = False
        self._vetoing_critics: dict[str, dict[str, None]] = {}
        self._approved: set[str] = set()

    def note(self, event: DomainEvent) -> None:
        match event:
            case events.RunStarted(plan=plan, rules=rules):
                self._gates, self._counts = frozenset(_gates(plan.steps)), rules >= 2
            case events.DraftCritiqued(draft=draft) if critic := self._vetoing(event):
                self._vetoing_critics.setdefault(draft.sha256, {})[plain(critic, NAME_LENGTH)] = None
            case events.DraftApproved(draft=draft, granted=True):
                self._approved.add(draft.sha256)
            case _:
                pass

    def overruled_by(self, event: DomainEvent) -> str:
        """Returns in words whose veto people overrule with this event, or that they did before; empty for no veto."""
        if isinstance(event, events.DraftCritiqued) and event.draft.sha256 in self._approved:
            return "vetoes what people had approved: their word overrules it" if self._vetoing(event) else ""
        if not isinstance(event, events.DraftApproved) or not event.granted:
            return ""
        critics = self._vetoing_critics.get(event.draft.sha256, {})
        return f"overrules the veto of critic {', '.join(critics)}" if critics else ""

    def _vetoing(self, event: events.DraftCritiqued) -> str:
        """Returns the name of the critic that vetoes a draft with this event; empty when it does not."""
        name = event.path.rpartition("/")[2].partition("[")[0]
        return name if self._counts and event.critique.approved is False and name not in self._gates else ""


def _gates(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        match node:
            case Step(name=name, gate=True):
                yield name
            case Parallel(steps=steps):
                yield from _gates(steps)
            case Repeat(body=body):
                yield from _gates(body)
            case _:
                pass


MOST_LINES: Final = 20
"""The maximum number of lines of one error that are listed."""

MAX_SHOWN: Final = 5
"""The maximum number of errors, suggestions and the like shown of one critique."""
MAX_COMPARED: Final = 200_000
"""The maximum length in characters of drafts whose changed words are counted."""

ConditionText: TypeAlias = Callable[[Repeat], str]
"""A function that formats the condition of a loop as text."""


class NarrativeEntry(msgspec.Struct, frozen=True):
    """An event of a run with its details.

    `cause` is the version of the event in the run that led to it, 0 when it came from outside. `details` are lines that
    follow the sentence, without control characters.
    """

    line: Line
    cause: int
    details: tuple[str, ...]


class UnmetDraft(Protocol):
    """A draft that did not end its loop: its joined score, and the gates that did not pass it.

    `until` is the condition that did not hold, None where it is not known.
    """

    @property
    def draft(self) -> int: ...

    @property
    def score(self) -> float | None: ...

    @property
    def scale(self) -> Scale | None: ...

    @property
    def gates(self) -> tuple[str, ...]: ...

    @property
    def until(self) -> Condition | None: ...


Unmet: TypeAlias = Mapping[int, UnmetDraft]
"""The drafts that did not end a loop, by the version of the event with which it went on."""

_NOT_KNOWN: Final[Unmet] = MappingProxyType({})


def narrate(stream: Sequence[Recorded], say: ConditionText, unmet: Unmet = _NOT_KNOWN) -> Iterator[NarrativeEntry]:
    """Yields what happened, in order: requests, answers, changes, and why loops ended, or went on, as `unmet` says."""
    so_far = _RunSoFar(say, unmet)
    for event, line in zip(stream, sentences(stream), strict=True):
        entry = NarrativeEntry(line, so_far.cause(event), tuple(so_far.details(event)))
        so_far.add(event)
        yield entry


class _RunSoFar:
    """State of a run up to an event: versions by event id, requests and failures by path, and the drafts' texts."""

    def __init__(self, say: ConditionText, unmet: Unmet) -> None:
        self._say = say
        self._unmet = unmet
        self._versions: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._errors: set[int] = set()
        self._drafts: dict[int, str] = {}
        self._loops: dict[str, Repeat] = {}
        self._steps: dict[str, Step] = {}
        self._explained: dict[str, UnmetDraft] = {}
        self._edited: events.DraftEdited | None = None
        self._vetoes = Vetoes()

    def cause(self, event: Recorded) -> int:
        """Returns the version of the event's cause. Early releases recorded none for retries and timeouts."""
        known = self._versions.get(event.causation, 0)
        match event.data:
            case events.StepRequested(path=path, attempt=attempt) if not known and attempt > 1:
                return self._failed.get(path, 0)
            case events.StepFailed(path=path) if not known:
                return self._asked.get(path, 0)
            case _:
                return known

    def add(self, event: Recorded) -> None:
        self._versions[event.id] = event.version
        self._vetoes.note(event.data)
        self._note_edit(event.data)
        match event.data:
            case events.RunStarted(plan=plan):
                self._loops, self._steps = dict(loops_of(plan.steps)), dict(steps_of(plan.steps))
            case events.StepRequested(path=path):
                self._asked[path] = event.version
            case events.LimitsChanged(max_iterations=int(most)) if loop := self._loops.get(plan_path(event.data.path)):
                self._loops[plan_path(event.data.path)] = replace(loop, max_iterations=most)
            case events.StepFailed(path=path):
                self._failed[path] = event.version
                self._errors.add(event.version)
            case (
                events.DraftGenerated(draft=draft) | events.DraftRefined(draft=draft) | events.DraftEdited(draft=draft)
            ):
                self._drafts[draft.version] = draft.text
            case _:
                pass

    def _note_edit(self, event: DomainEvent) -> None:
        """Keeps a person's draft until somebody is asked about it, or writes another one instead."""
        match event:
            case events.DraftEdited():
                self._edited = event
            case events.StepRequested() | events.LoopEnded() | events.ApprovalRequested():
                self._edited = None
            case _:
                pass

    def details(self, event: Recorded) -> Iterator[str]:
        """Yields details that go with the sentence."""
        match event.data:
            case events.RunStarted():
                yield from self._describe_start(event.data)
            case events.IterationStarted():
                yield from self._describe_iteration(event.data, event.version, {} if event.repeats else self._loops)
            case events.StepRequested():
                yield from self._describe_request(event.data, event.version, {} if event.repeats else self._loops)
                yield from self._describe_history(event.data) if not event.repeats else ()
            case events.DraftCritiqued(critique=critique, usage=usage):
                if overruled := self._vetoes.overruled_by(event.data):
                    yield f"it {overruled}"
                yield from _list_remarks(critique)
                yield from _describe_usage(usage)
            case events.DraftRefined(before=before, draft=draft, usage=usage, declined=declined):
                yield from _list_some("declined", declined, "refusal")
                yield from _describe_change(self._drafts.get(before.version), draft.text)
                yield from _describe_usage(usage)
            case events.DraftEdited(before=before, draft=draft):
                yield from _describe_change(self._drafts.get(before.version), draft.text)
            case (
                events.DraftGenerated(usage=usage)
                | events.DraftPublished(usage=usage)
                | events.StateChanged(usage=usage)
            ):
                yield from _describe_usage(usage)
            case events.StepFailed(message=message, usage=usage):
                yield from _list_lines(message)
                yield from _describe_usage(usage)
            case events.LimitsChanged(until=until) if until is not None:
                loop = self._loops.get(plan_path(event.data.path), Repeat("", until, 1, ()))
                yield f"it ends now when {self._say(replace(loop, until=until))}"
            case events.DraftApproved() if overruled := self._vetoes.overruled_by(event.data):
                yield f"it {overruled}"
            case _:
                pass

    def _describe_start(self, event: events.RunStarted) -> Iterator[str]:
        if event.tags:
            yield f"tags: {', '.join(map(plain, event.tags))}"
        is_folder = event.brief.media_type == FOLDER
        if not is_folder and (first := plain(event.brief.text.strip().partition("\n")[0])):
            yield f"the brief: {first}"
        if first := values_text({**(event.plan.state.defaults if event.plan.state else {}), **event.brief.state}):
            yield f"the state begins with {first}"
        for path, loop in loops_of(event.plan.steps):
            kept = (
                "the best draft leaves it"
                if loop.keep == "best" and not is_unjudged(loop)
                else "the last draft leaves it"
            )
            most = counted(loop.max_iterations, "iteration")
            yield f"{plain(path)} goes on until {self._say(loop)}, for {most} at most; {kept}{_ends_of(loop)}"

    def _describe_iteration(
        self, event: events.IterationStarted, version: int, loops: Mapping[str, Repeat]
    ) -> Iterator[str]:
        """Yields details of an iteration; `loops` is empty for one that a fork repeats, by another plan."""
        loop = loops.get(plan_path(event.path))
        if loop is None:
            return
        yield from self._describe_unmet(event.path, loop, version)
        yield f"it is one of {counted(loop.max_iterations, 'iteration')} at most"

    def _describe_request(
        self, event: events.StepRequested, version: int, loops: Mapping[str, Repeat]
    ) -> Iterator[str]:
        if event.attempt > 1 and event.path in self._failed:
            yield f"the wait after event {self._failed[event.path]} was over"
        if event.role == "generator" and self._edited is not None:
            mine, by = self._edited.draft.version, plain(self._edited.by, NAME_LENGTH) or "a person"
            yield f"nobody has looked at draft {mine}, which {by} made: the new draft takes its place"
        if event.role == "refiner" and event.attempt == 1:
            place = event.path.rpartition("/")[0]
            path = place.rpartition("[")[0]
            if within := loops.get(plan_path(path)):
                yield from self._describe_unmet(path, within, version)
            loop = loops.get(plan_path(place))
            if loop is not None and event.draft is not None and event.score is not None:
                yield from self._describe_return(loop, event.draft.version)
        errors = tuple(version for version in event.critiques if version in self._errors)
        said = tuple(version for version in event.critiques if version not in self._errors)
        for what, versions in (("the critique of", said), ("the error of", errors), ("the advice of", event.advice)):
            if versions:
                yield f"it receives {what} {_number_events(versions)}"
        if event.choice is not None and event.choice.known and event.attempt == 1:
            yield f"chosen by how runs ended: {_describe_choice(event.choice)}"

    def _describe_return(self, loop: Repeat, version: int) -> Iterator[str]:
        """Yields why a refinement begins with an earlier draft than the newest."""
        newest = max(self._drafts, default=version)
        if version < newest:
            top = "" if loop.rollback_top is None else f" of {loop.rollback_top:g}"
            what = plain(loop.rollback_of) or "the score"
            margin = f"{what} may fall by {loop.rollback_margin:g}{top} at most, and a gate passed may not be failed"
            yield f"it goes back to draft {version} from draft {newest}: {margin}"

    def _describe_history(self, event: events.StepRequested) -> Iterator[str]:
        """Yields that one who asked for the history gets it; a refiner always does, without texts."""
        step = self._steps.get(plan_path(event.path))
        if step is None or step.history is None or event.reused is not None:
            return
        texts = f", with the texts of {counted(step.history, 'earlier draft')} at most" if step.history else ""
        if texts or event.role != "refiner":
            yield f"it receives the history{texts}"

    def _describe_unmet(self, path: str, loop: Repeat, version: int) -> Iterator[str]:
        """Yields why the loop at this path goes on with the event of this version, unless that was said already."""
        unmet = self._unmet.get(version)
        if unmet is None or unmet == self._explained.get(path) or (unmet.score is None and not unmet.gates):
            return
        self._explained[path] = unmet
        score = "" if unmet.score is None else f", scored at {score_text(unmet.score, unmet.scale)},"
        why = _describe_gates(unmet.gates) if unmet.gates else ""
        if not why and unmet.until is not None:
            why = self._say(replace(loop, until=unmet.until))
        yield f"because draft {unmet.draft}{score} did not end it{f': {why}' if why else ''}"


def _describe_gates(gates: Sequence[str]) -> str:
    names = " and ".join(plain(name, NAME_LENGTH) for name in gates)
    return f"the gate{'s' if len(gates) > 1 else ''} {names} did not pass it"


def _describe_choice(choice: Choice) -> str:
    """Returns the chosen arm and the others: `judge_b (3 of 4 accepted) over judge_a (1 of 5 accepted)`."""
    told = {each.arm: _describe_tally(each) for each in choice.known}
    others = ", ".join(record for arm, record in told.items() if arm != choice.arm)
    return f"{told.get(choice.arm, plain(choice.arm))} over {others}"


def _describe_tally(tally: Tally) -> str:
    runs = tally.successes + tally.failures
    known = f"{tally.successes:,} of {runs:,} accepted" if runs else "not known yet"
    return f"{plain(tally.arm)} ({known})"


def _list_remarks(critique: Critique) -> Iterator[str]:
    parts = (
        ("error", critique.errors),
        ("weakness", critique.weaknesses),
        ("suggestion", critique.suggestions),
        ("strength", critique.strengths),
    )
    for mark in critique.criteria[:MAX_SHOWN]:
        if mark.reason:
            yield f"{plain(mark.name)}: {plain(mark.reason)}{f', as in “{plain(mark.quote)}”' if mark.quote else ''}"
    for name, lines in parts:
        yield from _list_some(name, lines)
    for name, value in list(critique.details.items())[:MAX_SHOWN]:
        yield f"details: {plain(name)}: {plain(str(value))}"
    if len(critique.details) > MAX_SHOWN:
        yield f"and {counted(len(critique.details) - MAX_SHOWN, 'more detail')}"


def _list_some(name: str, lines: Sequence[str], noun: str = "") -> Iterator[str]:
    for line in lines[:MAX_SHOWN]:
        yield f"{name}: {plain(line)}"
    if len(lines) > MAX_SHOWN:
        yield f"and {counted(len(lines) - MAX_SHOWN, f'more {noun or name}')}"


def _list_lines(message: str) -> Iterator[str]:
    """Yields the lines of an error that has several, which its sentence shows in one."""
    lines = [line for line in message.splitlines() if line.strip()]
    if len(lines) > 1:
        yield from (plain(line) for line in lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            yield f"and {counted(len(lines) - MOST_LINES, 'more line')}"


def _describe_change(before: str | None, after: str) -> Iterator[str]:
    if before is None or ERASED in (before, after) or max(len(before), len(after)) > MAX_COMPARED or before == after:
        return
    changed = count_changes(before, after)
    yield f"{counted(changed.added, 'word')} came, {changed.removed:,} went"


def _describe_usage(usage: Usage) -> Iterator[str]:
    if not usage.is_nothing:
        yield f"used {usage_text(usage)}"


def is_unjudged(loop: Repeat) -> bool:
    """Returns whether no critic judges a draft in a loop, which then keeps its last one; a condition judges none."""
    return not any(step.role == "critic" and not step.condition for _, step in steps_of(loop.body))


def plan_path(path: str) -> str:
    """Returns the path of a loop in the plan: `Chapters/Refinement` for `Chapters[2]/Refinement[1]`."""
    return "/".join(part.partition("[")[0] for part in path.split("/"))


def _number_events(versions: Sequence[int]) -> str:
    numbers = ", ".join(map(str, versions))
    return f"event {numbers}" if len(versions) == 1 else f"events {numbers}"


def _ends_of(loop: Repeat) -> str:
    """Returns the rest of the sentence about a loop: its ends without the condition, and what failures lead to."""
    ends = f"; {plain(told)}" if (told := describe_endings(loop)) else ""
    if loop.on_failure == "end":
        return ends
    return f"{ends}; a refinement mends what a step fails on, at most {counted(loop.max_failures, 'time')}"
