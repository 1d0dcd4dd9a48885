"""Results of the arms of choices: what runs credited them with, and totals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.messages.domain_events import ChoicesCredited, Credit, Tally
from redraft.events.messages.envelope import Recorded
from redraft.projections.engine.projection import Change, Projection, Put, Row, Set, Table, Value, seconds, unchanged
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views

TABLE: Final = Table(
    "choices",
    {
        "workflow": "TEXT NOT NULL",
        "step": "TEXT NOT NULL",
        "arm": "TEXT NOT NULL",
        "successes": "INTEGER NOT NULL",
        "failures": "INTEGER NOT NULL",
        "latest": "REAL NOT NULL",
    },
    key=3,
)
CREDITS: Final = Table(
    "choice_credits",
    {
        "run": "TEXT NOT NULL",
        "step": "TEXT NOT NULL",
        "arm": "TEXT NOT NULL",
        "workflow": "TEXT NOT NULL",
        "success": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
    },
    key=3,
    indexes={"choice_credits_time": "(time)"},
)


class ArmLine(msgspec.Struct, frozen=True):
    """An arm that a step of a workflow can choose, with the runs in which it took part: `successes` and `failures`.

    `expected` is its expected success rate (0..1), the mean of Beta(successes + 1, failures + 1). `latest` is the UTC
    time of its last credit.
    """

    workflow: str
    step: str
    arm: str
    runs: int
    successes: int
    failures: int
    expected: float
    latest: datetime


def project_choice(recorded: Recorded) -> Sequence[Change]:
    """Returns the rows of a run's credits, and the changes of the totals."""
    match recorded.data:
        case ChoicesCredited() as event if not recorded.repeats:
            return tuple(
                change for credit in event.credits for change in _credit_changes(recorded, event.workflow, credit)
            )
        case _:
            return ()


CHOICES: Final = Projection("choices", 1, (TABLE, CREDITS), project_choice, unchanged, only=(ChoicesCredited,))
"""The projection that keeps these rows."""


async def arms(views: Views, run: str = "", since: datetime | None = None, workflow: str = "") -> list[ArmLine]:
    """Returns the arms of a workflow or of all, the best of each step first; in one run or all, since a time."""
    sql = """
        SELECT workflow, step, arm, count(*), CAST(sum(success) AS BIGINT), CAST(sum(1 - success) AS BIGINT),
            CAST(sum(success) + 1 AS DOUBLE PRECISION) / (count(*) + 2), max(time)
        FROM choice_credits WHERE time >= :since AND (:run = '' OR run = :run)
            AND (:workflow = '' OR workflow = :workflow)
        GROUP BY workflow, step, arm ORDER BY workflow, step, 7 DESC, arm
    """
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "run": run, "workflow": workflow}
    return await views.read(row_decoder(ArmLine, "latest"), sql, given)


async def tallies(views: Views) -> Mapping[str, Mapping[str, Sequence[Tally]]]:
    """Returns the totals of every arm, by workflow and step. The cost does not grow with the number of runs."""
    found: dict[str, dict[str, list[Tally]]] = {}
    for workflow, step, arm, successes, failures in await views.query(
        "SELECT workflow, step, arm, successes, failures FROM choices ORDER BY workflow, step, arm"
    ):
        tally = Tally(str(arm), int(successes or 0), int(failures or 0))
        found.setdefault(str(workflow), {}).setdefault(str(step), []).append(tally)
    return found


def _credit_changes(recorded: Recorded, workflow: str, credit: Credit) -> Iterator[Change]:
    time = seconds(recorded.time)
    new: Row = {
        "workflow": workflow,
        "step": credit.step,
        "arm": credit.arm,
        "successes": 0,
        "failures": 0,
        "latest": time,
    }
    counted = "successes" if credit.success else "failures"
    yield Set("choices", (workflow, credit.step, credit.arm), {"latest": time}, {counted: 1}, new=new)
    told: Row = {
        "run": recorded.run,
        "step": credit.step,
        "arm": credit.arm,
        "workflow": workflow,
        "success": int(credit.success),
        "time": time,
    }
    yield Put("choice_credits", told)
