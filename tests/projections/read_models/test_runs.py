"""The list of runs: what each kind of run looks like in it, and how runs are found."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.projections.logs import busy_log, contest_told, view_of
from tests.streams import START, Told, article_told, book_told, recorded

from redraft.events.errors import InputError, NoSuchRun
from redraft.events.messages.content import Brief, Critique, Draft, DraftRef, digest, new_draft
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DomainEvent,
    DraftApproved,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftRejected,
    IterationStarted,
    LoopEnded,
    Parent,
    RunEnded,
    RunPaused,
    RunResumed,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan
from redraft.events.messages.usage import Usage
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.read_models.runs_query import (
    RunFilter,
    RunLine,
    RunStatus,
    count_runs,
    find_run,
    first_position,
    list_runs,
    page_of_runs,
)


def one(told: list[Told], run: str = "01JQ") -> list[Recorded]:
    return [replace(each, position=each.version) for each in recorded(run, told)]


async def line_of(told: list[Told]) -> RunLine:
    async with view_of(one(told)) as views:
        (line,) = await list_runs(views)
        return line


async def test_an_accepted_run() -> None:
    log = one(article_told())
    line = await line_of(article_told())
    last = log[-1]
    assert isinstance(last.data, RunEnded)
    assert line == RunLine(
        run="01JQ",
        workflow="article",
        status="ended",
        outcome="accepted",
        reason=last.data.reason,
        brief="Why tides exist",
        source="essay.md",
        tags=(),
        parent=None,
        started=log[0].time,
        updated=last.time,
        ended=last.time,
        iterations=3,
        score=0.931,
        best=0.931,
        draft=last.data.draft,
        steps=7,
        failures=1,
        calls=0,
        unpriced=0,
        tokens=0,
        cost=0.0,
        currency="",
        step="",
        began=1,
        position=len(log),
        version=len(log),
    )


async def test_a_run_in_the_middle_shows_its_newest_draft_and_latest_score() -> None:
    told = article_told()
    until = next(n for n, (_, event) in enumerate(told) if isinstance(event, StepRequested) and event.attempt == 2)
    line = await line_of(told[:until])
    assert (line.status, line.outcome, line.reason, line.ended) == ("running", None, "", None)
    assert (line.iterations, line.steps, line.failures) == (2, 4, 1)
    assert (line.score, line.best) == (0.8125, 0.8125)
    assert line.draft is not None
    assert line.draft.version == 2


async def test_only_the_passes_of_outermost_loops_count() -> None:
    assert (await line_of(book_told(3)[:-1])).iterations == 3
    assert (await line_of(book_told(3))).iterations == 3


async def test_critics_side_by_side_give_the_score_that_they_gave_together() -> None:
    told = book_told(1)
    judged = [n for n, (_, event) in enumerate(told) if isinstance(event, DraftCritiqued)]
    assert (await line_of(told[: judged[1] + 1])).score is None
    line = await line_of(told)
    assert (line.score, line.best) == (0.75, 0.75)


async def test_the_best_stays_when_a_later_draft_is_worse() -> None:
    drafts = [new_draft(number, f"draft {number}") for number in (1, 2)]
    due = START + timedelta(minutes=5)
    told: list[Told] = [
        ("coordinator", RunStarted(Plan("article", ()), Brief("Tides"), START)),
        ("write", DraftGenerated("write", 1, drafts[0])),
        ("coordinator", IterationStarted("Loop", 1)),
        ("judge", DraftCritiqued("Loop[1]/judge", 1, drafts[0].ref, Critique(0.8))),
        ("coordinator", StepRequested("Loop[1]/improve", "refiner", "improve", 1, due, drafts[0].ref, (4,), 0.8)),
        ("judge", DraftCritiqued("Loop[2]/judge", 1, drafts[1].ref, Critique(0.3))),
        ("coordinator", StepRequested("Loop[2]/improve", "refiner", "improve", 1, due, drafts[0].ref, (4,), 0.8)),
        ("coordinator", LoopEnded("Loop", "exhausted", "2 passes", 2, drafts[0].ref, 0.8)),
    ]
    line = await line_of(told[:-1])
    assert (line.score, line.best) == (0.3, 0.8)
    line = await line_of(told)
    assert (line.score, line.best, line.draft) == (0.8, 0.8, drafts[0].ref)


async def test_a_loop_that_no_draft_leaves_takes_none_from_the_run() -> None:
    told: list[Told] = [*contest_told()[:1], ("coordinator", LoopEnded("Loop", "failed", "no", 1, DraftRef(0, "")))]
    assert (await line_of(told)).draft is None


async def test_a_run_that_ends_without_a_draft() -> None:
    line = await line_of([*contest_told()[:4], contest_told()[-1]])
    assert (line.status, line.outcome, line.reason) == ("ended", "cancelled", "cancelled by ann")
    assert (line.draft, line.score, line.best, line.failures) == (None, None, None, 0)


ASKED = [
    ("coordinator", RunStarted(Plan("article", ()), Brief("Tides"), START)),
    ("write", DraftGenerated("write", 1, new_draft(1, "draft"))),
    ("coordinator", ApprovalRequested("approve", new_draft(1, "draft").ref, START + timedelta(days=1))),
]
REF = new_draft(1, "draft").ref


@pytest.mark.parametrize(
    ("then", "status"),
    [
        ([], "waiting"),
        ([DraftApproved("approve", REF, "ann")], "waiting"),
        ([DraftApproved("approve", REF, "ann", granted=True)], "running"),
        ([DraftRejected("approve", REF, "ann")], "running"),
        ([ApprovalExpired("approve", REF, "reject")], "running"),
        ([DraftEdited(new_draft(2, "mine"), REF, "ann")], "running"),
        ([RunPaused("ann", "")], "paused"),
        ([RunPaused("ann", ""), RunResumed("ann", "")], "waiting"),
        ([RunPaused("ann", ""), DraftRejected("approve", REF, "ann")], "paused"),
        ([RunPaused("ann", ""), DraftRejected("approve", REF, "ann"), RunResumed("ann", "")], "running"),
        ([RunEnded("rejected", "no", 0)], "ended"),
    ],
)
async def test_a_run_that_people_have_to_decide_on_waits(
    anywhere: StorageLocation, then: list[DomainEvent], status: RunStatus
) -> None:
    log = one([*ASKED, *(("ann", event) for event in then)])
    async with view_of(log, anywhere) as views:
        assert [line.status for line in await list_runs(views)] == [status]
        assert len(await list_runs(views, status=status)) == 1
        assert status == "running" or await list_runs(views, status="running") == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\n\n  Name the ship\nand be brief", "Name the ship"),
        ("one\ttab and \x1b[31mred\x07", "one tab and [31mred"),
        ("word " * 100, "word " * 23 + "word…"),
        ("x" * 120, "x" * 120),
        ("x" * 121, "x" * 119 + "…"),
    ],
)
async def test_a_brief_is_shown_by_its_first_line(text: str, shown: str) -> None:
    line = await line_of([("coordinator", RunStarted(Plan("article", ()), Brief(text), START))])
    assert line.brief == shown


async def test_the_list_is_newest_first_and_filtered(anywhere: StorageLocation) -> None:
    log = [replace(each, time=each.time + timedelta(hours=int(each.run[4:]))) for each in busy_log(12, cut=False)]
    async with view_of(log, anywhere) as views:
        everything = await list_runs(views)
        assert [line.run for line in everything] == [f"01JQ{number:06d}" for number in reversed(range(12))]
        assert await list_runs(views, limit=5) == everything[:5]
        assert await list_runs(views, workflow="book") == [line for line in everything if line.workflow == "book"]
        assert {line.outcome for line in await list_runs(views, outcome="cancelled")} == {"cancelled"}
        assert await list_runs(views, since=everything[3].started) == everything[:4]
        assert await list_runs(views, status="running") == []
        assert len(await list_runs(views, status="ended", outcome="accepted", workflow="article", limit=3)) == 3
        assert await list_runs(views, workflow="article' OR 1") == []
        with pytest.raises(InputError, match="give at least 1"):
            await list_runs(views, limit=0)


async def test_runs_are_counted_and_come_in_pages_one_after_the_other(anywhere: StorageLocation) -> None:
    log = [replace(each, time=each.time + timedelta(hours=int(each.run[4:]))) for each in busy_log(12, cut=False)]
    async with view_of(log, anywhere) as views:
        everything = await list_runs(views)
        for chosen in (RunFilter(), RunFilter(workflow="book"), RunFilter(since=everything[8].started)):
            found = await page_of_runs(views, chosen, 50)
            assert len(found) == await count_runs(views, chosen) > 2
            first = await page_of_runs(views, chosen, 2)
            assert (first, await page_of_runs(views, chosen, 50, after=first[-1])) == (found[:2], found[2:])
        between = RunFilter(since=everything[8].started, until=everything[3].started)
        assert await page_of_runs(views, between, 50) == everything[4:9]
        assert await page_of_runs(views, RunFilter(), 5, after=everything[-1]) == []


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (RunFilter(text="TIDES"), "20"),
        (RunFilter(text="essay.md"), "1"),
        (RunFilter(text="100 %"), "2"),
        (RunFilter(text="tides%"), ""),
        (RunFilter(text="tides", workflow="book"), ""),
        (RunFilter(text="Prüfung"), "1"),
        (RunFilter(min_cost=0.5), "10"),
        (RunFilter(min_cost=2.0), "1"),
        (RunFilter(min_cost=0.5, text="tides"), "0"),
    ],
)
async def test_runs_are_found_by_their_text_and_their_cost(
    chosen: RunFilter, found: str, anywhere: StorageLocation
) -> None:
    briefs = (
        Brief("Why tides exist"),
        Brief("Die Prüfung", source="notes/essay.md"),
        Brief("Tides at 100 %\nand more"),
    )
    paid = (Usage(cost=0.5, calls=1, currency="USD"), Usage(cost=2.5, calls=1, currency="USD"), Usage())
    log: list[Recorded] = []
    for number, (brief, usage) in enumerate(zip(briefs, paid, strict=True)):
        answered = DraftGenerated("write", 1, Draft(1, "text", digest("text"), "text/plain"), usage=usage)
        told = [("c", RunStarted(Plan("article", ()), brief, START)), ("w", answered)]
        log += [replace(each, position=len(log) + each.version) for each in recorded(f"01JQ{number}", told)]
    async with view_of(log, anywhere) as views:
        assert "".join(line.run[-1] for line in await page_of_runs(views, chosen, 9)) == found
        assert await count_runs(views, chosen) == len(found)


async def test_a_run_that_goes_on_says_at_which_step_it_is() -> None:
    told = article_told()
    at = [(await line_of(told[:count])).step for count in range(1, len(told) + 1)]
    asked = [event.path for _, event in told if isinstance(event, StepRequested)]
    assert list(dict.fromkeys(each for each in at if each)) == list(dict.fromkeys(asked))
    assert (at[0], at[-1]) == ("", "")


async def test_runs_are_found_by_their_tags_and_a_fork_names_its_parent(anywhere: StorageLocation) -> None:
    given = [("spring",), ("spring_2", "Spring"), (), ("late", "spring")]
    starts = [RunStarted(Plan("article", ()), Brief("b"), START, tags=tags) for tags in given]
    starts[3] = replace(starts[3], parent=Parent("01JQ0", 7))
    log = [
        replace(recorded(f"01JQ{number}", [("c", start)])[0], position=number + 1)
        for number, start in enumerate(starts)
    ]
    async with view_of(log, anywhere) as views:
        assert [line.tags for line in await list_runs(views)] == list(reversed(given))
        assert [line.parent for line in await list_runs(views)] == [Parent("01JQ0", 7), None, None, None]
        for tag, found in {"spring": "30", "Spring": "1", "spring_2": "1", "spring%": "", "pring": "", "": ""}.items():
            assert "".join(line.run[-1] for line in await list_runs(views, tag=tag)) == found


async def test_a_run_is_found_by_what_a_person_would_type(anywhere: StorageLocation) -> None:
    log = [*one(article_told(), "01JQAA-first"), *one(article_told(), "01JQAB-other"), *one(article_told(), "01JQAB")]
    log = [replace(each, position=at, time=each.time + timedelta(seconds=at)) for at, each in enumerate(log, 1)]
    async with view_of(log, anywhere) as views:
        found = {text: (await find_run(views, text)).run for text in ("01JQAA", "first", "01JQAB", "01JQAB-", "last")}
        assert found == {
            "01JQAA": "01JQAA-first",
            "first": "01JQAA-first",
            "01JQAB": "01JQAB",
            "01JQAB-": "01JQAB-other",
            "last": "01JQAB",
        }
        with pytest.raises(InputError, match=r"'01JQA' may be any of 01JQAB \(article\), 01JQAB-other \(article\), 01"):
            await find_run(views, "01JQA")
        with pytest.raises(InputError, match="no run is named"):
            await find_run(views, "")
        for text in ("nothing", "%", "_", "01JQAA-FIRST", "*"):
            with pytest.raises(NoSuchRun, match="redraft list"):
                await find_run(views, text)


async def test_of_very_many_that_fit_a_few_are_named(anywhere: StorageLocation) -> None:
    async with view_of(busy_log(30), anywhere) as views:
        with pytest.raises(InputError, match="…; give more of its id") as raised:
            await find_run(views, "01JQ")
        assert str(raised.value).count("01JQ0") == 5


async def test_there_is_no_last_run_in_an_empty_log(anywhere: StorageLocation) -> None:
    async with view_of([], anywhere) as views:
        assert await list_runs(views) == []
        with pytest.raises(NoSuchRun):
            await find_run(views, "last")


async def test_what_was_recorded_since_a_time_is_not_before_the_first_position(anywhere: StorageLocation) -> None:
    log = busy_log(12)
    async with view_of(log, anywhere) as views:
        for since in (START, *(each.time for each in log[::25])):
            first = await first_position(views, since)
            assert first == min(
                min(each.position for each in log if each.run == run)
                for run in {each.run for each in log if each.time >= since}
            )
        assert await first_position(views, START + timedelta(days=1)) is None


async def test_what_a_fork_repeats_is_not_work_of_its_own() -> None:
    parent = one(article_told())
    fork = [replace(each, run="fork", repeats=each.id if 1 < each.version < 14 else "") for each in parent]
    async with view_of(fork) as views:
        (line,) = await list_runs(views)
    assert (line.steps, line.failures, line.iterations, line.score) == (3, 0, 3, 0.931)
