"""Collects the texts of a run from its events and builds requests with them: each text is stored only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import Final, assert_never

import msgspec

from redraft.actors.deciding.judgement import Judgement, join_measures, lowest_marks, merge
from redraft.actors.deciding.rejoining import rejoin
from redraft.actors.plans.arms import resolve_arm
from redraft.actors.plans.paths import step_key
from redraft.actors.runtime.relaying.issue_history import IssueHistory, history_of, loop_around
from redraft.actors.runtime.relaying.kept_drafts import KEPT, KeptDrafts
from redraft.actors.runtime.relaying.state_history import StateHistory
from redraft.actors.runtime.relaying.temperature import raise_temperature
from redraft.actors.runtime.relaying.told_failures import critique_of
from redraft.events.errors import CodecError
from redraft.events.messages.commands import (
    CritiqueDraft,
    Generate,
    Publish,
    Refine,
    Request,
    RunStep,
    Work,
    request_id,
)
from redraft.events.messages.content import Brief, Critique, Draft, DraftRef, History, Number, Round
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    DraftRejected,
    ItemOf,
    IterationStarted,
    LoopEnded,
    RunEnded,
    RunGuided,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts
from redraft.events.messages.lessons import Lesson
from redraft.events.messages.memory import text_memory
from redraft.events.messages.plan import RULES, Parallel, Step, eaches_of, may_leave_steps, nodes_of

OVERHEAD: Final = 2 * 1024
"""The memory of a run beside its plan, its critiques and its texts, in bytes, estimated."""

NODE: Final = 512
"""The memory of a step of a plan, in bytes, estimated."""

CRITIQUE: Final = 1024
"""The memory of a critique and of its round beside their texts, in bytes, estimated."""

ROUNDS: Final = 20
"""The number of latest rounds in a history, so that requests do not grow with their run."""

_WITHOUT_TEXT: Final = frozenset({IterationStarted, LoopEnded, RunEnded})
"""The most frequent of the events that hold nothing that a request may need."""

_OF_LOOPS: Final = 4
"""The rules from which on a history is of the loop around a step; before, it was of the whole run."""

_OF_STEPS: Final = 5
"""The rules from which on what critics say has the names of their steps, as in conditions, and scores are the joined.

