"""Asking for steps: those of a run, and those that time has caught up with."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final, Literal, TypeAlias, cast

import msgspec

from redraft.events.plan import Role
from redraft.projections.projection import moment, seconds, times
from redraft.projections.steps import MOVES, TABLE
from redraft.projections.views import Cells, Views

StepStatus: TypeAlias = Literal["open", "waiting", "done", "failed", "abandoned", "limit"]

_COLUMNS: Final = ", ".join(TABLE.columns)
_RUNS: Final = "(CAST(:runs AS TEXT) IS NULL OR run IN (SELECT value FROM json_each(:runs)))"


class StepLine(msgspec.Struct, frozen=True):
    """A step as its last attempt left it.

    `open`: asked, not answered; `waiting`: failed, to be tried again at `retry_at`; `failed`: for good; `abandoned`:
    its loop ended, or its panel went on, without its answer. A line without a path is no step: it stands for the wall
    time of its run, and has the role `clock` and the status `limit`. `requested` and `finished` are times of events.
    `score` (0..1) is a critic's, `draft` the version that was worked on or, once done, that came of it. `message` says
    why it failed. `position` is that of the request, `cause` the id of the request or, of a step that waits, of its
    failure.
    """

    run: str
    path: str
    role: Role | Literal["approver", "clock"]
    actor: str
    attempt: int
    status: StepStatus
    requested: datetime
    due: datetime
    retry_at: datetime | None
    finished: datetime | None
    score: float | None
    draft: int | None
    message: str
    position: int
    cause: str
    queue_wait: float | None = None


async def steps_of(views: Views, run: str) -> list[StepLine]:
    """The steps of a run that goes on, in the order in which they were last asked for; none of one that has ended."""
    sql = f"SELECT {_COLUMNS} FROM steps WHERE run = ? AND path <> '' ORDER BY position"  # noqa: S608
    return await views.read(_line, sql, (run,))


async def due(
    views: Views,
    now: datetime,
    limit: int = 100,
    runs: Collection[str] | None = None,
    behind: tuple[datetime, str, str] | None = None,
) -> list[StepLine]:
    """At most `limit` steps, the longest due first: open ones past `due`, waiting ones past `retry_at`, and runs past
    their wall time. What cannot move is none of them: it waits in a run that is paused, or its panel has gone on.

    `runs` restricts it to these runs, `behind` to those that come after the one of this time, run and path. Those of
    runs that have ended are never among them.
    """
    sql = (
        f"SELECT {_COLUMNS} FROM steps WHERE timer <= :now AND timer >= :timer AND {MOVES} "  # noqa: S608
        f"AND (timer > :timer OR run > :run OR (run = :run AND path > :path)) AND {_RUNS} "
        "ORDER BY timer, run, path LIMIT :limit"
    )
    timer, run, path = behind or (None, "", "")
    parameters = {
        "now": seconds(now),
        "runs": _listed(runs),
        "limit": limit,
        "timer": seconds(timer) if timer else float("-inf"),
        "run": run,
        "path": path,
    }
    return await views.read(_line, sql, parameters)


async def asked_of(views: Views, runs: Collection[str] | None = None) -> list[tuple[Role, str]]:
    """The actors of whom something is asked and not answered, each once."""
    sql = f"SELECT DISTINCT role, actor FROM steps WHERE status = 'open' AND role <> 'approver' AND {_RUNS}"  # noqa: S608
    return await views.read(lambda cells: cast("tuple[Role, str]", tuple(cells)), sql, {"runs": _listed(runs)})


async def waited_for(
    views: Views,
    actor: tuple[Role, str],
    now: datetime,
    unserved: float,
    wait: float,
    limit: int = 100,
    runs: Collection[str] | None = None,
) -> list[StepLine]:
    """At most `limit` requests of an actor, the oldest first, that have waited for as long as the plan lets them.

    Nobody has served the actor for `unserved` seconds; where the plan says nothing they wait for `wait` seconds.
    """
    sql = (
        f"SELECT {_COLUMNS} FROM steps WHERE status = 'open' AND role = :role AND actor = :actor "  # noqa: S608
        "AND coalesce(queue_wait, :wait) <= :unserved AND requested + coalesce(queue_wait, :wait) <= :now "
        f"AND {_RUNS} ORDER BY requested LIMIT :limit"
    )
    role, name = actor
    lengths = {"unserved": unserved, "wait": wait, "now": seconds(now), "limit": limit}
    return await views.read(_line, sql, {"role": role, "actor": name, "runs": _listed(runs), **lengths})


async def unanswered(
    views: Views, actor: tuple[Role, str], upto: int, limit: int = 100, runs: Collection[str] | None = None
) -> list[StepLine]:
    """At most `limit` requests of an actor that have no answer, the oldest first, recorded up to this position.

    None of runs that are paused.
    """
    sql = (
        f"SELECT {_COLUMNS} FROM steps WHERE status = 'open' AND role = :role AND actor = :actor "  # noqa: S608
        f"AND held = 0 AND position <= :upto AND {_RUNS} ORDER BY requested LIMIT :limit"
    )
    role, name = actor
    return await views.read(
        _line, sql, {"role": role, "actor": name, "upto": upto, "limit": limit, "runs": _listed(runs)}
    )


async def next_due(
    views: Views, runs: Collection[str] | None = None, *, after: datetime | None = None
) -> datetime | None:
    """When the next step falls due, or fell due if it is one already; None when no step is unanswered.

    `after` passes over what fell due by then.
    """
    sql = f"SELECT timer FROM steps WHERE {MOVES} AND timer > :after AND {_RUNS} ORDER BY timer LIMIT 1"  # noqa: S608
    parameters = {"after": seconds(after) if after else float("-inf"), "runs": _listed(runs)}
    found = await views.read(lambda cells: moment(cells[0]), sql, parameters)
    return found[0] if found else None


async def count_overdue(views: Views, now: datetime, runs: Collection[str] | None = None) -> int:
    """How many steps are open past `due`."""
    sql = f"SELECT count(*) FROM steps WHERE timer <= :now AND {MOVES} AND status = 'open' AND {_RUNS}"  # noqa: S608
    found = await views.query(sql, {"now": seconds(now), "runs": _listed(runs)})
    return cast("int", found[0][0])


def _listed(runs: Collection[str] | None) -> str | None:
    return None if runs is None else msgspec.json.encode(list(runs)).decode()


def _line(cells: Cells) -> StepLine:
    row = dict(zip(TABLE.columns, cells, strict=True))
    return msgspec.convert({**row, **times(row, "requested", "due", "retry_at", "finished")}, StepLine)
