"""Failed steps that the next refinement is to mend: decided, told to the refiner, and checked independently."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.actors.deciding.test_approval import IMPROVE, JUDGE, SAVE, WRITE, plan
from tests.actors.deciding.test_endings import end_of, findings, go, publications
from tests.properties.test_deciding_properties import RUN, Run, step

from redraft.actors import Retry, Workflow, critic, generator, refiner, score, state
from redraft.actors import step as free_step
from redraft.actors.plans.check import check_plan
from redraft.app import refine
from redraft.app.settings.settings import Settings
from redraft.events.errors import PlanError
from redraft.events.messages.commands import ExpireStep, Failed
from redraft.events.messages.domain_events import StepFailed, StepRequested
from redraft.events.messages.plan import Node, Parallel, Plan, Repeat

TESTS = step("step", "tests")


def loop(*body: Node, most: int = 4, failures: int = 2, name: str = "L") -> Repeat:
    return Repeat(name, score >= 0.9, most, body, on_failure="refine", max_failures=failures)


def begun(node: Repeat) -> Run:
    run = Run(plan(node))
    go(run, (0, "one"))
    return run


def fail(run: Run, path: str) -> None:
    run.send(Failed(RUN, path, 1, kind="error", message="no such table: users"))


def asked(run: Run, path: str) -> StepRequested:
    return next(each for each in run.events if isinstance(each, StepRequested) and each.path == path)


def failures(run: Run) -> tuple[int, ...]:
    return tuple(number for number, each in enumerate(run.events, 1) if isinstance(each, StepFailed))


def test_a_failed_critic_is_for_the_next_refinement_and_the_loop_goes_on() -> None:
    run = begun(loop(JUDGE, IMPROVE))
    fail(run, "L[1]/judge")
    assert asked(run, "L[1]/improve").critiques == failures(run)
    assert asked(run, "L[1]/improve").score is None
    go(run, (0, "two"), (0.95, ""), (0, ""))
    assert (end_of(run), publications(run)) == (("accepted", 2), 1)
    assert findings(run) == ()


def test_what_critics_said_before_the_failure_is_told_too_and_does_not_end_the_loop() -> None:
    second = step("critic", "second")
    run = begun(loop(JUDGE, second, IMPROVE))
    go(run, (0.95, ""))
    said = len(run.events) - 1
    fail(run, "L[1]/second")
    assert asked(run, "L[1]/improve").critiques == (said, *failures(run))
    assert findings(run) == ()


def test_only_what_the_loops_own_critics_said_is_told_beside_the_failure_and_nothing_of_a_loop_within() -> None:
    """A draft that an inner loop judged, and that the outer loop judged anew: seed 39678."""
    inner = Repeat("In", score >= 0.9, 1, (JUDGE, IMPROVE))
    run = begun(replace(loop(inner, JUDGE, TESTS, IMPROVE), until=(score >= 0.9) & state.ok))
    go(run, (0.6, ""), (0, "two"), (0.3, ""), (0.5, ""))
    said = len(run.events) - 1
    fail(run, "L[1]/tests")
    request = asked(run, "L[1]/improve")
    assert (request.draft, request.critiques) == (asked(run, "L[1]/judge").draft, (said, *failures(run)))
    assert findings(run) == ()


def test_a_free_step_that_fails_after_the_critics_leaves_their_word_beside_its_error() -> None:
    node = replace(loop(JUDGE, TESTS, IMPROVE), until=(score >= 0.9) & state.ok)
    run = begun(node)
    go(run, (0.95, ""))
    fail(run, "L[1]/tests")
    told = asked(run, "L[1]/improve")
    assert (told.critiques[-1:], len(told.critiques), told.draft.version if told.draft else 0) == (failures(run), 2, 1)
    assert findings(run) == ()


def test_a_panel_that_can_no_longer_answer_is_for_the_next_refinement() -> None:
    panel = Parallel("Panel", (JUDGE, step("critic", "second")))
    run = begun(loop(panel, IMPROVE))
    run.answer("L[1]/Panel/judge", value=0.95, text="")
    fail(run, "L[1]/Panel/second")
    assert list(run.state.open) == ["L[1]/improve"]
    assert len(asked(run, "L[1]/improve").critiques) == 2
    assert findings(run) == ()


def test_a_failure_behind_the_refiner_is_for_the_next_iteration() -> None:
    run = begun(loop(IMPROVE, JUDGE))
    go(run, (0, "two"))
    fail(run, "L[1]/judge")
    assert asked(run, "L[2]/improve").critiques == failures(run)
    assert findings(run) == ()


def test_the_draft_that_failed_is_mended_itself_and_not_the_best_one() -> None:
    run = begun(loop(JUDGE, IMPROVE))
    go(run, (0.8, ""), (0, "two"))
    fail(run, "L[2]/judge")
    told = asked(run, "L[2]/improve").draft
    assert told is not None
    assert told.version == 2
    go(run, (0, "three"), (0.95, ""), (0, ""))
    assert findings(run) == ()


def test_failures_beyond_the_bound_end_the_run() -> None:
    run = begun(loop(JUDGE, IMPROVE, failures=1))
    fail(run, "L[1]/judge")
    go(run, (0, "two"))
    fail(run, "L[2]/judge")
    assert (end_of(run)[0], publications(run)) == ("failed", 0)
    assert findings(run) == ()


def test_the_bound_holds_for_each_time_that_the_loop_is_entered() -> None:
    inner = replace(loop(JUDGE, IMPROVE, failures=1, most=1, name="In"), until=score >= 0.5)
    outer = Repeat("Out", score >= 0.9, 2, (inner, step("critic", "taste")))
    run = Run(check_plan(Plan("p", (WRITE, outer, SAVE))))
    go(run, (0, "one"))
    fail(run, "Out[1]/In[1]/judge")
    go(run, (0, "two"), (0.6, ""), (0.1, ""))
    fail(run, "Out[2]/In[1]/judge")
    assert list(run.state.open) == ["Out[2]/In[1]/improve"]
    assert findings(run) == ()


def test_a_failure_after_which_no_refinement_follows_ends_the_run() -> None:
    run = begun(loop(IMPROVE, JUDGE, most=1))
    go(run, (0, "two"))
    fail(run, "L[1]/judge")
    assert (end_of(run)[0], publications(run)) == ("failed", 0)
    assert findings(run) == ()


@pytest.mark.parametrize("path", ["L[1]/improve", "save"])
def test_refiners_and_publishers_fail_as_ever(path: str) -> None:
    run = begun(loop(JUDGE, IMPROVE))
    go(run, (0.95 if path == "save" else 0.1, ""))
    fail(run, path)
    assert end_of(run)[0] == "failed"
    assert findings(run) == ()


def test_a_step_that_no_worker_serves_is_nothing_that_a_draft_could_mend() -> None:
    run = begun(loop(JUDGE, IMPROVE))
    run.send(ExpireStep(RUN, "L[1]/judge", 1, unserved=86_400))
    assert end_of(run)[0] == "failed"
    assert findings(run) == ()


def test_a_loop_without_a_refiner_cannot_mend_anything() -> None:
    node = replace(loop(step("generator", "again"), JUDGE), max_failures=0)
    with pytest.raises(PlanError, match="max_failures is 0; write a whole number"):
        check_plan(Plan("p", (WRITE, node, SAVE)))
    with pytest.raises(PlanError, match="on_failure is refine, and no refiner is in the body"):
        check_plan(Plan("p", (WRITE, replace(node, max_failures=1), SAVE)))


async def test_the_refiner_is_told_of_the_error_as_of_one_that_a_critic_found() -> None:
    told: list[tuple[str, ...]] = []

    @generator
    def write(brief):
        return brief.text

    @free_step
    def run_query(draft):
        if "users" in draft.text:
            raise RuntimeError("no such table: users")
        return {"rows": 3}

    @critic
    def judge(draft):
        return 1.0

    @refiner
    def improve(draft, critique):
        told.append(critique.errors)
        return draft.text.replace("users", "people")

    attempt = free_step(run_query, retry=Retry(1))
    workflow = (
        Workflow("sql")
        .start_with(write)
        .repeat_until(
            (score >= 0.9) & (state.rows >= 1),
            max_iterations=4,
            body=[attempt, judge, improve],
            on_failure="refine",
        )
    )
    result = await refine(workflow, "select * from users", settings=Settings(store="memory:"))
    assert (result.outcome, result.text) == ("accepted", "select * from people")
    [[told_of]] = told
    assert told_of.startswith("run_query: run_query raised RuntimeError: no such table: users")


async def test_a_generator_in_the_loop_is_told_of_the_error_too():
    told: list[tuple[str, ...]] = []

    @generator
    def write(brief, critique, history):
        told.append(critique.errors if critique else ())
        return brief.text + "!" * len(told)

    @critic
    def judge(draft):
        if draft.text == "draft!":
            raise RuntimeError("it cannot be read")
        return 1.0

    @refiner
    def improve(draft):
        return draft.text + "?"

    workflow = (
        Workflow("rewritten")
        .start_with(write)
        .repeat_until(
            score >= 0.9,
            max_iterations=3,
            body=[free_step(judge, retry=Retry(1)), free_step(write, name="again", history=1), improve],
            on_failure="refine",
        )
    )
    result = await refine(workflow, "draft", settings=Settings(store="memory:"))
    assert (result.outcome, result.text) == ("accepted", "draft!!?")
    assert [len(each) for each in told] == [0, 1]


def test_a_failure_behind_the_refiner_is_told_beside_what_the_critics_of_the_next_iteration_say() -> None:
    run = begun(loop(JUDGE, IMPROVE, TESTS))
    go(run, (0.1, ""), (0, "two"))
    fail(run, "L[1]/tests")
    go(run, (0.6, ""))
    told = asked(run, "L[2]/improve")
    assert (told.critiques, told.score) == ((len(run.events) - 1, *failures(run)), 0.6)
    go(run, (0, "three"), (0, ""), (0.5, ""))
    assert asked(run, "L[3]/improve").critiques[-1] not in failures(run)
    assert findings(run) == ()


def test_a_failure_is_not_told_of_another_draft_that_the_refinement_goes_back_to() -> None:
    run = begun(loop(JUDGE, IMPROVE, TESTS))
    go(run, (0.8, ""), (0, "two"))
    fail(run, "L[1]/tests")
    go(run, (0.1, ""))
    told = asked(run, "L[2]/improve")
    assert told.draft is not None
    assert (told.draft.version, set(told.critiques) & set(failures(run))) == (1, set())
    assert findings(run) == ()
