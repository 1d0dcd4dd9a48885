"""What people say to a run that goes on: advice, other limits, a pause, an end."""

from __future__ import annotations

from collections import Counter

from hypothesis import given as given_any
from hypothesis import strategies as st
from tests.given import given
from tests.properties.test_deciding_properties import NEVER, NOW, RUN, Run, examples, plans, step

from redraft.actors.deciding.decider import handle
from redraft.actors.deciding.evolve import fold
from redraft.actors.runtime.relaying.request_builder import RequestBuilder
from redraft.events.messages.commands import (
    CancelRun,
    ChangeLimits,
    Critiqued,
    Failed,
    GuideRun,
    PauseRun,
    Refine,
    ResumeRun,
    RetryStep,
    SteeringMessage,
)
from redraft.events.messages.conditions import score
from redraft.events.messages.content import Critique
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftPublished,
    IterationStarted,
    LimitsChanged,
    RunCancelled,
    RunEnded,
    RunPaused,
    RunResumed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan, Repeat

JUDGE, IMPROVE = step("critic", "judge"), step("refiner", "improve")
LOOP = Repeat("Loop", score >= 0.9, 3, (JUDGE, IMPROVE))
PLAN = Plan("p", (step("generator", "write"), LOOP, step("publisher", "save")))


def begun(plan: Plan = PLAN) -> Run:
    run = Run(plan)
    run.answer("write", value=0.0, text="one")
    return run


def asked(run: Run) -> list[StepRequested]:
    return [event for event in run.events if isinstance(event, StepRequested)]


def history_told(run: Run) -> tuple[str, ...]:
    """The advice in the command that the last request of the run stands for."""
    recorded = [
        Recorded(f"e{version}", RUN, version, NOW, "x", "", "", "", "", "", "", event)
        for version, event in enumerate(run.events, 1)
    ]
    work = RequestBuilder(recorded).command(RUN, asked(run)[-1])
    assert isinstance(work, Refine)
    return work.history.advice


def test_advice_reaches_the_next_refinement_and_no_later_one() -> None:
    run = begun()
    run.send(GuideRun(RUN, "shorter", "it is long", "ann", "k1"))
    run.send(GuideRun(RUN, "kinder", by="ben", key="k2"))
    run.answer("Loop[1]/judge", value=0.5, text="")
    assert asked(run)[-1].advice == (6, 7)
    assert history_told(run) == ("shorter", "kinder")
    run.answer("Loop[1]/improve", value=0.0, text="two")
    run.answer("Loop[2]/judge", value=0.5, text="")
    assert asked(run)[-1].advice == ()
    assert history_told(run) == ()


def test_advice_given_while_a_refiner_works_is_for_the_one_after_it() -> None:
    run = begun()
    run.answer("Loop[1]/judge", value=0.5, text="")
    run.send(GuideRun(RUN, "shorter", by="ann"))
    run.answer("Loop[1]/improve", value=0.0, text="two")
    run.answer("Loop[2]/judge", value=0.5, text="")
    assert history_told(run) == ("shorter",)


def test_advice_is_still_told_when_the_refiner_is_tried_again() -> None:
    plan = Plan("p", (PLAN.steps[0], Repeat("Loop", NEVER, 2, (JUDGE, step("refiner", "improve", 3)))))
    run = begun(plan)
    run.send(GuideRun(RUN, "shorter", by="ann"))
    run.answer("Loop[1]/judge", value=0.5, text="")
    run.fail("Loop[1]/improve")
    run.wake("Loop[1]/improve")
    assert (asked(run)[-1].attempt, history_told(run)) == (2, ("shorter",))


def test_a_raised_cap_gives_more_passes_and_a_lowered_one_fewer() -> None:
    for most, passes in ((5, 5), (1, 2)):
        run = begun(Plan("p", (PLAN.steps[0], Repeat("Loop", NEVER, 3, (JUDGE, IMPROVE)))))
        run.answer("Loop[1]/judge", value=0.1, text="")
        run.answer("Loop[1]/improve", value=0.0, text="two")
        (changed,) = run.send(ChangeLimits(RUN, max_iterations=most, reason="because", by="ann", key="k"))
        assert changed == LimitsChanged("Loop", "ann", None, most, "because", "k")
        while run.state.status == "running":
            run.answer(next(iter(run.state.open)), value=0.1, text=f"text {len(run.said)}")
        assert Counter(type(event) for event in run.events)[IterationStarted] == passes


def test_another_condition_counts_from_the_next_critique_on() -> None:
    run = begun()
    run.answer("Loop[1]/judge", value=0.5, text="")
    run.send(ChangeLimits(RUN, "Loop", score >= 0.4, by="ann"))
    assert "Loop[1]/improve" in run.state.open
    run.answer("Loop[1]/improve", value=0.0, text="two")
    run.answer("Loop[2]/judge", value=0.45, text="")
    assert list(run.state.open) == ["save"]


def test_a_nested_loop_has_its_new_limits_in_this_pass_and_the_next() -> None:
    inner = Repeat("Inner", NEVER, 3, (JUDGE, IMPROVE))
    run = begun(Plan("p", (PLAN.steps[0], Repeat("Outer", NEVER, 2, (inner, JUDGE)))))
    run.send(ChangeLimits(RUN, "Outer/Inner", None, 1, by="ann"))
    while run.state.status == "running":
        run.answer(next(iter(run.state.open)), value=0.1, text=f"text {len(run.said)}")
    passes = Counter(event.path for event in run.events if isinstance(event, IterationStarted))
    assert passes == {"Outer": 2, "Outer[1]/Inner": 1, "Outer[2]/Inner": 1}


