"""Figures over many runs say what happened, in SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from tests.projections.logs import view_of
from tests.streams import START, Told, recorded

from redraft.events.messages.content import Brief, Critique, new_draft
from redraft.events.messages.domain_events import (
    BudgetReached,
    DraftApproved,
    DraftCritiqued,
    DraftRejected,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Budget, Plan, Role, Step
from redraft.events.messages.usage import Usage
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.read_models.agreement import agreement, distributions, drift, with_people
from redraft.projections.read_models.costs import budgets, costs
from redraft.projections.read_models.issues import recurring_issues

PLAN = Plan("plan", (Step("generator", "write", "write"),))
DRAFTS = [new_draft(at, f"Text {at}.") for at in range(1, 4)]
MIDNIGHT = datetime(2026, 1, 3, tzinfo=UTC)


def log_of(*runs: Sequence[Recorded]) -> list[Recorded]:
    return [replace(each, position=at) for at, each in enumerate((e for run in runs for e in run), 1)]


def begin(plan: Plan = PLAN) -> Told:
    return ("coordinator", RunStarted(plan, Brief("x"), START))


def scored(critic: str, draft: int, score: float, *, approved: bool | None = None) -> Told:
    said = Critique(score, critic=critic, approved=approved, scale=(1, 10) if critic == "strict" else None)
    return (critic, DraftCritiqued(critic, 1, DRAFTS[draft - 1].ref, said))


def scores(run: str, strict: Sequence[float], kind: Sequence[float]) -> Sequence[Recorded]:
    told = [begin()]
    for at, (one, other) in enumerate(zip(strict, kind, strict=True), 1):
        told += [scored("strict", at, one), scored("kind", at, other)]
    return recorded(run, told)


async def test_scores_are_counted_in_tenths(anywhere: StorageLocation) -> None:
    verdict = recorded("three", [begin(), scored("strict", 1, 0.0)])
    async with view_of(log_of(scores("one", (0.05, 0.1, 0.95), (1.0, 1.0, 0.35)), verdict), anywhere) as views:
        kind, strict = await distributions(views)
        assert (kind.critic, kind.scores, kind.counts) == ("kind", 3, (0, 0, 0, 1, 0, 0, 0, 0, 0, 2))
        assert (strict.critic, strict.scores, strict.counts) == ("strict", 4, (2, 1, 0, 0, 0, 0, 0, 0, 0, 1))
        assert await distributions(views, workflow="other") == []


async def test_days_begin_at_midnight_utc_to_the_microsecond(anywhere: StorageLocation) -> None:
    events = scores("one", (0.2, 0.4, 0.6), (0.5, 0.5, 0.5))
    gap = timedelta(microseconds=1)
    moments = {"strict": iter((MIDNIGHT - gap, MIDNIGHT, MIDNIGHT + timedelta(days=1, seconds=-0.4)))}
    moved = [replace(each, time=next(moments[each.actor])) if each.actor in moments else each for each in events]
    async with view_of(log_of(moved), anywhere) as views:
        found = [(each.day, each.scores, each.mean) for each in await drift(views) if each.critic == "strict"]
    assert found == [(MIDNIGHT - timedelta(days=1), 1, 0.2), (MIDNIGHT, 2, 0.5)]


async def test_critics_are_compared_on_the_drafts_that_both_scored(anywhere: StorageLocation) -> None:
    log = log_of(scores("one", (0.2, 0.4, 0.6), (0.4, 0.6, 0.8)), scores("two", (0.5,), (0.7,)))
    async with view_of(log, anywhere) as views:
        (found,) = await agreement(views)
        assert (found.critic, found.other, found.drafts) == ("kind", "strict", 4)
        assert round(found.difference, 9) == 0.2
        assert round(found.correlation or 0, 9) == 1.0
    async with view_of(log_of(scores("one", (0.5, 0.5), (0.4, 0.6))), anywhere) as views:
        assert [each.correlation for each in await agreement(views)] == [None]


async def test_critics_are_compared_with_people(anywhere: StorageLocation) -> None:
    one, two, _ = DRAFTS
    told = [
        begin(),
        scored("strict", 1, 0.2, approved=False),
        ("ann", DraftRejected("Approve", one.ref, "ann")),
        scored("strict", 2, 0.6, approved=False),
        scored("kind", 2, 0.9),
        ("ann", DraftApproved("Approve", two.ref, "ann", granted=True)),
    ]
    forked = [replace(each, run="fork", repeats=each.id) for each in recorded("one", told)]
    async with view_of(log_of(recorded("one", told), forked), anywhere) as views:
        kind, strict = await with_people(views)
        assert (kind.approved, kind.mean_approved, kind.rejected, kind.mean_rejected) == (1, 0.9, 0, None)
        assert (kind.same, kind.other) == (0, 0)
        assert (strict.approved, strict.rejected, strict.mean_rejected, strict.same, strict.other) == (1, 1, 0.2, 1, 1)
        assert (kind.scale, strict.scale) == (None, "1..10")
        assert await with_people(views, START + timedelta(days=1)) == []


def work(run: str, cost: float, model: str, plan: Plan = PLAN) -> Sequence[Recorded]:
    usage = Usage(tokens=100, cost=cost, calls=2, currency="USD", model=model)

    def asked(role: Role, name: str, attempt: int = 1) -> Told:
        return ("coordinator", StepRequested(name, role, name, attempt, START, DRAFTS[0].ref))

    told = [begin(plan), asked("critic", "judge"), ("judge", StepFailed("judge", 1, "error", "no", START, Usage()))]
    told += [asked("critic", "judge", 2), ("judge", DraftCritiqued("judge", 2, DRAFTS[0].ref, Critique(0.5), usage))]
    return recorded(run, [*told, asked("publisher", "save")])


async def test_costs_are_summed_by_run_actor_model_and_day(anywhere: StorageLocation) -> None:
    async with view_of(log_of(work("one", 1.0, "small"), work("two", 2.0, "large")), anywhere) as views:
        by_run = await costs(views, "run")
        assert [(each.name, each.cost, each.tokens, each.calls, each.failed) for each in by_run] == [
            ("two", 2.0, 100, 2, 1),
            ("one", 1.0, 100, 2, 1),
        ]
        judge, save = await costs(views, "actor")
        assert (judge.name, judge.attempts, judge.runs, judge.cost) == ("critic judge", 4, 2, 3.0)
        assert (save.name, save.cost, save.currency, save.seconds) == ("publisher save", 0, "", 0)
        assert [each.name for each in await costs(views, "model")] == ["large", "small", ""]
        (day,) = await costs(views, "day")
        assert (day.name, day.runs, day.cost, day.currency) == (f"{START:%Y-%m-%d}", 2, 3.0, "USD")
        assert len(await costs(views, "run", limit=1)) == 1
        assert await costs(views, "day", START + timedelta(days=1)) == []


async def test_budgets_are_told_with_what_is_used_of_them(anywhere: StorageLocation) -> None:
    plan = replace(PLAN, budget=Budget(tokens=1_000, cost=1.5), daily=Budget(cost=10.0))
    over = [*work("two", 2.0, "m", plan)]
    reached = recorded("two", [begin(), ("coordinator", BudgetReached("cost", 1.5, 2.0))])[1]
    over.append(replace(reached, version=len(over) + 1))
    async with view_of(log_of(work("one", 1.0, "m", plan), over, work("none", 1.0, "m")), anywhere) as views:
        found = [(each.run, each.quantity, each.daily, each.used, each.reached) for each in await budgets(views)]
    assert found[:2] == [("two", "cost", False, 2.0, True), ("one", "cost", False, 1.0, False)]
    assert ("one", "tokens", False, 100, False) in found
    assert ("one", "cost", True, None, False) in found
    assert len(found) == 6


async def test_issues_are_told_across_runs(anywhere: StorageLocation) -> None:
    def run(name: str, *listed: Sequence[str]) -> Sequence[Recorded]:
        drafts = zip(DRAFTS, listed, strict=False)
        told = [
            ("judge", DraftCritiqued("Loop[1]/judge", 1, draft.ref, Critique(0.5, suggestions=tuple(texts))))
            for draft, texts in drafts
        ]
        return recorded(name, [begin(), *told])

    log = log_of(run("one", ["Too long."], [], ["too long"]), run("two", ["Too long", "Dull"], []))
    async with view_of(log, anywhere) as views:
        long, dull = await recurring_issues(views)
        assert (long.text.casefold().rstrip("."), long.runs, long.fixed, long.open, long.returned) == (
            "too long",
            2,
            1,
            1,
            1,
        )
        assert (dull.runs, dull.fixed, dull.open, dull.returned) == (1, 1, 0, 0)
        assert [each.text for each in await recurring_issues(views, limit=1)] == [long.text]
