"""The steps: what becomes of each, and when the timekeeper has to look at it."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from msgspec.structs import replace
from tests.projections.logs import busy_log, contest_told, view_of
from tests.streams import START, Told, article_told, book_told, recorded

from redraft.events.messages.content import Brief, new_draft
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    IterationStarted,
    LoopEnded,
    PanelClosed,
    RunPaused,
    RunResumed,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Budget, Plan
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.views import Views
from redraft.projections.read_models.steps import (
    CAN_FALL_DUE,
    StepLine,
    count_overdue,
    list_due,
    next_due,
    oldest_waiting,
    steps_of,
)

MINUTE = timedelta(minutes=1)


def one(told: list[Told], run: str = "01JQ") -> list[Recorded]:
    return [replace(each, position=each.version) for each in recorded(run, told)]


async def by_path(views: Views, run: str = "01JQ") -> dict[str, StepLine]:
    return {step.path: step for step in await steps_of(views, run)}


async def test_the_deadline_of_people_is_kept_however_long_their_names_are(anywhere: StorageLocation) -> None:
    letters = Random(3)
    people = tuple("".join(chr(letters.randrange(0x20000, 0x2A6D0)) for _ in range(100)) for _ in range(100))
    due = START + timedelta(days=1)
    begun = RunStarted(Plan("p", ()), Brief("Tides"), START)
    log = one(
        [("coordinator", begun), ("coordinator", ApprovalRequested("Sign", new_draft(1, "x").ref, due, people, 1))]
    )
    async with view_of(log, anywhere) as views:
        (step,) = await list_due(views, due)
        assert (step.path, step.role) == ("Sign", "approver")
        (line,) = await steps_of(views, "01JQ")
        assert line.actor == people[0] + ", " + people[1][:98] + "…"


async def test_the_steps_of_a_run_stand_in_their_order_with_what_came_of_them(anywhere: StorageLocation) -> None:
    log = one(article_told())
    async with view_of(log[:-1], anywhere) as views:
        steps = await steps_of(views, "01JQ")
    assert [step.path for step in steps] == [
        "write",
        "Refinement[1]/judge",
        "Refinement[1]/improve",
        "Refinement[2]/judge",
        "Refinement[2]/improve",
        "Refinement[3]/judge",
        "save",
    ]
    assert {step.status for step in steps} == {"done"}
    assert [step.score for step in steps] == [None, 0.614, None, 0.8125, None, 0.931, None]
    assert [step.draft for step in steps] == [1, 1, 2, 2, 3, 3, 3]
    judge = steps[1]
    assert (judge.role, judge.actor, judge.attempt, judge.message) == ("critic", "judge", 1, "")
    assert (judge.due, judge.retry_at) == (START + 5 * MINUTE, None)
    requested = next(each for each in log if each.position == judge.position)
    assert judge.requested == requested.time
    assert judge.finished == log[judge.position].time


async def test_a_step_that_is_tried_again_waits_and_then_is_open_once_more(anywhere: StorageLocation) -> None:
    told = article_told()
    failed = next(n for n, (_, event) in enumerate(told) if isinstance(event, StepFailed))
    async with view_of(one(told[: failed + 1]), anywhere) as views:
        step = (await by_path(views))["Refinement[2]/improve"]
        assert (step.status, step.attempt, step.finished) == ("waiting", 1, None)
        assert (step.retry_at, step.message) == (START + MINUTE, "the model is busy (503)")
        assert step.cause == one(told)[failed].id
    async with view_of(one(told[: failed + 2]), anywhere) as views:
        step = (await by_path(views))["Refinement[2]/improve"]
        assert (step.status, step.attempt, step.retry_at, step.message) == ("open", 2, None, "")
        assert step.cause == one(told)[failed + 1].id


async def test_a_run_that_ends_takes_its_steps_with_it_whatever_came_of_them(anywhere: StorageLocation) -> None:
    log = one(contest_told())
    async with view_of(log[:-1], anywhere) as views:
        steps = await by_path(views)
        assert {path: step.status for path, step in steps.items()} == {
            "Ideas/quick": "done",
            "Ideas/slow": "open",
            "Ideas/broken": "failed",
            "judge": "waiting",
        }
        assert (steps["Ideas/broken"].attempt, steps["Ideas/broken"].message) == (2, "not a draft")
        assert steps["Ideas/broken"].finished == log[6].time
    async with view_of(log, anywhere) as views:
        assert await by_path(views) == {}
        assert await views.query("SELECT * FROM steps") == []


async def test_what_is_unanswered_when_its_loop_ends_is_abandoned_then(anywhere: StorageLocation) -> None:
    told = book_told(1)
    ended = next(n for n, (_, event) in enumerate(told) if isinstance(event, LoopEnded))
    silent = [each for n, each in enumerate(told[:ended]) if n != ended - 1]
    async with view_of(one(silent), anywhere) as views:
        assert (await steps_of(views, "01JQ"))[-1].status == "open"
    async with view_of(one([*silent, told[ended]]), anywhere) as views:
        assert (await steps_of(views, "01JQ"))[-1].status == "abandoned"


async def test_what_is_due_comes_longest_due_first(anywhere: StorageLocation) -> None:
    async with view_of(one(contest_told()[:-1])) as views:
        assert await list_due(views, START) == []
        assert await next_due(views) == START + 5 * MINUTE
        assert await list_due(views, START + 5 * MINUTE - timedelta(microseconds=1)) == []
        assert [step.path for step in await list_due(views, START + 5 * MINUTE)] == ["Ideas/slow"]
        found = await list_due(views, START + 60 * MINUTE)
        assert [(step.path, step.status) for step in found] == [("Ideas/slow", "open"), ("judge", "waiting")]
        assert await list_due(views, START + 60 * MINUTE, limit=1) == found[:1]
        assert len(found) > 1
        for number, each in enumerate(found):
            behind = (each.retry_at or each.due, each.run, each.path)
            assert await list_due(views, START + 60 * MINUTE, behind=behind) == found[number + 1 :]
        assert await count_overdue(views, START + 60 * MINUTE) == 1, "the retry is due this moment"
        assert await count_overdue(views, START + 61 * MINUTE) == 2
        assert await count_overdue(views, START) == 0


async def test_the_next_to_fall_due_after_a_time(anywhere: StorageLocation) -> None:
    async with view_of(one(contest_told()[:-1])) as views:
        assert await next_due(views, after=START + 5 * MINUTE) == START + 60 * MINUTE
        assert await next_due(views, after=START + 60 * MINUTE) is None


async def test_a_run_that_has_ended_is_never_due(anywhere: StorageLocation) -> None:
    async with view_of([*one(contest_told())]) as views:
        assert await next_due(views) is None
        assert await list_due(views, START + 9 * 60 * MINUTE) == []
        assert await count_overdue(views, START + 9 * 60 * MINUTE) == 0


async def test_what_is_to_be_tried_again_in_a_paused_run_is_not_due_until_that_is_resumed(
    anywhere: StorageLocation,
) -> None:
    late = START + 120 * MINUTE
    told = [*contest_told()[:-1], ("ann", RunPaused("ann"))]
    async with view_of(one(told), anywhere) as views:
        assert [step.path for step in await list_due(views, late)] == ["Ideas/slow"]
        assert await next_due(views) == START + 5 * MINUTE
    failed = StepFailed("Ideas/slow", 1, "timeout", "no answer", START + MINUTE)
    told.append(("coordinator", failed))
    async with view_of(one(told), anywhere) as views:
        assert await list_due(views, late) == []
        assert await next_due(views) is None
    async with view_of(one([*told, ("ann", RunResumed("ann"))]), anywhere) as views:
        assert [step.path for step in await list_due(views, late)] == ["Ideas/slow", "judge"]


async def test_what_a_panel_or_a_pass_went_on_without_is_not_due(anywhere: StorageLocation) -> None:
    asked = [("coordinator", StepRequested(f"Panel/{name}", "critic", name, 1, START)) for name in ("a", "b", "c")]
    begun: list[Told] = [("coordinator", RunStarted(Plan("p", ()), Brief("b"), START)), *asked]
    closed = ("coordinator", PanelClosed("Panel", 1, ("Panel/b", "Panel/c")))
    async with view_of(one([*begun, closed]), anywhere) as views:
        assert [step.path for step in await list_due(views, START)] == ["Panel/a"]
        assert (await by_path(views))["Panel/b"].status == "abandoned"
    async with view_of(one([*begun, closed, ("coordinator", IterationStarted("Loop", 2))]), anywhere) as views:
        assert await list_due(views, START) == []


async def test_a_run_is_due_when_its_wall_time_is_over_also_while_it_is_paused(anywhere: StorageLocation) -> None:
    plan = Plan("p", (), budget=Budget(seconds=3600))
    begun: list[Told] = [("coordinator", RunStarted(plan, Brief("b"), START)), ("ann", RunPaused("ann"))]
    async with view_of(one(begun), anywhere) as views:
        assert await next_due(views) == START + 60 * MINUTE
        (found,) = await list_due(views, START + 60 * MINUTE)
        assert (found.path, found.role, found.status, found.attempt) == ("", "clock", "limit", 1)
        assert await steps_of(views, "01JQ") == []
        assert await count_overdue(views, START + 90 * MINUTE) == 0


async def test_a_process_asks_for_its_own_runs_alone(anywhere: StorageLocation) -> None:
    late = START + 60 * MINUTE
    log = [
        replace(each, position=at)
        for at, each in enumerate([*one(contest_told()[:-1], "mine"), *one(contest_told()[:5], "theirs")], 1)
    ]
    async with view_of(log, anywhere) as views:
        assert {step.run for step in await list_due(views, late)} == {"mine", "theirs"}
        assert {step.run for step in await list_due(views, late, runs={"mine"})} == {"mine"}
        assert await list_due(views, late, runs=set()) == []
        assert await next_due(views, {"theirs"}) == START + timedelta(seconds=9)
        assert await next_due(views, {"mine"}) == START + 5 * MINUTE
        assert await next_due(views, set()) is None
        assert await count_overdue(views, late, {"theirs"}) == 3


async def test_what_is_due_is_found_by_an_index_not_by_looking_at_every_step() -> None:
    async with view_of(busy_log(20)) as views:
        plan = await views.query(
            f"EXPLAIN QUERY PLAN SELECT * FROM steps WHERE timer <= 1 AND {CAN_FALL_DUE} ORDER BY timer LIMIT 5"  # noqa: S608
        )
        assert "USING INDEX steps_i0" in str(plan[0][3])
        plan = await views.query(
            f"EXPLAIN QUERY PLAN SELECT timer FROM steps WHERE {CAN_FALL_DUE} AND timer > 1 ORDER BY timer LIMIT 1"  # noqa: S608
        )
        assert "steps_i0" in str(plan[0][3])


async def test_steps_of_a_run_that_is_not_known(anywhere: StorageLocation) -> None:
    async with view_of([], anywhere) as views:
        assert await steps_of(views, "nobody") == []


async def test_the_oldest_that_waits_in_a_queue_is_found_by_the_number_there(anywhere: StorageLocation) -> None:
    told: list[Told] = [("c", StepRequested(f"p{number}", "critic", "judge", 1, START)) for number in range(3)]
    log = [replace(each, time=START + each.version * MINUTE) for each in one(told)]
    async with view_of(log, anywhere) as views:
        found = [await oldest_waiting(views, ("critic", "judge"), waiting) for waiting in (1, 2, 3, 9)]
        assert await oldest_waiting(views, ("critic", "other"), 1) is None
    assert found == [START + 3 * MINUTE, START + 2 * MINUTE, START + MINUTE, START + MINUTE]