def test_limits_that_no_plan_could_have_change_nothing() -> None:
    run = begun()
    for message in (
        ChangeLimits(RUN, "Elsewhere", None, 2),
        ChangeLimits(RUN, "Loop", None, 0),
        ChangeLimits(RUN, "Loop", score > 1.0),
        ChangeLimits(RUN, "Loop"),
    ):
        assert run.send(message) == ()


def test_a_pause_records_what_was_under_way_and_asks_for_nothing() -> None:
    run = begun()
    assert run.send(PauseRun(RUN, "lunch", "ann", "k")) == (RunPaused("ann", "lunch", "k"),)
    critiqued = Critiqued(RUN, "Loop[1]/judge", 1, asked(run)[-1].draft, Critique(0.5))  # type: ignore[arg-type]
    assert [type(event) for event in run.send(critiqued)] == [DraftCritiqued]
    assert run.state.open == {}
    resumed, requested = run.send(ResumeRun(RUN, "back", "ann"))
    assert resumed == RunResumed("ann", "back")
    assert isinstance(requested, StepRequested)
    assert requested.path == "Loop[1]/improve"


def test_a_step_that_failed_is_not_tried_again_while_the_run_is_paused() -> None:
    run = Run(Plan("p", (step("generator", "write", 3), *PLAN.steps[1:])))
    run.send(PauseRun(RUN, by="ann"))
    run.send(Failed(RUN, "write", 1, "error", "broke"))
    retry_at = run.state.open["write"].retry_at
    assert retry_at is not None
    run.now = retry_at
    assert run.send(RetryStep(RUN, "write", 1)) == ()
    run.send(ResumeRun(RUN, by="ann"))
    assert [type(event) for event in run.send(RetryStep(RUN, "write", 1))] == [StepRequested]


def test_a_cancelled_run_ends_with_its_best_draft_also_while_it_is_paused() -> None:
    run = begun()
    run.answer("Loop[1]/judge", value=0.5, text="")
    run.send(PauseRun(RUN, by="ann"))
    cancelled, ended = run.send(CancelRun(RUN, "no need", "ben", "k"))
    assert cancelled == RunCancelled("ben", "no need", "k")
    assert isinstance(ended, RunEnded)
    assert (ended.outcome, ended.reason, ended.score) == ("cancelled", "no need", 0.5)
    given(*run.events).when(CancelRun(RUN, "again"), ResumeRun(RUN), GuideRun(RUN, "late")).then_nothing()


def test_a_cancellation_without_a_reason_names_who_said_it() -> None:
    run = begun()
    given(*run.events).when(CancelRun(RUN, "", "ann")).then_ends("cancelled")
    assert given(*run.events).when(CancelRun(RUN, "", "ann")).events[-1].reason == "cancelled by ann"  # type: ignore[union-attr]


words: st.SearchStrategy[SteeringMessage] = st.one_of(
    st.builds(GuideRun, st.just(RUN), st.sampled_from(["shorter", "kinder", " "]), by=st.just("ann")),
    st.builds(PauseRun, st.just(RUN), by=st.just("ann")),
    st.builds(ResumeRun, st.just(RUN), by=st.just("ann")),
    st.builds(
        ChangeLimits,
        st.just(RUN),
        st.sampled_from(["", "Loop00", "Loop00/Loop10", "Loop01"]),
        st.sampled_from([None, score >= 0.7, NEVER]),
        st.sampled_from([None, 1, 2, 4]),
        by=st.just("ann"),
    ),
)


@examples
@given_any(plans(), st.data())
def test_a_steered_run_ends_once_publishes_only_what_was_judged_and_can_be_folded(plan: Plan, data: st.DataObject):
    run = Run(plan)
    judged: set[str] = set()
    for number in range(3000):
        if run.state.status != "running":
            break
        if data.draw(st.integers(0, 4)) == 4:
            word = data.draw(words)
            key = f"k{number}"
            first = run.send(type(word)(**{**_fields(word), "key": key}))
            again = type(word)(**{**_fields(word), "key": key})
            assert not first or handle(run.state, again, run.now).events == ()
            continue
        answerable = sorted(run.state.open)
        if run.state.paused or not answerable:
            before = len(asked(run))
            for path in answerable[:1]:
                if run.state.open[path].retry_at is None:
                    run.answer(path, value=0.6, text=f"text {number}")
            assert len(asked(run)) == before, "nothing is asked for while it is paused"
            run.send(ResumeRun(RUN, by="ben"))
        elif run.state.open[answerable[0]].retry_at is not None:
            run.wake(answerable[0])
        elif data.draw(st.integers(0, 9)) == 9:
            run.fail(answerable[0])
        else:
            value = data.draw(st.sampled_from([0.95, 0.75, 0.6, 0.0]))
            run.answer(data.draw(st.sampled_from(answerable)), value=value, text=f"text {number}")
    assert [type(event) for event in run.events].count(RunEnded) == 1
    assert run.state.status == "ended"
    assert fold(run.events) == run.state
    for event in run.events:
        if isinstance(event, DraftCritiqued):
            judged.add(event.draft.sha256)
        if isinstance(event, DraftPublished):
            assert event.draft.sha256 in judged


def _fields(word: SteeringMessage) -> dict[str, object]:
    return {name: getattr(word, name) for name in word.__struct_fields__}
