"""Figures over many runs: issues, critics, and what it all cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from litestar import Response

from redraft.app.dashboard.drawing.graphs import Graph, Table, Value, bar_graph, line_graph
from redraft.app.dashboard.pages.operations import OverRuns
from redraft.app.dashboard.visit import Visits, page
from redraft.events.messages.scales import read_scale, score_text
from redraft.projections.read_models import agreement, costs
from redraft.projections.read_models.actor_work import ACTORS
from redraft.projections.read_models.costs import BUDGETS, BudgetLine, CostBy, CostLine
from redraft.projections.read_models.critiques import CRITIQUES, Critic, critics
from redraft.projections.read_models.issues import ISSUES, IssueCount, Recurring, issue_counts, recurring_issues
from redraft.projections.read_models.lessons import KnownLesson, known_lessons
from redraft.projections.read_models.runs_query import list_workflows

_DAYS: Final = 60
"""The maximum number of days in a chart."""

_LISTED: Final = 50
"""Rows of a table at most."""

_BUDGETS: Final = 15
_COMPARED: Final = 5
"""The maximum number of critics in a chart."""


class IssuesShown(msgspec.Struct, frozen=True):
    """The issues across runs, those counted by critic, and the lessons that they leave to later runs."""

    choice: OverRuns
    workflows: Sequence[str]
    issues: Sequence[Recurring]
    counts: Sequence[IssueCount]
    lessons: Sequence[KnownLesson]


@page("/issues")
async def list_issues(visit: Visits) -> Response[Any]:
    """Shows what critics asked for across runs: raised, fixed, come back, and the lessons of it."""
    choice = visit.query(OverRuns)

    async def make() -> IssuesShown:
        views = await visit.service.runtime.models.of(ISSUES)
        issues = await recurring_issues(views, choice.start, choice.workflow, _LISTED)
        counts = await issue_counts(views, choice.start, choice.workflow)
        lessons = await known_lessons(views, choice.workflow, _LISTED)
        return IssuesShown(choice, await list_workflows(visit.service.runtime.views), issues, counts, lessons)

    return await visit.show("issues", "Issues", make)


class CriticsShown(msgspec.Struct, frozen=True):
    """The critics: totals, how their scores are spread, their course, and how far they agree."""

    choice: OverRuns
    workflows: Sequence[str]
    critics: Sequence[Critic]
    spread: Sequence[Graph]
    drift: Graph
    pairs: Sequence[agreement.Agreement]
    people: Sequence[agreement.PeopleAgreement]


@page("/critics")
async def list_critics(visit: Visits) -> Response[Any]:
    """Shows how critics score: spread, agreement with each other and with people, drift."""
    choice = visit.query(OverRuns)

    async def make() -> CriticsShown:
        views = await visit.service.runtime.models.of(CRITIQUES)
        given = choice.start, choice.workflow
        spread = [
            bar_graph(f"spread-{at}", f"{each.critic}: {each.scores} scores", "score", [*_tenths(each)], _count)
            for at, each in enumerate(await agreement.distributions(views, *given))
        ]
        return CriticsShown(
            choice,
            await list_workflows(visit.service.runtime.views),
            await critics(views, *given),
            spread,
            _drift(await agreement.drift(views, *given)),
            await agreement.agreement(views, *given),
            await agreement.with_people(views, *given),
        )

    return await visit.show("critics", "Critics", make)


def _tenths(each: agreement.Distribution) -> Iterator[tuple[str, float]]:
    for at, count in enumerate(each.counts):
        yield f"{at / agreement.BINS:.1f}", count


def _drift(lines: Sequence[agreement.DayOfCritic]) -> Graph:
    """Returns the chart of the mean scores by day of those critics that scored most, and the numbers of all."""
    scores: dict[str, int] = {}
    for each in lines:
        scores[each.critic] = scores.get(each.critic, 0) + each.scores
    days = sorted({each.day for each in lines})[-_DAYS:]
    recent = [each for each in lines if each.day in set(days)]
    shown = sorted(sorted(scores, key=lambda name: -scores[name])[:_COMPARED])
    series = {
        name: [Value(each.day.timestamp(), each.mean) for each in recent if each.critic == name] for name in shown
    }
    graph = line_graph("drift", "Mean score by day", "day (UTC)", series, _day, lambda y: f"{y:.2f}", top=1.0)
    left_out = len(scores) - len(shown)
    told = f"{graph.description}. {left_out} more critics are in the numbers alone" if left_out else graph.description
    return msgspec.structs.replace(
        graph, description=told, numbers=_numbers(recent, sorted(scores), days), left_out=left_out
    )


def _numbers(lines: Sequence[agreement.DayOfCritic], critics: Sequence[str], days: Sequence[datetime]) -> Table:
    """Returns the mean scores by critic and day."""
    means = {(each.critic, each.day): score_text(each.mean, read_scale(each.scale)) for each in lines}
    head = "critic", *(_day(day.timestamp()) for day in days)
    return Table(head, tuple((name, *(means.get((name, day), "") for day in days)) for name in critics))


class CostChoice(OverRuns, frozen=True):
    """The query parameters of the page of costs."""

    by: CostBy = "actor"


class CostsShown(msgspec.Struct, frozen=True):
    """The costs of attempts: charts by day, sums by the chosen key, and the budgets of runs."""

    choice: CostChoice
    workflows: Sequence[str]
    graphs: Sequence[Graph]
    lines: Sequence[CostLine]
    budgets: Sequence[BudgetLine]


@page("/costs")
async def list_costs(visit: Visits) -> Response[Any]:
    """Shows cost, tokens and time, by run, actor, model or day, and how much of their budgets runs used."""
    choice = visit.query(CostChoice)

    async def make() -> CostsShown:
        models = visit.service.runtime.models
        views, given = await models.of(ACTORS), (choice.start, choice.workflow)
        days = await costs.costs(views, "day", *given, _DAYS)
        return CostsShown(
            choice,
            await list_workflows(visit.service.runtime.views),
            [*_by_day(days[::-1])],
            await costs.costs(views, choice.by, *given, _LISTED),
            await costs.budgets(await models.of(BUDGETS), *given, _BUDGETS),
        )

    return await visit.show("costs", "Costs", make)


def _by_day(days: Sequence[CostLine]) -> Iterator[Graph]:
    """Yields a chart for each quantity that was used on any of the days."""
    currencies = {each.currency for each in days if each.currency}
    unit = currencies.pop() if len(currencies) == 1 else ""
    names = [each.name[5:] for each in days]
    unit_of_time, seconds = _unit_for(max((each.seconds for each in days), default=0))
    for key, title, text, values in (
        ("cost", f"Cost by day{f', {unit}' if unit else ''}", _amount, [each.cost for each in days]),
        ("tokens", "Tokens by day", _count, [float(each.tokens) for each in days]),
        ("time", f"{unit_of_time} of work by day", _amount, [each.seconds / seconds for each in days]),
    ):
        if any(values):
            yield bar_graph(key, title, "day (UTC)", [*zip(names, values, strict=True)], text)


def _unit_for(seconds: float) -> tuple[str, int]:
    """Returns the unit in which a chart up to so many seconds is read best, and how many seconds it is."""
    return next((each for each in (("Hours", 3600), ("Minutes", 60)) if seconds >= 2 * each[1]), ("Seconds", 1))


def _count(value: float) -> str:
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {name}"
    return f"{value:g}"


def _amount(value: float) -> str:
    return _count(value) if value >= 10_000 else f"{value:,.4g}"


def _day(x: float) -> str:
    return f"{datetime.fromtimestamp(x, UTC):%m-%d}"


PAGES: Final = (list_issues, list_critics, list_costs)
