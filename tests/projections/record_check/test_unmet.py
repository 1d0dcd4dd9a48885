"""What the checker says that loops went on from is what the decider looked at, by all rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias

import pytest
from msgspec.structs import replace
from tests.projections.random_runs import NOW, RandomRun, random_fork, random_plan, random_run

from redraft.actors.deciding.decider import continue_from
from redraft.actors.deciding.evolve import evolve
from redraft.actors.deciding.state import Candidate, RunState, waits_for_own_critics
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftEdited,
    IterationStarted,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.plan import RULES
from redraft.events.messages.redaction import ERASED
from redraft.projections.record_check import unmet_drafts
from redraft.projections.record_check.unmet import Unmet

Reason: TypeAlias = tuple[int, float | None, bool]
"""A draft, its score, and whether a gate failed it."""


def by_rules(seed: int, rules: int) -> RandomRun:
    chance = Random(seed)
    run = RandomRun(chance)
    decision = continue_from(RunState(), RunStarted(random_plan(chance), Brief("b"), NOW, rules=rules), NOW)
    run.state, run.events, run.times = decision.state, list(decision.events), [NOW for _ in decision.events]
    return run.drive()


class Looked:
    """The drafts that the loops of a run looked at last, by path and iteration."""

    def __init__(self) -> None:
        self.state = RunState()
        self.at: dict[tuple[str, int], Candidate] = {}

    def look(self) -> None:
        """Notes the current draft where the decider now reads the loop's condition for it."""
        top, current = self.state.frames[-1], self.state.current
        if top.node is None or top.due == "nothing" or top.exit or top.verdicts:
            return
        if current and current.judgement and not waits_for_own_critics(self.state, top, top.node):
            self.at[top.path, top.iteration] = current

    def take(self, event: DomainEvent) -> None:
        if isinstance(event, DraftEdited):
            self.at.pop((self.state.frames[-1].path, self.state.frames[-1].iteration), None)
        before, self.state = self.state.frames[-1:], evolve(self.state, event)
        after = self.state.frames[-1:]
        if before and after and before[0].review is not None and after[0].node is not None and self.state.current:
            self.at[after[0].path, after[0].iteration] = self.state.current

    def reason(self) -> Reason | None:
        top = self.state.frames[-1]
        draft = self.at.get((top.path, top.iteration)) if top.node else None
        judged = draft.judgement if draft else None
        return (draft.ref.version, judged.known_score, judged.gate == "failed") if draft and judged else None


def expected(events: Sequence[DomainEvent]) -> dict[int, Reason]:
    looked, reasons = Looked(), dict[int, Reason]()
    for version, event in enumerate(events, 1):
        if looked.state.frames:
            looked.look()
        goes_on = isinstance(event, IterationStarted) and event.iteration > 1
        refines = isinstance(event, StepRequested) and event.role == "refiner" and event.attempt == 1
        if (goes_on or refines) and (reason := looked.reason()):
            reasons[version] = reason
        looked.take(event)
    return reasons


def found(unmet: Mapping[int, Unmet]) -> dict[int, Reason]:
    return {version: (each.draft, each.score, bool(each.gates)) for version, each in unmet.items()}


@pytest.mark.parametrize("rules", range(1, RULES + 1))
def test_it_is_the_draft_that_the_decider_looked_at(rules: int) -> None:
    told = 0
    for seed in range(60):
        run = by_rules(seed, rules)
        reasons = found(unmet_drafts(run.recorded()))
        assert reasons == expected(run.events), f"seed {seed}"
        told += len(reasons)
    assert told > 40


def test_a_fork_does_not_know_the_condition_by_which_its_parent_went_on() -> None:
    told = 0
    for seed in range(60):
        fork = random_fork(seed)
        unmet = unmet_drafts(fork.recorded())
        assert found(unmet).items() <= expected(fork.events).items(), f"seed {seed}"
        repeated = [each for version, each in unmet.items() if version <= fork.inherited]
        assert not [each for each in repeated if each.until is not None]
        told += len(repeated)
    assert told > 10


def test_none_is_known_where_texts_are_erased_or_events_are_missing() -> None:
    events = next(run for run in map(random_run, range(60)) if unmet_drafts(run.recorded())).recorded()
    begun = events[0].data
    assert isinstance(begun, RunStarted)
    erased = replace(events[0], data=replace(begun, brief=Brief(ERASED)))
    assert unmet_drafts([erased, *events[1:]]) == {}
    assert unmet_drafts([events[0], *events[2:]]) == {}
    assert unmet_drafts(events[1:]) == {}
    later = replace(events[0], data=replace(begun, rules=RULES + 1))
    assert unmet_drafts([later, *events[1:]]) == {}
    assert unmet_drafts([]) == {}
