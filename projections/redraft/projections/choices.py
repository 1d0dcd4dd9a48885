"""How the arms of choices have done: what runs credited them with, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.domain_events import ChoicesCredited, Credit, Tally
from redraft.events.envelope import Recorded
from redraft.projections.lines import line_of
from redraft.projections.projection import Change, Projection, Put, Row, Set, Table, Value, seconds, unchanged
from redraft.projections.views import Views

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
    """An arm that a step of a workflow chooses, and the runs in which it took part: `successes` and `failures`.

    `expected` is the success rate (0..1) that is expected of it next: the mean of Beta(successes + 1, failures + 1).
    `latest` is when (UTC) a run was credited last.
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
    """The credits of a run, and what they add to."""
    match recorded.data:
        case ChoicesCredited() as event if not recorded.repeats:
            return tuple(change for credit in event.credits for change in _credited(recorded, event.workflow, credit))
        case _:
            return ()


CHOICES: Final = Projection("choices", 1, (TABLE, CREDITS), project_choice, unchanged)
"""The projection that keeps them."""


async def arms(views: Views, run: str = "", since: datetime | None = None, workflow: str = "") -> list[ArmLine]:
    """The arms of a workflow or of all by how they did, the best of a step first; in one run or all, since then."""
    sql = """
        SELECT workflow, step, arm, count(*), CAST(sum(success) AS BIGINT), CAST(sum(1 - success) AS BIGINT),
            CAST(sum(success) + 1 AS DOUBLE PRECISION) / (count(*) + 2), max(time)
        FROM choice_credits WHERE time >= :since AND (:run = '' OR run = :run)
            AND (:workflow = '' OR workflow = :workflow)
        GROUP BY workflow, step, arm ORDER BY workflow, step, 7 DESC, arm
    """
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "run": run, "workflow": workflow}
    return await views.read(line_of(ArmLine, "latest"), sql, given)


async def tallies(views: Views) -> Mapping[str, Mapping[str, Sequence[Tally]]]:
    """What is known of every arm, by workflow and step. It costs no more with many runs than with few."""
    found: dict[str, dict[str, list[Tally]]] = {}
    for workflow, step, arm, successes, failures in await views.query(
        "SELECT workflow, step, arm, successes, failures FROM choices ORDER BY workflow, step, arm"
    ):
        tally = Tally(str(arm), int(successes or 0), int(failures or 0))
        found.setdefault(str(workflow), {}).setdefault(str(step), []).append(tally)
    return found


def _credited(recorded: Recorded, workflow: str, credit: Credit) -> Iterator[Change]:
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