Before, it had the names of their actors; of several critics the lowest score counted in rounds, and of each criterion
in critiques too, and no score was one of 0.
"""

_OF_LINES: Final = 7
"""The rules from which on a history says what became of suggestions and errors as `IssueHistory` does, see there."""


class RequestBuilder:
    """The texts and critiques of one run, gathered event by event.

    `version` is that of the last event added, `trace` the trace context of the first, `facts` are the workflow and
    tags of the run. `of` is the item that the run works on, if any; `has_items`: it may have runs of its own items.
    """

    def __init__(self, events: Iterable[Recorded] = ()) -> None:
        self.version = 0
        self._size = OVERHEAD
        self.trace = ""
        self.facts = RunFacts()
        self.of: ItemOf | None = None
        self.has_items = False
        self._steps: dict[str, Step] = {}
        self._panels: dict[str, Parallel] = {}
        self._brief = Brief("")
        self._drafts = KeptDrafts()
        self._texts = 0
        """The most texts of earlier drafts that a step of the plan is given."""
        self._critiques: dict[int, Critique] = {}
        self._failed: set[int] = set()
        self._judged: dict[int, tuple[int, str]] = {}
        """For each critique the draft that it is of, and the path of its step."""
        self._heard: dict[int, list[int]] = {}
        """For each draft the critiques that were given when it was judged last."""
        self._rules = RULES
        self._rounds: dict[int, Round] = {}
        self._loops: dict[int, str] = {}
        """The loop in which each of these was judged last, see `loop_around`."""
        self._counted: dict[int, dict[str, dict[str, Number]]] = {}
        self._changes: dict[int, tuple[str, ...]] = {}
        self._before: dict[int, int] = {}
        self._issues = IssueHistory()
        self._state = StateHistory()
        self._lessons: tuple[Lesson, ...] = ()
        self._advice: dict[int, str] = {}
        self._disputed: dict[str, str] = {}
        """The suggestions that refiners declined, each with the loop in which they did."""
        for event in events:
            self.add(event)

    def add(self, event: Recorded) -> None:
        """Adds the next event of the run; ignores one that was added before."""
        if event.version <= self.version:
            return
        self.version = event.version
        data = event.data
        if type(data) in _WITHOUT_TEXT:
            return
        self._size += self._state.add(data)
        match data:
            case StepRequested():
                self._issues.add_request(data)
            case DraftCritiqued():
                self._critiques[event.version] = data.critique
                self._judged[event.version] = data.draft.version, data.path
                self._size += CRITIQUE
                said = data.critique
                self._add_size(*said.strengths, *said.weaknesses, *said.suggestions, *said.errors)
                if said.issues:
                    self._add_size(*(text for issue in said.issues for text in (issue.quote, issue.text)))
                self._add_round(data, event.version)
            case DraftRefined():
                self._drafts.add(data.draft)
                self._add_size(*data.changes, *data.declined)
                self._changes[data.draft.version] = data.changes
                self._before[data.draft.version] = data.before.version
                self._issues.add_draft(data.draft.version, data.before.version)
                self._disputed.update(dict.fromkeys(data.declined, loop_around(data.path)))
            case RunStarted():
                self.trace = event.trace
                self._brief, self._rules = data.brief, data.rules
                nodes = list(nodes_of(data.plan.steps))
                self._steps = {path: node for path, node in nodes if isinstance(node, Step)}
                self._texts = max((step.history or 0 for step in self._steps.values()), default=0)
                self._panels = {path: node for path, node in nodes if type(node) is Parallel}
                self.facts = RunFacts(data.plan.name, data.tags, may_leave_steps(data.plan.steps))
                self._lessons = data.lessons.given if data.lessons else ()
                self.of, self.has_items = data.of, any(True for _ in eaches_of(data.plan.steps))
                self._add_size(data.brief.text, *(text for each in self._lessons for text in (each.text, each.mended)))
                self._size += NODE * len(self._steps)
            case DraftGenerated():
                self._drafts.add(data.draft)
                self._issues.add_generated(data)
            case RunGuided():
                self._advice[event.version] = data.advice
                self._add_size(data.advice)
            case DraftRejected():
                self._advice[event.version] = data.reason
                self._add_size(data.reason)
            case DraftEdited():
                self._drafts.add(data.draft)
                self._add_size(data.reason)
                self._changes[data.draft.version] = (f"edited by {data.by}{': ' if data.reason else ''}{data.reason}",)
                self._before[data.draft.version] = data.before.version
                self._issues.add_draft(data.draft.version, data.before.version)
            case StepFailed(path=path, retry_at=None):
                self._failed.add(event.version)
                self._critiques[event.version] = critique_of(data, self._steps.get(step_key(path)))
                self._judged[event.version] = 0, path
                self._add_size(data.message)
            case _:  # no other event has a text that a request may need
                pass

    @property
    def size(self) -> int:
        """Returns the memory of the run's texts in bytes, at least."""
        return self._size + self._drafts.size

    def has_drafts(self, requested: StepRequested) -> bool:
        """Returns whether the drafts that a request names, or its history has, are here: none of them was forgotten."""
        for ref in _named(requested):  # a loop, as it is asked for each event
            if ref.version not in self._drafts:
                return False
        step = self._steps.get(step_key(requested.path)) if self._texts else None
        if step is None or not step.history:
            return True
        return all(version in self._drafts for version in self._earlier(requested, step.history))

    def forget_drafts(self) -> None:
        """Forgets drafts that no request may need, so that a long run takes no more memory than a short one.

        One that is needed all the same, such as an early draft that is the best, has to be read from the log again.
        """
        self._drafts.forget(max(KEPT, self._texts + 1))

    def _add_size(self, *texts: str) -> None:
        for text in texts:
            self._size += text_memory(text)

    def _add_round(self, data: DraftCritiqued, version: int) -> None:
        said, number = data.critique, data.draft.version
        before = self._rounds.get(number)
        score, scored, criteria = self._scores_with(before, data, version)
        made_from = self._before.get(number, 0)
        loop = loop_around(data.path)
        if self._rules >= _OF_LOOPS and self._loops.get(number, loop) != loop:
            del self._rounds[number]  # it comes behind those that were judged before this loop began
        self._loops[number] = loop
        self._issues.add_critique(data, version)
        self._rounds[number] = Round(
            data.draft,
            score,
            self._changes.get(number, ()),
            (*before.suggestions, *said.suggestions) if before else said.suggestions,
            (*before.errors, *said.errors) if before else said.errors,
            criteria,
            said.scale if before is None or before.scale == said.scale else None,
            before=made_from,
            gain=self._gain(score, made_from) if scored else None,
            scored=scored,
        )
        if said.measures:
            critic = data.path.rpartition("/")[2] if self._rules >= _OF_STEPS else said.critic
            self._counted.setdefault(number, {})[critic] = said.measures
        if counted := self._counted.get(number):
            measures = join_measures(counted.items())
            self._rounds[number] = msgspec.structs.replace(self._rounds[number], measures=measures)

    def _scores_with(
        self, before: Round | None, data: DraftCritiqued, version: int
    ) -> tuple[float, bool, dict[str, float]]:
        """Returns the score of a draft with one critique more, whether it has one, and the scores by criterion."""
        said, lowest = data.critique, lowest_marks(before.criteria if before else {}, data.critique)
        if self._rules < _OF_STEPS:
            return (min(said.score, before.score) if before else said.score), True, lowest
        number, loop, key = data.draft.version, loop_around(data.path), step_key(data.path)
        heard = self._heard.setdefault(number, [])
        if self._loops.get(number, loop) != loop or key in [step_key(self._judged[each][1]) for each in heard]:
            heard.clear()  # it is judged anew
        heard.append(version)
        judged = self._join(heard)
        return judged.score, judged.scored, {name: judged.marks.get(name, least) for name, least in lowest.items()}

    def _join(self, critiques: Sequence[int]) -> Judgement:
        said = [(self._judged[each][1], self._critiques[each]) for each in critiques]
        return rejoin(said, self._steps, self._panels, self._rules)

    def _gain(self, score: float, made_from: int) -> float | None:
        start = self._rounds.get(made_from)
        return None if start is None or not start.scored else round(score - start.score, 9)

    def command(
        self,
        run: str,
        requested: StepRequested,
        sent: int = 1,
        *,
        confirmed: bool = False,
        at: datetime | None = None,
        reply_key: str = "",
        confirmed_at: datetime | None = None,
    ) -> Work:
        """Returns the command that this request stands for, with its texts; `sent` is the ordinal of this sending.

        `at` is when it was requested, `reply_key` and `confirmed_at` are as in `Request`. Raises CodecError
        when the run's events lack something that the request names.
        """
        for ref in _named(requested):
            self._drafts.name(ref.version)
        step = self._steps.get(step_key(requested.path))
        if step is None:
            raise CodecError(f"the plan of run {run} has no step {requested.path}")
        if requested.choice is not None:
            step = resolve_arm(step, requested.choice, requested.actor)
        request = Request(
            request_id(run, requested.path, requested.attempt),
            run,
            requested.path,
            requested.actor,
            requested.attempt,
            step.timeout,
            self._brief,
            raise_temperature(step.options, requested.heat),
            tuple([self._drafts[ref.version] for ref in requested.outputs]) if requested.outputs else (),
            sent,
            confirmed,
            step.version,
            tuple([self._drafts[ref.version] for ref in requested.beside]) if requested.beside else (),
            at,
            step.scale,
            step.criteria,
            step.measures,
            step.only_issues,
            reply_key,
            self._state.at_request(requested.path),
            confirmed_at,
            self._lessons if requested.role in ("generator", "refiner") else (),
        )
        match requested.role:
            case "generator":
                history = None if step.history is None else self._history(requested, step.history)
                return Generate(request, self._critique(run, requested), history)
            case "critic":
                history = None if step.history is None else self._history(requested, step.history)
                said = self._critique(run, requested) if requested.critiques else None
                return CritiqueDraft(request, self._draft(run, requested), history, said)
            case "refiner":
                draft, critique = self._draft(run, requested), self._critique(run, requested)
                return Refine(request, draft, critique, self._history(requested, step.history or 0))
            case "publisher":
                return Publish(request, self._draft(run, requested))
            case "step":
                history = None if step.history is None else self._history(requested, step.history)
                known = None if requested.draft is None else self._draft(run, requested)
                return RunStep(request, known, self._critique(run, requested), history)
            case "run":
                raise CodecError(f"{requested.path} is no work for a worker: a run of its own does it")
            case _:
                assert_never(requested.role)

    def _draft(self, run: str, requested: StepRequested) -> Draft:
        if requested.draft is None:
            raise CodecError(f"nothing has written a draft for {requested.path} to work on; its plan went over no item")
        draft = self._drafts.get(requested.draft.version)
        if draft is None or draft.sha256 != requested.draft.sha256:
            raise CodecError(f"run {run} has no draft {requested.draft} for {requested.path} to work on")
        return draft

    def _critique(self, run: str, requested: StepRequested) -> Critique | None:
        missing = [version for version in requested.critiques if version not in self._critiques]
        if missing:
            raise CodecError(f"run {run} has no critique at version {missing[0]} to pass to {requested.path}")
        critiques = [self._critiques[version] for version in requested.critiques]
        if len(critiques) < 2:
            return merge(critiques, requested.score)
        if self._rules < _OF_STEPS:
            return merge(critiques, requested.score)
        names = [self._judged[version][1].rpartition("/")[2] for version in requested.critiques]
        judged = [version for version in requested.critiques if version not in self._failed]
        return merge(critiques, requested.score, names, self._join(judged).marks if judged else {})

    def _history(self, requested: StepRequested, texts: int) -> History:
        rounds = self._rounds_for(requested)
        history = self._issues.told(rounds, requested) if self._rules >= _OF_LINES else history_of(rounds)
        if texts:
            earlier = tuple([self._drafts[version] for version in self._earlier(requested, texts)])
            history = msgspec.structs.replace(history, drafts=earlier)
        said = tuple(self._advice[version] for version in requested.advice if version in self._advice)
        loop = loop_around(requested.path) if self._rules >= _OF_LOOPS else ""
        disputed = tuple(text for text, of in self._disputed.items() if of.startswith(loop))[-ROUNDS:]
        if not (said or disputed or requested.oscillation):
            return history
        return msgspec.structs.replace(history, advice=said, disputed=disputed, oscillation=requested.oscillation)

    def _rounds_for(self, requested: StepRequested) -> tuple[Round, ...]:
        """Returns the latest rounds of the loop around a step since it began, and that of the step's own draft."""
        if self._rules < _OF_LOOPS:
            return tuple(self._rounds.values())[-ROUNDS:]
        loop, own = loop_around(requested.path), requested.draft.version if requested.draft else 0
        within = takewhile(lambda each: self._loops[each].startswith(loop), reversed(self._rounds))
        latest = list(islice(within, ROUNDS))
        if own in self._rounds and not self._loops[own].startswith(loop):
            latest.append(own)
        return tuple(self._rounds[each] for each in reversed(latest))

    def _earlier(self, requested: StepRequested, texts: int) -> Sequence[int]:
        """Returns the versions of the drafts whose texts a history has: the latest that a request has room for."""
        rounds = self._rounds_for(requested)
        return self._drafts.within([each.draft.version for each in rounds if each.draft != requested.draft][-texts:])


def _named(requested: StepRequested) -> tuple[DraftRef, ...]:
    """Returns the drafts that a request names."""
    alone = (requested.draft,) if requested.draft else ()
    return (*requested.outputs, *requested.beside, *alone) if requested.outputs or requested.beside else alone
