"""What a run's events have brought, kept so that requests can be given their texts: a text is stored only once."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from sys import getsizeof
from typing import Final, assert_never

import msgspec

from redraft.actors.arms import resolved
from redraft.actors.judgement import merge
from redraft.actors.plan_paths import step_key
from redraft.events.commands import CritiqueDraft, Generate, Publish, Refine, Request, Work, request_id
from redraft.events.content import Brief, Critique, Draft, History, Round
from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    BudgetReached,
    ChoicesCredited,
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
    PanelClosed,
    RunCancelled,
    RunEnded,
    RunErased,
    RunGuided,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.envelope import Recorded
from redraft.events.errors import CodecError
from redraft.events.filters import About
from redraft.events.plan import Approve, Node, Option, Parallel, Plan, Repeat, Step

OVERHEAD: Final = 8 * 1024
"""Bytes of memory that a run takes beside its texts, about: its plan above all."""

ROUNDS: Final = 20
"""How many rounds, the latest, a refiner is told of; so a request does not grow with its run."""

USUAL_TEMPERATURE: Final = 0.7
"""The temperature of a step that names none, once it has to be raised."""

WARMER: Final = 0.2
"""By how much the temperature is raised each time."""

HOTTEST: Final = 2.0
"""The highest temperature that models take."""


class Material:
    """The texts and critiques of one run, gathered event by event.

    `version` is that of the last event it has seen, `facts` are the workflow and tags of the run, `size` the bytes of
    memory that its texts take, at least.
    """

    def __init__(self, events: Iterable[Recorded] = ()) -> None:
        self.version = 0
        self.size = OVERHEAD
        self.facts = About()
        self._steps: dict[str, Step] = {}
        self._brief = Brief("")
        self._drafts: dict[int, Draft] = {}
        self._critiques: dict[int, Critique] = {}
        self._rounds: dict[int, Round] = {}
        self._changes: dict[int, tuple[str, ...]] = {}
        self._advice: dict[int, str] = {}
        self._disputed: dict[str, None] = {}
        for event in events:
            self.add(event)

    def add(self, event: Recorded) -> None:
        """Takes in the next event of the run; one that was seen already is passed over."""
        if event.version <= self.version:
            return
        self.version = event.version
        data = event.data
        match data:
            case StepRequested() | IterationStarted():  # the most frequent
                pass
            case DraftCritiqued():
                self._critiques[event.version] = data.critique
                said = data.critique
                self._weigh(*said.strengths, *said.weaknesses, *said.suggestions, *said.errors)
                self._judged(data)
            case DraftRefined():
                self._drafts[data.draft.version] = data.draft
                self._weigh(data.draft.text, *data.changes, *data.declined)
                self._changes[data.draft.version] = data.changes
                self._disputed.update(dict.fromkeys(data.declined))
            case RunStarted():
                self._brief, self._steps, self.facts = data.brief, steps_of(data.plan), About(data.plan.name, data.tags)
                self._weigh(data.brief.text)
            case DraftGenerated():
                self._drafts[data.draft.version] = data.draft
                self._weigh(data.draft.text)
            case RunGuided():
                self._advice[event.version] = data.advice
                self._weigh(data.advice)
            case DraftRejected():
                self._advice[event.version] = data.reason
                self._weigh(data.reason)
            case DraftEdited():
                self._drafts[data.draft.version] = data.draft
                self._weigh(data.draft.text, data.reason)
                self._changes[data.draft.version] = (f"edited by {data.by}{': ' if data.reason else ''}{data.reason}",)
            case (
                DraftPublished()
                | StepFailed()
                | LoopClosing()
                | LoopEnded()
                | LimitsChanged()
                | RunPaused()
                | RunResumed()
                | RunCancelled()
                | ApprovalRequested()
                | DraftApproved()
                | ApprovalExpired()
                | BudgetReached()
                | PanelClosed()
                | VerdictLate()
                | ChoicesCredited()
                | RunEnded()
                | RunErased()
                | RunQuarantined()
            ):
                pass
            case _:
                assert_never(data)

    def _weigh(self, *texts: str) -> None:
        self.size += sum(map(getsizeof, texts))

    def _judged(self, data: DraftCritiqued) -> None:
        said, number = data.critique, data.draft.version
        before = self._rounds.get(number)
        self._rounds[number] = Round(
            data.draft,
            min(said.score, before.score) if before else said.score,
            self._changes.get(number, ()),
            (*before.suggestions, *said.suggestions) if before else said.suggestions,
            (*before.errors, *said.errors) if before else said.errors,
        )

    def command(
        self,
        run: str,
        asked: StepRequested,
        sent: int = 1,
        *,
        confirmed: bool = False,
        at: datetime | None = None,
    ) -> Work:
        """The very command that this request stands for, with its texts, as it is `sent` for the nth time.

        `at` is when it was asked for.

        Raises CodecError when the run's events do not hold what the request names.
        """
        step = self._steps.get(step_key(asked.path))
        if step is None:
            raise CodecError(f"the plan of run {run} has no step {asked.path}")
        if asked.choice is not None:
            step = resolved(step, asked.choice, asked.actor)
        request = Request(
            request_id(run, asked.path, asked.attempt),
            run,
            asked.path,
            asked.actor,
            asked.attempt,
            step.timeout,
            self._brief,
            warmer(step.options, asked.heat),
            tuple(self._drafts[ref.version] for ref in asked.outputs),
            sent,
            confirmed,
            step.version,
            tuple(self._drafts[ref.version] for ref in asked.beside),
            at,
        )
        match asked.role:
            case "generator":
                return Generate(request)
            case "critic":
                return CritiqueDraft(request, self._draft(run, asked))
            case "refiner":
                return Refine(request, self._draft(run, asked), self._critique(run, asked), self._history(asked))
            case "publisher":
                return Publish(request, self._draft(run, asked))
            case _:
                assert_never(asked.role)

    def _draft(self, run: str, asked: StepRequested) -> Draft:
        draft = self._drafts.get(asked.draft.version) if asked.draft else None
        if draft is None or draft.ref != asked.draft:
            raise CodecError(f"run {run} has no draft {asked.draft} that {asked.path} could work on")
        return draft

    def _critique(self, run: str, asked: StepRequested) -> Critique | None:
        missing = [version for version in asked.critiques if version not in self._critiques]
        if missing:
            raise CodecError(f"run {run} has no critique at version {missing[0]} that {asked.path} could be told of")
        return merge([self._critiques[version] for version in asked.critiques], asked.score)

    def _history(self, asked: StepRequested) -> History:
        history = history_of(tuple(self._rounds.values())[-ROUNDS:])
        said = tuple(self._advice[version] for version in asked.advice if version in self._advice)
        disputed = tuple(self._disputed)[-ROUNDS:]
        if not (said or disputed or asked.oscillation):
            return history
        return msgspec.structs.replace(history, advice=said, disputed=disputed, oscillation=asked.oscillation)


def history_of(rounds: tuple[Round, ...]) -> History:
    """What became of suggestions and errors over these rounds, oldest first."""
    if not rounds:
        return History()
    named = [dict.fromkeys((*each.errors, *each.suggestions)) for each in rounds]
    raised, earlier = named[-1], dict.fromkeys(line for lines in named[:-1] for line in lines)
    before = named[-2] if len(named) > 1 else {}
    return History(
        rounds,
        tuple(raised),
        tuple(line for line in earlier if line not in raised),
        tuple(line for line in raised if line in earlier and line not in before),
    )


def warmer(options: dict[str, Option], times: int) -> dict[str, Option]:
    """The options of a step with a `temperature` that is raised so often; without one it is 0.7 at first."""
    given = options.get("temperature", USUAL_TEMPERATURE)
    if not times or not isinstance(given, int | float):
        return options
    return options | {"temperature": round(min(HOTTEST, given + times * WARMER), 2)}


def steps_of(plan: Plan) -> dict[str, Step]:
    """Every step of a plan by its key: its path without iterations."""
    return {key: step for node in plan.steps for key, step in _keyed(node, "")}


def _keyed(node: Node, inside: str) -> Iterable[tuple[str, Step]]:
    match node:
        case Step():
            yield inside + node.name, node
        case Parallel():
            for step in (*node.steps, *((node.judge,) if node.judge else ())):
                yield f"{inside}{node.name}/{step.name}", step
        case Repeat():
            for child in node.body:
                yield from _keyed(child, f"{inside}{node.name}/")
        case Approve():
            pass
        case _:
            assert_never(node)
