"""Cost, tokens and time by run, actor, model or day; and the used parts of budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.events.messages.domain_events import BudgetReached, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Budget
from redraft.projections.engine.projection import (
    Change,
    Delete,
    Projection,
    Put,
    Row,
    Set,
    Table,
    Value,
    moment,
    seconds,
    unchanged,
)
from redraft.projections.engine.storage import Cells, row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.actor_work import NOT_ASKED
from redraft.projections.read_models.runs import day_of, select_runs

CostBy: TypeAlias = Literal["run", "actor", "model", "day"]
"""The key by which costs are summed. A step that used no model has an empty model name."""

BUDGETS_TABLE: Final = Table(
    "budgets",
    {
        "run": "TEXT NOT NULL",
        "quantity": "TEXT NOT NULL",
        "daily": "INTEGER NOT NULL",
        "limited": "REAL NOT NULL",
        "reached": "INTEGER NOT NULL",
        "used": "REAL",
        "time": "REAL NOT NULL",
    },
    key=3,
)
"""One row for each limit of a run's plan. `used` is what was used when it was reached, of a day if it is `daily`."""


class CostLine(msgspec.Struct, frozen=True):
    """The cost of the attempts of a run, an actor (`critic judge`), a model, or a day (`2026-01-03`, UTC).

    `seconds` is the time from request to answer of those that are done, `failed` counts those that failed. `currency`
    is `mixed` when they differ; `unpriced` are the calls without a known price, which `cost` leaves out.
    """

    name: str
    attempts: int
    failed: int
    runs: int
    calls: int
    tokens: int
    cost: float
    currency: str
    unpriced: int
    seconds: float


class BudgetLine(msgspec.Struct, frozen=True):
    """A limit of a run: of its own, or (`daily`) of all runs of its workflow that began on its day.

    `used` is what the run has used of it, in time until now or its end; of a `daily` one only what was used when it was
    reached, else None. `reached` says that it ended the run.
    """

    run: str
    workflow: str
    quantity: str
    daily: bool
    limit: float
    used: float | None
    reached: bool
    started: datetime


def project_budgets(recorded: Recorded) -> Sequence[Change]:
    """Returns the rows of a plan's limits, and the change when one is reached."""
    run, time = recorded.run, seconds(recorded.time)
    match recorded.data:
        case RunStarted(plan=plan):
            limits = (*_limits(plan.budget, 0), *_limits(plan.daily, 1))
            rows = [_row(run, quantity, daily, limit, time) for quantity, daily, limit in limits]
            return (Delete("budgets", (run,)), *(Put("budgets", row) for row in rows))
        case BudgetReached() as event:
            daily = int(event.daily)
            new = _row(run, event.quantity, daily, event.limit, time)
            values: Row = {"reached": 1, "used": event.used, "time": time}
            return (Set("budgets", (run, event.quantity, daily), values, new=new),)
        case _:
            return ()


BUDGETS: Final = Projection(
    "budgets", 1, (BUDGETS_TABLE,), project_budgets, unchanged, only=(RunStarted, BudgetReached)
)
"""The projection that keeps the limits of runs."""


def _limits(budget: Budget | None, daily: int) -> Iterator[tuple[str, int, float]]:
    for quantity, limit in (msgspec.structs.asdict(budget) if budget else {}).items():
        if limit is not None:
            yield quantity, daily, float(limit)


def _row(run: str, quantity: str, daily: int, limit: float, time: float) -> Row:
    own: Row = {"run": run, "quantity": quantity, "daily": daily, "limited": limit}
    return own | {"reached": 0, "used": None, "time": time}


async def costs(
    views: Views, by: CostBy, since: datetime | None = None, workflow: str = "", limit: int = 200
) -> list[CostLine]:
    """Returns at most `limit` sums over the attempts that were asked for since a time, of a workflow's runs or of all.

    Those that cost most come first, then those that took the most tokens and time; days are in order, the last first.
    `views` are those of `ACTORS`; `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("requested", since, workflow)
    where = f"{where} AND result NOT IN {NOT_ASKED}"
    names = {"run": "run", "actor": "role || ' ' || actor", "model": "model", "day": day_of("requested")}
    order = "name DESC" if by == "day" else "sum(cost) DESC, sum(tokens) DESC, took DESC, name"
    sql = f"""
        SELECT {names[by]} AS name, count(*),
            sum(CASE WHEN result NOT IN ('open', 'done', 'dropped') THEN 1 ELSE 0 END),
            count(DISTINCT run), CAST(sum(calls) AS BIGINT), CAST(sum(tokens) AS BIGINT), sum(cost),
            CASE WHEN min(NULLIF(currency, '')) = max(currency) THEN max(currency)
                WHEN max(currency) = '' THEN '' ELSE 'mixed' END,
            CAST(sum(unpriced) AS BIGINT),
            coalesce(sum(CASE WHEN result = 'done' THEN finished - requested END), 0) AS took
        FROM work WHERE {where} GROUP BY name ORDER BY {order} LIMIT :limit
    """  # noqa: S608 - made of what stands there
    decode = _day_line if by == "day" else row_decoder(CostLine)
    return await views.read(decode, sql, {**given, "limit": limit})


def _day_line(cells: Cells) -> CostLine:
    return row_decoder(CostLine)((f"{moment(cells[0]):%Y-%m-%d}", *cells[1:]))


async def budgets(
    views: Views, since: datetime | None = None, workflow: str = "", limit: int = 200
) -> list[BudgetLine]:
    """Returns at most `limit` limits of runs that began since a time: reached ones first, then the most used.

    It needs `RUNS` in the same storage.
    """
    spent = (
        "CASE quantity WHEN 'tokens' THEN tokens WHEN 'cost' THEN cost WHEN 'calls' THEN calls "
        "ELSE coalesce(ended, updated) - started END"
    )
    sql = f"""
        SELECT runs.run, workflow, quantity, daily, limited, CASE WHEN daily = 1 THEN used ELSE {spent} END AS spent,
            reached, started
        FROM budgets JOIN runs ON runs.run = budgets.run
        WHERE started >= :since AND (:workflow = '' OR workflow = :workflow)
        ORDER BY reached DESC, coalesce(CASE WHEN daily = 1 THEN used ELSE {spent} END / NULLIF(limited, 0), 0) DESC,
            started DESC, runs.run, quantity LIMIT :limit
    """  # noqa: S608 - made of what stands there
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "workflow": workflow, "limit": limit}
    return await views.read(row_decoder(BudgetLine, "started"), sql, given)
