"""What an outcome, a timer, or a stranger's word brings about, and when it brings about nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.properties.test_deciding_properties import NOW, RUN, Run, step

from redraft.actors.deciding.decider import MAX_SENDINGS, backoff, handle, is_open, why_unwelcome
from redraft.actors.deciding.state import RunState
from redraft.events.messages.commands import (
    ConfirmStep,
    Critiqued,
    EraseRun,
    ExpireStep,
    Failed,
    Generated,
    GuideRun,
    Message,
    Published,
    QuarantineRun,
    Refined,
    RetryStep,
    StartRun,
)
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Brief, Critique, DraftRef, Receipt, new_draft
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    RunEnded,
    RunErased,
    RunQuarantined,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.plan import Parallel, Plan, Repeat, Retry, Role, Step
from redraft.events.messages.usage import Usage

USED = Usage(7, 0.5, 1)
HOUR = timedelta(hours=1)


def trying(role: Role, name: str) -> Step:
    """A step that is tried three times, 10 to 20 seconds after it failed."""
    return Step(role, name, name, timeout=30.0, retry=Retry(3, 20.0, 2.0, 100.0))


PLAN = Plan(
    "p",
    (
        trying("generator", "write"),
        Repeat("L", score >= 0.9, 3, (trying("critic", "judge"), trying("refiner", "improve"))),
        trying("publisher", "save"),
    ),
)


def standing(at: str) -> Run:
    """A run that waits for the step of this name."""
    run = Run(PLAN)
    answers = [("write", 0, "one"), ("L[1]/judge", 0.5, ""), ("L[1]/improve", 0, "two"), ("L[2]/judge", 0.95, "")]
    for path, value, text in answers[: {"write": 0, "judge": 1, "improve": 2, "save": 4}[at]]:
        run.answer(path, value=value, text=text)
    return run


def first(run: Run, message: Message) -> object:
    """The first event that a message brings about."""
    events = run.send(message)
    return events[0] if events else None


def draft(run: Run) -> DraftRef:
    assert run.state.current is not None
    return run.state.current.ref


def after(run: Run, failed: object, attempt: int = 1) -> StepFailed:
    """The failure, as one that is tried again after a wait."""
    assert isinstance(failed, StepFailed)
    assert failed.retry_at is not None
    assert timedelta(seconds=10 * attempt) <= failed.retry_at - run.now <= timedelta(seconds=20 * attempt)
    return replace(failed, retry_at=None)


def test_what_each_role_says_is_recorded_with_all_of_it() -> None:
    run = Run(PLAN)
    one = new_draft(1, "one", "text/markdown")
    assert first(run, Generated(RUN, "write", 1, "one", "text/markdown", usage=USED)) == DraftGenerated(
        "write", 1, one, USED
    )
    critique = Critique(0.5, errors=("bad",))
    assert first(run, Critiqued(RUN, "L[1]/judge", 1, one.ref, critique, USED)) == DraftCritiqued(
        "L[1]/judge", 1, one.ref, replace(critique, critic="judge"), USED
    )
    two, no = new_draft(2, "two", "text/markdown"), ("bad: it is good",)
    refined = Refined(RUN, "L[1]/improve", 1, "two", ("one is two",), exit=True, usage=USED, declined=no)
    assert first(run, refined) == DraftRefined(
        "L[1]/improve", 1, one.ref, two, ("one is two",), exit=True, usage=USED, declined=no
    )
    run.answer("L[closing]/judge", value=0.95, text="")
    assert first(run, Published(RUN, "save", 1, two.ref, Receipt("here"), USED)) == DraftPublished(
        "save", 1, two.ref, Receipt("here"), USED
    )
    assert run.state.status == "ended"
    assert run.state.usage == Usage(28, 2.0, 4)


@pytest.mark.parametrize("at", ["write", "judge", "improve", "save"])
def test_an_answer_of_another_role_another_attempt_or_for_another_draft_is_ignored(at: str) -> None:
    run = standing(at)
    (path,) = run.state.open
    role, about = run.state.open[path].step.role, draft(run) if at != "write" else DraftRef(0, "")
    said: dict[Role, Message] = {
        "generator": Generated(RUN, path, 1, "x"),
        "critic": Critiqued(RUN, path, 1, about, Critique(0.5)),
        "refiner": Refined(RUN, path, 1, "x"),
        "publisher": Published(RUN, path, 1, about, Receipt("x")),
    }
    mine = said.pop(role)
    assert [run.send(each) for each in said.values()] == [()] * 3
    assert run.send(replace(mine, attempt=2)) == run.send(replace(mine, path="elsewhere")) == ()  # type: ignore[call-arg]
    if isinstance(mine, Critiqued | Published):
        assert run.send(replace(mine, draft=DraftRef(about.version, "another"))) == ()
    assert run.send(mine)
    assert run.send(mine) == ()


@pytest.mark.parametrize("hermetic", [True, False])
def test_what_a_critic_looked_at_is_recorded_and_changes_nothing_in_its_run(hermetic: bool) -> None:
    run, other = standing("judge"), standing("judge")
    verdict = Critiqued(RUN, "L[1]/judge", 1, draft(run), Critique(0.5, critic="judge"))
    said, usual = run.send(replace(verdict, hermetic=hermetic)), other.send(verdict)
    assert isinstance(said[0], DraftCritiqued)
    assert said[0].hermetic is hermetic
    assert [replace(said[0], hermetic=True), *said[1:]] == list(usual)


@pytest.mark.parametrize("value", [1.01, -0.01])
def test_a_score_beyond_its_bounds_is_a_failure_for_good(value: float) -> None:
    run = standing("judge")
    failed = first(run, Critiqued(RUN, "L[1]/judge", 1, draft(run), Critique(value), USED))
    assert failed == StepFailed("L[1]/judge", 1, "invalid", f"a score of {value:g} is not in 0..1", None, USED)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_score_at_its_bounds_counts(value: float) -> None:
    run = standing("judge")
    assert isinstance(first(run, Critiqued(RUN, "L[1]/judge", 1, draft(run), Critique(value))), DraftCritiqued)


def test_a_draft_that_cannot_be_one_is_a_failure_that_is_tried_again() -> None:
    run = Run(PLAN)
    failed = after(run, first(run, Generated(RUN, "write", 1, "", usage=USED)))
    assert (failed.path, failed.attempt, failed.kind, failed.usage) == ("write", 1, "invalid", USED)
    assert failed.message


def test_what_failed_is_asked_for_again_when_its_time_has_come_and_not_before() -> None:
    run = Run(PLAN)
    failed = first(run, Failed(RUN, "write", 1, "error", "broke", usage=USED))
    assert after(run, failed) == StepFailed("write", 1, "error", "broke", None, USED)
    assert isinstance(failed, StepFailed)
    assert not is_open(run.state, "write", 1)
    assert run.send(Generated(RUN, "write", 1, "late")) == ()
    assert run.send(RetryStep(RUN, "write", 1)) == (), "its time has not come"
    assert failed.retry_at is not None
    run.now = failed.retry_at
    assert run.send(RetryStep(RUN, "write", 2)) == run.send(RetryStep(RUN, "elsewhere", 1)) == ()
    (again,) = run.send(RetryStep(RUN, "write", 1))
    assert isinstance(again, StepRequested)
    assert (again.path, again.attempt, again.due) == ("write", 2, run.now + timedelta(seconds=30) + HOUR)
    assert run.send(RetryStep(RUN, "write", 2)) == (), "it is under way"


def test_after_the_last_attempt_or_one_that_need_not_be_tried_again_the_run_ends() -> None:
    run = Run(PLAN)
    for attempt in (1, 2):
        after(run, first(run, Failed(RUN, "write", attempt, "error", "broke")), attempt)
        run.wake("write")
    failed = first(run, Failed(RUN, "write", 3, "error", "broke"))
    assert failed == StepFailed("write", 3, "error", "broke", None)
    run = Run(PLAN)
    failed = first(run, Failed(RUN, "write", 1, "lost", "never", retryable=False))
    assert failed == StepFailed("write", 1, "lost", "never", None)
    assert run.state.status == "ended"


def test_an_attempt_is_over_at_its_deadline() -> None:
    run = Run(PLAN)
    run.now = NOW + timedelta(seconds=29) + HOUR
    assert run.send(ExpireStep(RUN, "write", 1)) == ()
    run.now = NOW + timedelta(seconds=30) + HOUR
    assert run.send(ExpireStep(RUN, "write", 2)) == run.send(ExpireStep(RUN, "elsewhere", 1)) == ()
    failed = first(run, ExpireStep(RUN, "write", 1))
    assert after(run, failed) == StepFailed("write", 1, "timeout", "no answer by 2026-01-01 01:00:30 UTC", None)
    run.now += 2 * HOUR
    assert run.send(ExpireStep(RUN, "write", 1)) == (), "it is over already"


def test_a_request_that_comes_back_again_and_again_is_lost() -> None:
    run = Run(PLAN)
    assert run.send(ConfirmStep(RUN, "write", 1, MAX_SENDINGS - 1)) == ()
    assert run.send(ConfirmStep(RUN, "write", 2, MAX_SENDINGS)) == ()
    assert run.send(ConfirmStep(RUN, "elsewhere", 1, MAX_SENDINGS)) == ()
    failed = first(run, ConfirmStep(RUN, "write", 1, MAX_SENDINGS))
    told = f"sent {MAX_SENDINGS} times, and no worker answered"
    assert after(run, failed) == StepFailed("write", 1, "lost", told, None)
    assert run.send(ConfirmStep(RUN, "write", 1, MAX_SENDINGS)) == ()


def test_an_attempt_is_open_until_it_has_an_answer() -> None:
    run = Run(PLAN)
    assert is_open(run.state, "write", 1)
    assert not is_open(run.state, "write", 2)
    assert not is_open(run.state, "elsewhere", 1)
    run.answer("write", value=0, text="one")
    assert not is_open(run.state, "write", 1)


def test_a_run_is_erased_when_it_is_over_and_once() -> None:
    run = standing("save")
    erase = EraseRun(RUN, "ann", "asked to")
    assert run.send(erase) == ()
    run.answer("save", value=0, text="")
    assert run.send(erase) == (RunErased("ann", "asked to"),)
    assert run.send(erase) == ()
    assert run.state.erased


def test_a_run_is_set_aside_once_and_can_be_erased_then() -> None:
    run = standing("judge")
    aside = QuarantineRun(RUN, "ann", "odd", "k")
    assert run.send(aside) == (RunQuarantined("ann", "odd", "k"),)
    assert run.send(aside) == ()
    assert run.state.open == {}
    assert run.send(EraseRun(RUN, "ann", "")) == (RunErased("ann", ""),)


def test_a_run_begins_once_and_nothing_is_done_to_one_that_has_not() -> None:
    start = StartRun(RUN, PLAN, Brief("brief"))
    run = Run(PLAN)
    assert run.send(start) == ()
    run = Run(PLAN)
    run.state = RunState()
    assert run.send(QuarantineRun(RUN, "ann", "odd")) == run.send(EraseRun(RUN, "ann", "")) == ()
    assert run.send(GuideRun(RUN, "be brief")) == ()


def test_whoever_asks_for_another_run_under_a_key_that_is_taken_is_told() -> None:
    run = Run(PLAN)
    same = StartRun(RUN, PLAN, Brief("brief"), "k")
    assert why_unwelcome(run.state, same) == ""
    told = f"run {RUN} has begun with another brief or workflow, key 'k'; give another key"
    assert why_unwelcome(run.state, replace(same, brief=Brief("another"))) == told
    assert why_unwelcome(run.state, replace(same, plan=replace(PLAN, name="another"))) == told


def test_a_word_to_a_run_that_is_not_there_is_told_and_one_that_is_late_is_not() -> None:
    assert why_unwelcome(RunState(), GuideRun(RUN, "be brief")) == f"there is no run {RUN}"
    assert why_unwelcome(Run(PLAN).state, Generated(RUN, "write", 9, "late")) == ""


def test_waits_grow_up_to_the_longest_and_differ_by_the_request() -> None:
    retry = Retry(9, 2.0, 3.0, 50.0)
    waits = [backoff(retry, attempt, "a").total_seconds() for attempt in (1, 2, 3, 4, 100, 5000)]
    jitter = waits[0] / 2
    assert 0.5 <= jitter < 1
    assert waits == pytest.approx(
        [2 * jitter, 6 * jitter, 18 * jitter, 50 * jitter, 50 * jitter, 50 * jitter], abs=1e-5
    )
    assert backoff(retry, 1, "a") == backoff(retry, 1, "a") != backoff(retry, 1, "b")
    many = [backoff(retry, 1, f"{n}").total_seconds() / 2 for n in range(200)]
    assert 0.5 <= min(many) < 0.52
    assert 0.98 < max(many) <= 1


def test_a_step_without_a_wait_is_tried_again_at_once() -> None:
    run = Run(Plan("p", (step("generator", "write", 2),)))
    failed = first(run, Failed(RUN, "write", 1, "error", "broke"))
    assert failed == StepFailed("write", 1, "error", "broke", run.now)


def test_a_draft_beyond_the_limit_is_a_failure() -> None:
    message = Generated(RUN, "write", 1, "12345")
    (drafted, *_) = handle(Run(PLAN).state, message, NOW, 5).events
    assert isinstance(drafted, DraftGenerated)
    (failed,) = handle(Run(PLAN).state, message, NOW, 4).events
    assert isinstance(failed, StepFailed)
    assert failed.kind == "invalid"


def test_a_run_that_has_ended_holds_no_more_than_what_is_asked_of_it() -> None:
    run = standing("save")
    run.answer("save", value=0, text="")
    state = run.state
    assert (state.status, state.frames, state.open, state.approval, state.late) == ("ended", (), {}, None, {})


def test_a_judges_yes_to_the_best_of_several_ends_the_loop() -> None:
    best = Parallel("Best", (step("refiner", "a"), step("refiner", "b")), judge=step("critic", "rate"))
    run = Run(Plan("p", (step("generator", "write"), Repeat("L", score > 0.99, 3, (best,)))))
    run.answer("write", value=0, text="one")
    for path in sorted(run.state.open):
        run.answer(path, value=0, text=f"by {path}")
    for value in (0.6, 0.5):
        run.answer(next(iter(run.state.open)), value=value, text="", verdict=True)
    ended = run.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.score) == ("accepted", 0.6)


def test_of_several_who_write_those_that_are_not_waited_for_are_heard_no_more() -> None:
    first = Parallel("First", (step("generator", "a"), step("generator", "b")), 1, judge=step("critic", "rate"))
    run = Run(Plan("p", (first,)))
    run.answer("First/b", value=0, text="one")
    assert list(run.state.open) == ["First/rate[1]"]
    assert run.send(Generated(RUN, "First/a", 1, "two")) == ()
