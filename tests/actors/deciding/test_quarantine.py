"""A run that a person has set aside: its events are not folded, and nothing is decided about it any more."""

from __future__ import annotations

import pytest
from tests.given import given
from tests.properties.test_deciding_properties import RUN, Run, step

from redraft.actors.deciding.evolve import evolve, fold
from redraft.events.messages.commands import CancelRun, EraseRun, Generated, GuideRun, QuarantineRun
from redraft.events.messages.content import new_draft
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftRefined,
    IterationStarted,
    RunEnded,
    RunErased,
    RunQuarantined,
    RunStarted,
)
from redraft.events.messages.plan import Plan

PLAN = Plan("p", (step("generator", "write"), step("publisher", "save")))
ASIDE = RunQuarantined("ann", "its events contradict each other", "k")


def quarantine() -> QuarantineRun:
    return QuarantineRun(RUN, ASIDE.by, ASIDE.reason, ASIDE.key)


def test_a_run_that_goes_on_or_has_ended_can_be_set_aside_once() -> None:
    run = Run(PLAN)
    assert run.state.open
    when = given(*run.events).when(quarantine()).then(ASIDE)
    assert (when.state.status, when.state.open, when.state.frames) == ("quarantined", {}, ())
    ended = given(*run.events).when(CancelRun(RUN, "no need", "ben"))
    given(*run.events, *ended.events).when(quarantine(), quarantine()).then(ASIDE)
    given().when(quarantine()).then_nothing()


def test_nothing_that_is_said_to_it_means_anything_but_that_it_was_erased() -> None:
    run = Run(PLAN)
    given(*run.events, ASIDE).when(
        Generated(RUN, "write", 1, "late"), GuideRun(RUN, "shorter", by="ann"), CancelRun(RUN, "no", "ann")
    ).then_nothing()
    erased = given(*run.events, ASIDE).when(EraseRun(RUN, "ann", "asked"), EraseRun(RUN, "ann", "asked"))
    erased.then(RunErased("ann", "asked"))
    assert (erased.state.status, erased.state.erased) == ("quarantined", True)


NONSENSE: tuple[DomainEvent, ...] = (
    DraftRefined("Loop[7]/improve", 1, new_draft(1, "a").ref, new_draft(2, "b")),
    IterationStarted("Other", 1),
)


@pytest.mark.parametrize("without_start", [False, True])
def test_a_run_whose_events_cannot_be_folded_is_known_as_set_aside(*, without_start: bool) -> None:
    start = tuple(event for event in Run(PLAN).events if isinstance(event, RunStarted))
    events = (*(() if without_start else start), RunEnded("failed", "x", 0), *NONSENSE)
    with pytest.raises((IndexError, AssertionError)):
        fold(events)
    state = fold((*events, ASIDE))
    assert (state.status, state.version, state.open) == ("quarantined", len(events) + 1, {})
    assert state.plan.name == ("" if without_start else start[0].plan.name)
    assert evolve(state, RunErased("ann")).erased
    assert fold((*events, ASIDE, RunErased("ann"))).erased
