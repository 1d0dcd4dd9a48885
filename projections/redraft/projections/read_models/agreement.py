"""Statistics of critics: distribution and daily mean of scores, agreement with each other and with people."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.messages.domain_events import DraftApproved, DraftRejected
from redraft.events.messages.envelope import Recorded
from redraft.projections.engine.projection import Put, Row, Table, seconds
from redraft.projections.engine.storage import Cells, row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs import ONE_SCALE, day_of, select_runs

DECISIONS: Final = Table(
    "decisions",
    {
        "run": "TEXT NOT NULL",
        "version": "INTEGER NOT NULL",
        "draft": "INTEGER NOT NULL",
        "approved": "INTEGER NOT NULL",
        "repeated": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
    },
    key=2,
)
"""One row for each decision of a person about a draft; `repeated` is 1 where a fork repeats it from its parent."""

BINS: Final = 10
"""The number of bins of equal width for scores from 0 to 1."""

_PAIR: Final = """
    FROM critiques AS a JOIN critiques AS b ON b.run = a.run AND b.draft = a.draft AND b.critic > a.critic
    WHERE a.repeated = 0 AND b.repeated = 0 AND a.score IS NOT NULL AND b.score IS NOT NULL AND a.run IN
"""


class Distribution(msgspec.Struct, frozen=True):
    """The number of a critic's scores in each tenth of 0..1; the last tenth includes 1.0."""

    critic: str
    scores: int
    counts: tuple[int, ...]


class DayOfCritic(msgspec.Struct, frozen=True):
    """The scores of a critic on a day (UTC): how many, and their mean (0..1), shown on `scale` if they have one."""

    critic: str
    day: datetime
    scores: int
    mean: float
    scale: str | None


class Agreement(msgspec.Struct, frozen=True):
    """Two critics that scored the same drafts: how often, how far apart (0..1), and how far they rise together.

    `correlation` is Pearson's, -1..1; None where one of them gave the same score always.
    """

    critic: str
    other: str
    drafts: int
    difference: float
    correlation: float | None


class PeopleAgreement(msgspec.Struct, frozen=True):
    """A critic and people about the same drafts: its mean score of those that people approved, and rejected.

    `same` and `other` count its verdicts that were as theirs, and that were not. Means are 0..1, shown on `scale` if
    the critic declares one.
    """

    critic: str
    approved: int
    mean_approved: float | None
    rejected: int
    mean_rejected: float | None
    same: int
    other: int
    scale: str | None


def decision_row(recorded: Recorded, event: DraftApproved | DraftRejected) -> Put:
    """Returns the row of a person's decision."""
    approved, repeated = int(isinstance(event, DraftApproved)), int(bool(recorded.repeats))
    own: Row = {"run": recorded.run, "version": recorded.version, "draft": event.draft.version, "approved": approved}
    return Put(DECISIONS.name, {**own, "repeated": repeated, "time": seconds(recorded.time)})


async def distributions(views: Views, since: datetime | None = None, workflow: str = "") -> list[Distribution]:
    """Returns the distribution of each critic's scores since a time, in runs of a workflow or in all, by name.

    What forks repeat counts once, here and below. `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("time", since, workflow)
    edges = [f"score >= {at / BINS} AND score < {(at + 1) / BINS}" for at in range(BINS - 1)]
    counts = ", ".join(f"sum(CASE WHEN {each} THEN 1 ELSE 0 END)" for each in (*edges, f"score >= {1 - 1 / BINS}"))
    sql = f"""
        SELECT critic, count(score), {counts} FROM critiques
        WHERE repeated = 0 AND score IS NOT NULL AND {where} GROUP BY critic ORDER BY critic
    """  # noqa: S608 - made of what stands there
    return await views.read(_distribution, sql, given)


def _distribution(cells: Cells) -> Distribution:
    return msgspec.convert({"critic": cells[0], "scores": cells[1], "counts": cells[2:]}, Distribution, strict=False)


async def drift(views: Views, since: datetime | None = None, workflow: str = "") -> list[DayOfCritic]:
    """Returns the scores of each critic by day, since a time, in runs of a workflow or in all: by name, the first day
    first.
    """
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT critic, {day_of("time")} AS day, count(score), avg(score), {ONE_SCALE} FROM critiques
        WHERE repeated = 0 AND score IS NOT NULL AND {where} GROUP BY critic, day ORDER BY critic, day
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(DayOfCritic, "day"), sql, given)


async def agreement(views: Views, since: datetime | None = None, workflow: str = "") -> list[Agreement]:
    """Returns every two critics that scored the same drafts, since a time, in runs of a workflow or in all, by name."""
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT a.critic, b.critic, count(*), avg(abs(a.score - b.score)), avg(a.score), avg(b.score),
            avg(a.score * a.score), avg(b.score * b.score), avg(a.score * b.score)
        {_PAIR} (SELECT run FROM critiques WHERE {where}) GROUP BY a.critic, b.critic ORDER BY a.critic, b.critic
    """  # noqa: S608 - made of what stands there
    return await views.read(_agreement, sql, given)


def _agreement(cells: Cells) -> Agreement:
    critic, other, drafts, difference, *moments = cells
    found = {"critic": critic, "other": other, "drafts": drafts, "difference": difference}
    numbers = [float(each or 0) for each in moments]
    return msgspec.convert({**found, "correlation": _correlation(*numbers)}, Agreement, strict=False)


def _correlation(one: float, other: float, one_squared: float, other_squared: float, both: float) -> float | None:
    """Returns Pearson's correlation of these means; None where one of the two does not vary."""
    spread = (one_squared - one * one, other_squared - other * other)
    if min(spread) <= 1e-9:  # as small as what rounding leaves
        return None
    return max(-1.0, min(1.0, (both - one * other) / math.sqrt(spread[0] * spread[1])))


async def with_people(views: Views, since: datetime | None = None, workflow: str = "") -> list[PeopleAgreement]:
    """Returns each critic that judged drafts that people decided about since a time, by name."""
    where, given = select_runs("d.time", since, workflow, column="d.run")
    counted = (
        "sum(CASE WHEN d.approved = 1 THEN 1 ELSE 0 END), avg(CASE WHEN d.approved = 1 THEN score END), "
        "sum(CASE WHEN d.approved = 0 THEN 1 ELSE 0 END), avg(CASE WHEN d.approved = 0 THEN score END), "
        "sum(CASE WHEN c.approved = d.approved THEN 1 ELSE 0 END), "
        f"sum(CASE WHEN c.approved <> d.approved THEN 1 ELSE 0 END), {ONE_SCALE}"
    )
    sql = f"""
        SELECT critic, {counted} FROM decisions AS d JOIN critiques AS c ON c.run = d.run AND c.draft = d.draft
        WHERE d.repeated = 0 AND {where} GROUP BY critic ORDER BY critic
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(PeopleAgreement), sql, given)
