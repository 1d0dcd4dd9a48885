"""A run with times that no clock shows concerns itself alone: all others are listed, and fall due when they should."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import pytest
from msgspec.structs import replace
from tests.projections.logs import contest_told, view_of
from tests.streams import START, Told, recorded

from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import RunStarted, StepFailed, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Budget, Plan
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.read_models.costs import CostBy, costs
from redraft.projections.read_models.runs_query import RunFilter, find_run, list_runs, page_of_runs, spent_on
from redraft.projections.read_models.steps import (
    list_asked_actors,
    list_due,
    list_unanswered,
    list_unserved,
    next_due,
    oldest_waiting,
    steps_of,
)

LAST = datetime.max.replace(tzinfo=UTC)
STRANGE = [
    LAST,
    datetime.min.replace(tzinfo=UTC),
    LAST.replace(tzinfo=timezone(timedelta(hours=-12))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
]
HOUR = timedelta(hours=1)


def strange(run: str, at: datetime) -> list[Recorded]:
    """A run all of whose times are this one: it asks for a draft, and waits to ask for another one again."""
    plan = Plan("p", (), budget=Budget(seconds=3600))
    told: list[Told] = [
        ("coordinator", RunStarted(plan, Brief("b"), at)),
        ("coordinator", StepRequested("a", "generator", "quick", 1, at)),
        ("coordinator", StepRequested("b", "generator", "quick", 1, at)),
        ("quick", StepFailed("b", 1, "error", "no", retry_at=at)),
    ]
    return [replace(each, time=at) for each in recorded(run, told)]


def beside_others(at: datetime) -> list[Recorded]:
    own: list[Told] = [
        ("coordinator", RunStarted(Plan("p", ()), Brief("b"), START)),
        ("coordinator", StepRequested("a", "generator", "quick", 1, START + HOUR)),
    ]
    log = [*strange("bad", at), *recorded("good", own), *strange("worse", at), *recorded("other", contest_told())]
    return [replace(each, position=position) for position, each in enumerate(log, 1)]


@pytest.mark.parametrize("at", STRANGE)
async def test_every_run_is_listed_and_found(at: datetime, anywhere: StorageLocation) -> None:
    async with view_of(beside_others(at), anywhere) as views:
        assert {line.run for line in await list_runs(views)} == {"bad", "good", "worse", "other"}
        assert (await find_run(views, "bad")).status == "running"
        assert not await views.aside()
        last, pages = None, []
        while page := await page_of_runs(views, RunFilter(), 1, last):
            pages.append(page[0].run)
            last = page[0]
        assert sorted(pages) == ["bad", "good", "other", "worse"]
        assert (await spent_on(views, "p", at)).calls == 0


@pytest.mark.parametrize("at", STRANGE)
async def test_requests_of_other_runs_are_found_and_fall_due(at: datetime, anywhere: StorageLocation) -> None:
    actor = ("generator", "quick")
    async with view_of(beside_others(at), anywhere) as views:
        due = await list_due(views, START + 2 * HOUR)
        assert ("good", "a") in {(line.run, line.path) for line in due}
        last, found = None, []
        while page := await list_due(views, LAST, 1, behind=last):
            found.append((page[0].run, page[0].path))
            timer = page[0].retry_at if page[0].status == "waiting" else page[0].due
            assert timer is not None
            last = timer, page[0].run, page[0].path
        ours = [("bad", ""), ("bad", "a"), ("bad", "b"), ("good", "a"), ("worse", ""), ("worse", "a"), ("worse", "b")]
        assert sorted(found) == ours
        assert await next_due(views, after=START) == START + HOUR
        await next_due(views, after=START + 2 * HOUR)
        assert actor in await list_asked_actors(views)
        assert {line.run for line in await list_unanswered(views, actor, 100)} >= {"good", "bad"}
        unserved = await list_unserved(views, actor, START + HOUR, 3600.0, 600.0)
        assert "good" in {line.run for line in unserved}
        await oldest_waiting(views, actor, 1)
        assert [step.path for step in await steps_of(views, "bad")] == ["a", "b"]


@pytest.mark.parametrize("at", STRANGE)
async def test_costs_are_summed_by_day_beside_it(at: datetime, anywhere: StorageLocation) -> None:
    async with view_of(beside_others(at), anywhere) as views:
        for key in get_args(CostBy):
            await costs(views, key)
