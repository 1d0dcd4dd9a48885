"""Panels with a deadline: all critics are awaited for a while, then as few as the plan says; late verdicts are kept."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.properties.test_deciding_properties import NEVER, RUN, Run, examples, step

from redraft.actors.deciding.evolve import fold
from redraft.actors.deciding.requests import GRACE
from redraft.actors.plans.check import check_plan
from redraft.events.errors import PlanError
from redraft.events.messages.commands import Critiqued, ExpireStep, Failed
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    PanelClosed,
    RunEnded,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.plan import Budget, Parallel, Plan, Repeat
from redraft.events.messages.usage import Usage

WRITE, IMPROVE = step("generator", "write"), step("refiner", "improve")
CRITICS = tuple(step("critic", name) for name in "abc")
PANEL = Parallel("Panel", CRITICS, 2, "mean", deadline=60.0)


def begun(panel: Parallel = PANEL) -> Run:
    run = Run(check_plan(Plan("p", (WRITE, Repeat("L", NEVER, 2, (panel, IMPROVE))))))
    run.answer("write", value=0, text="one")
    return run


def path(critic: str) -> str:
    return f"L[1]/Panel/{critic}"


def late(run: Run, critic: str, value: float = 0.1) -> Critiqued:
    asked = next(event for event in run.events if isinstance(event, StepRequested) and event.path == path(critic))
    assert asked.draft
    return Critiqued(RUN, path(critic), 1, asked.draft, Critique(value), Usage(7))


def test_all_are_awaited_before_the_deadline() -> None:
    run = begun()
    assert {asked.due for asked in run.state.open.values()} == {run.now + timedelta(seconds=60)}
    run.answer(path("a"), value=0.4, text="")
    run.answer(path("b"), value=0.6, text="")
    assert list(run.state.open) == [path("c")], "two would be enough, but there is time"
    run.answer(path("c"), value=0.8, text="")
    assert run.state.open["L[1]/improve"].request.score == pytest.approx(0.6)
    assert not any(isinstance(event, PanelClosed) for event in run.events)


def test_at_the_deadline_it_goes_on_with_those_who_answered_and_keeps_who_is_late() -> None:
    run = begun()
    run.answer(path("a"), value=0.4, text="")
    run.answer(path("c"), value=0.6, text="")
    run.now += timedelta(seconds=60)
    closed, asked = run.send(ExpireStep(RUN, path("b"), 1))
    assert closed == PanelClosed("L[1]/Panel", 2, (path("b"),))
    assert isinstance(asked, StepRequested)
    assert asked.score == pytest.approx(0.5)
    (told,) = run.send(late(run, "b"))
    assert isinstance(told, VerdictLate)
    assert (told.critique.score, run.state.usage.tokens) == (0.1, 7)
    assert run.send(late(run, "b")) == (), "once"
    assert run.state.current
    assert run.state.current.judgement
    assert run.state.current.judgement.score == pytest.approx(0.5), "it is not counted"


def test_with_too_few_at_the_deadline_the_next_that_answers_is_awaited() -> None:
    run = begun()
    run.answer(path("a"), value=0.4, text="")
    run.now += timedelta(seconds=61)
    assert run.send(ExpireStep(RUN, path("b"), 1)) == ()
    run.answer(path("b"), value=0.8, text="")
    assert isinstance(run.events[-2], PanelClosed)
    assert run.state.open["L[1]/improve"].request.score == pytest.approx(0.6)


def test_a_critic_that_cannot_be_done_without_has_the_time_of_its_own_timeout() -> None:
    run = begun(Parallel("Panel", CRITICS, 3, deadline=60.0))
    started = run.now
    run.now = started + timedelta(seconds=299) + GRACE
    assert run.send(ExpireStep(RUN, path("a"), 1)) == ()
    run.now = started + timedelta(seconds=300) + GRACE
    failed = run.send(ExpireStep(RUN, path("a"), 1))[0]
    assert isinstance(failed, StepFailed)
    assert failed.kind == "timeout"


def test_the_panel_is_over_when_the_last_that_can_answer_has() -> None:
    run = begun()
    run.answer(path("a"), value=0.4, text="")
    run.answer(path("b"), value=0.6, text="")
    run.send(Failed(RUN, path("c"), 1, "error", "broke", retryable=False))
    assert list(run.state.open) == ["L[1]/improve"]


def test_late_verdicts_of_a_quorum_without_a_deadline_are_kept_too() -> None:
    run = begun(Parallel("Panel", CRITICS, "first"))
    run.answer(path("b"), value=0.4, text="")
    assert [type(event) for event in run.send(late(run, "a"))] == [VerdictLate]
    assert [type(event) for event in run.send(late(run, "c"))] == [VerdictLate]
    assert run.send(late(run, "b")) == ()


@pytest.mark.parametrize(
    ("panel", "fault"),
    [
        (Parallel("P", CRITICS, deadline=5.0), "deadline needs wait"),
        (Parallel("P", CRITICS, 2, deadline=0.0), "deadline is 0.0; write seconds"),
        (
            Parallel("P", (WRITE, step("generator", "more")), 1, judge=step("critic", "rate"), deadline=5.0),
            "deadline is for critics, and these are generators",
        ),
    ],
)
def test_a_deadline_that_means_nothing_is_refused(panel: Parallel, fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        check_plan(Plan("p", (WRITE, panel)))


@pytest.mark.check
@examples
@given(st.integers(1, 3), st.data())
def test_whatever_comes_when_every_verdict_is_recorded_and_the_run_ends(quorum: int, data: st.DataObject) -> None:
    run = begun(Parallel("Panel", CRITICS, quorum, "mean", deadline=60.0))
    said: list[Critiqued] = []
    for number in range(300):
        if run.state.status != "running":
            break
        run.now += timedelta(seconds=data.draw(st.sampled_from([1, 30, 90])))
        where = data.draw(st.sampled_from(sorted({*run.state.open, *run.state.late})))
        asked = run.state.open.get(where) or run.state.late[where]
        if asked.step.role == "critic" and asked.draft and data.draw(st.booleans()):
            said.append(Critiqued(RUN, where, 1, asked.draft, Critique(0.5)))
            run.send(said[-1])
        elif where in run.state.open and asked.step.role == "critic":
            run.send(ExpireStep(RUN, where, 1))
        elif where in run.state.open:
            run.answer(where, value=0.5, text=f"text {number}")
    assert fold(run.events) == run.state
    heard = [event.path for event in run.events if isinstance(event, DraftCritiqued | VerdictLate)]
    assert heard == [message.path for message in said], "each once, in order, counted or not"
    if run.state.status == "ended":
        assert isinstance(run.events[-1], RunEnded)


def test_who_is_asked_when_there_is_room_for_it_has_the_time_that_is_left() -> None:
    dear = tuple(replace(critic, options={"reserve_tokens": 60}) for critic in CRITICS)
    panel = Parallel("Panel", dear, 2, deadline=60.0)
    run = Run(check_plan(Plan("p", (WRITE, Repeat("L", NEVER, 2, (panel, IMPROVE))), budget=Budget(tokens=100))))
    run.answer("write", value=0, text="one")
    assert list(run.state.open) == [path("a")]
    over = run.state.open[path("a")].due
    run.now += timedelta(seconds=20)
    run.answer(path("a"), value=0.5, text="")
    assert {name: asked.due for name, asked in run.state.open.items()} == {path("b"): over}


def test_a_critic_that_was_awaited_for_longer_is_told_until_when() -> None:
    run = begun(Parallel("Panel", CRITICS, 3, deadline=60.0))
    run.now += timedelta(seconds=300) + GRACE
    failed = run.send(ExpireStep(RUN, path("a"), 1))[0]
    assert isinstance(failed, StepFailed)
    assert failed.message == "no answer by 2026-01-01 01:05:00 UTC"


TRYING = Parallel("Panel", tuple(step("critic", name, 2) for name in "abc"), 2, deadline=60.0)


def test_a_critic_that_is_asked_again_has_until_the_deadline_of_the_panel() -> None:
    run = begun(TRYING)
    deadline = run.now + timedelta(seconds=60)
    run.answer(path("b"), value=0.5, text="")
    run.answer(path("c"), value=0.5, text="")
    run.fail(path("a"))
    run.wake(path("a"))
    assert run.state.open[path("a")].due == deadline
    run.now = deadline
    assert run.send(ExpireStep(RUN, path("a"), 2))[0] == PanelClosed("L[1]/Panel", 2, (path("a"),))


def test_nobody_is_asked_again_after_the_deadline_of_a_panel_that_has_heard_enough() -> None:
    run = begun(TRYING)
    run.answer(path("b"), value=0.5, text="")
    run.answer(path("c"), value=0.5, text="")
    run.now += timedelta(seconds=59.9)
    run.fail(path("a"))
    run.now += timedelta(seconds=1)
    asked = len(run.events)
    run.wake(path("a"))
    assert run.events[asked] == PanelClosed("L[1]/Panel", 2, (path("a"),))
    assert list(run.state.open) == ["L[1]/improve"]


def test_an_attempt_that_is_made_again_does_not_move_the_deadline() -> None:
    run = begun(Parallel("Panel", tuple(step("critic", name, 2) for name in "abc"), 1, deadline=60.0))
    begin = run.now
    run.answer(path("b"), value=0.5, text="")
    run.fail(path("a"))
    run.wake(path("a"))
    assert sorted(run.state.open) == [path("a"), path("c")]
    run.now = begin + timedelta(seconds=60)
    closed = run.send(ExpireStep(RUN, path("c"), 1))[0]
    assert closed == PanelClosed("L[1]/Panel", 1, tuple(run.state.late))
