"""The steps of running runs: one row per path, with the time at which the timekeeper acts on it, and queries on them.

The rows of a run are deleted when it ends, so the table stays as small as the current work; `tree` keeps the past.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias, assert_never, cast

import msgspec

from redraft.events.messages import domain_events as events
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Role
from redraft.projections.engine.projection import (
    Change,
    Delete,
    Projection,
    Put,
    Row,
    Set,
    SetAll,
    Table,
    moment,
    seconds,
    seconds_after,
    without_texts,
)
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views

CAN_FALL_DUE: Final = "timer IS NOT NULL AND (held = 0 OR status <> 'waiting')"
"""The condition for rows that can become due: a step is not retried while its run is paused."""

LONGEST_LIST: Final = 200
"""The maximum number of characters of the names of those who are asked to decide."""

TABLE: Final = Table(
    "steps",
    {
        "run": "TEXT NOT NULL",
        "path": "TEXT NOT NULL",
        "role": "TEXT NOT NULL",
        "actor": "TEXT NOT NULL",
        "attempt": "INTEGER NOT NULL",
        "status": "TEXT NOT NULL",
        "requested": "REAL NOT NULL",
        "due": "REAL NOT NULL",
        "retry_at": "REAL",
        "finished": "REAL",
        "score": "REAL",
        "draft": "INTEGER",
        "message": "TEXT NOT NULL",
        "position": "INTEGER NOT NULL",
        "cause": "TEXT NOT NULL",
        "timer": "REAL",
        "held": "INTEGER NOT NULL",
        "queue_wait": "REAL",
        "since": "REAL NOT NULL",
    },
    key=2,
    indexes={
        "steps_timer": f"(timer) WHERE {CAN_FALL_DUE}",
        "steps_open": "(role, actor, requested) WHERE status = 'open'",
    },
)
"""`timer` is `due` of an open step, `retry_at` of a waiting one, NULL of all others; `position` is the request's.
`cause` is the id of the event that set the timer: the request, or the failure after which it waits. `held` is 1 while
the run is paused, `queue_wait` the plan's limit for waiting in a queue, which counts from `since`: the request, or the
end of a later pause. The row without a path stands for the run's wall time, if its budget limits that, or for the
run around that of an item.
"""
_EMPTY: Final = TABLE.empty_row()

_LOOK_AFTER: Final = 60.0
"""How long after its beginning it is looked after whether a run of an item has missed something."""

UNANSWERED: Final = ("open", "waiting")


def project_step(recorded: Recorded) -> Sequence[Change]:
    """Returns what an event changes in its run's steps."""
    event, run = recorded.data, recorded.run
    match event:
        case events.StepRequested():
            return (Put("steps", _request_row(recorded, event)),)
        case events.DraftCritiqued():
            return (_finish(recorded, event.path, event.draft.version, event.critique.known_score),)
        case events.DraftRefined() | events.DraftGenerated() | events.DraftPublished():
            return (_finish(recorded, event.path, event.draft.version),)
        case (
            events.IterationStarted()
            | events.LoopClosing()
            | events.LoopEnded()
            | events.BudgetReached()
            | events.DraftEdited()
        ):
            return (SetAll("steps", run, _abandoned_values(recorded), {"status": UNANSWERED}),)
        case events.PanelClosed(missing=missing):
            return tuple(Set("steps", (run, path), _abandoned_values(recorded)) for path in missing)
        case events.VerdictLate():
            return (_finish(recorded, event.path, event.draft.version, event.critique.known_score),)
        case events.StateChanged(path=path):
            return (_finish(recorded, path),) if path else ()  # the values that a fork began with are no step's
        case events.StepFailed():
            return (_fail(recorded, event),)
        case events.RunEnded() | events.RunQuarantined():
            return (Delete("steps", (run,)),)
        case events.RunStarted():
            return (Delete("steps", (run,)), *_time_limit_changes(recorded, event))
        case events.RunErased():
            return (SetAll("steps", run, {"message": ""}),)
        case events.RunPaused():
            return (SetAll("steps", run, {"held": 1}),)
        case events.RunResumed():
            return (SetAll("steps", run, {"held": 0, "since": seconds(recorded.time)}),)
        case (
            events.RunGuided()
            | events.LimitsChanged()
            | events.RunCancelled()
            | events.ChoicesCredited()
            | events.CriticSkipped()
            | events.LessonStruck()
        ):
            return ()
        case events.ApprovalRequested():
            left = SetAll("steps", run, _abandoned_values(recorded), {"status": UNANSWERED})
            return (left, Put("steps", _approval_row(recorded, event)))
        case events.DraftApproved():
            return (_finish(recorded, event.path, event.draft.version),) if event.granted else ()
        case events.DraftRejected() | events.ApprovalExpired():
            return (_finish(recorded, event.path, event.draft.version),)
        case _ as never:
            assert_never(never)


STEPS: Final = Projection(
    "steps",
    7,
    (TABLE,),
    without_texts(project_step),
    lambda entry: (Delete("steps", (entry.run,)),),
    (events.RunEnded, events.RunQuarantined),
)
"""The projection that keeps the steps."""


def _time_limit_changes(recorded: Recorded, event: events.RunStarted) -> tuple[Put, ...]:
    """Returns the row that falls due when the wall time of the run is over, if its budget limits that.

    That of a run of an item, whose wall time is that of the run around it, falls due once it may have missed something.
    """
    budget = event.plan.budget
    if event.of is not None:
        row = _open_row(recorded, "", seconds_after(recorded.time, _LOOK_AFTER))
        return (Put("steps", {**row, "status": "limit"}),)
    if budget is None or budget.seconds is None:
        return ()
    row = _open_row(recorded, "", seconds_after(event.at, budget.seconds))
    return (Put("steps", {**row, "status": "limit"}),)


def _request_row(recorded: Recorded, event: events.StepRequested) -> Row:
    row = _open_row(recorded, event.path, seconds(event.due))
    row["role"], row["actor"], row["attempt"] = event.role, event.actor, event.attempt
    row["draft"], row["queue_wait"] = event.draft.version if event.draft else None, event.queue_wait
    return row


def _approval_row(recorded: Recorded, event: events.ApprovalRequested) -> Row:
    asked: Row = {"actor": _describe_people(event.approvers), "draft": event.draft.version}
    return _open_row(recorded, event.path, seconds(event.due)) | {"role": "approver"} | asked


def _describe_people(names: Sequence[str]) -> str:
    """Returns the names of people, shortened: the column is indexed, and names have any length."""
    listed = ", ".join(names) or "anybody"
    return listed if len(listed) <= LONGEST_LIST else f"{listed[:LONGEST_LIST]}…"


def _open_row(recorded: Recorded, path: str, timer: float) -> Row:
    """Returns the row of an open step, without role, actor and draft."""
    return {
        **_EMPTY,
        "run": recorded.run,
        "path": path,
        "role": "clock",
        "attempt": 1,
        "status": "open",
        "requested": seconds(recorded.time),
        "since": seconds(recorded.time),
        "due": timer,
        "position": recorded.position,
        "cause": recorded.id,
        "timer": timer,
    }


def _abandoned_values(recorded: Recorded) -> Row:
    return {"status": "abandoned", "finished": seconds(recorded.time), "timer": None}


def _finish(recorded: Recorded, path: str, draft: int | None = None, score: float | None = None) -> Set:
    """Ends a step; with no draft of its own, it keeps the one that it was asked about."""
    values: Row = {"status": "done", "finished": seconds(recorded.time), "score": score, "timer": None}
    return Set("steps", (recorded.run, path), values if draft is None else {**values, "draft": draft})


def _fail(recorded: Recorded, event: events.StepFailed) -> Set:
    key = (recorded.run, event.path)
    if event.retry_at is None:
        values: Row = {"status": "failed", "finished": seconds(recorded.time), "message": event.message, "timer": None}
        return Set("steps", key, values)
    retry_at = seconds(event.retry_at)
    waits: Row = {"status": "waiting", "retry_at": retry_at, "message": event.message}
    return Set("steps", key, {**waits, "cause": recorded.id, "timer": retry_at})


StepStatus: TypeAlias = Literal["open", "waiting", "done", "failed", "abandoned", "limit"]

_RUNS: Final = "(CAST(:runs AS TEXT) IS NULL OR run IN (SELECT value FROM json_each(:runs)))"


class StepLine(msgspec.Struct, frozen=True):
    """A step after its last attempt.

    `open`: requested, not answered; `waiting`: failed, to be retried at `retry_at`; `failed`: for good; `abandoned`:
    its loop ended, or its panel went on, without its answer. A line without a path is no step: it stands for the wall
    time of its run, and has the role `clock` and the status `limit`. `requested` and `finished` are times of events.
    `score` (0..1) is a critic's, `draft` the version to work on or, once done, the result. `message` is the reason of a
    failure. `position` is that of the request, `cause` the id of the request or, of a waiting step, of its failure.
    `queue_wait` counts from `since`: the request, or the end of a later pause of the run.
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
    since: datetime
    queue_wait: float | None = None


_COLUMNS: Final = ", ".join(StepLine.__struct_fields__)
_decode_line: Final = row_decoder(StepLine, "requested", "due", "retry_at", "finished", "since")


async def steps_of(views: Views, run: str) -> list[StepLine]:
    """Returns the steps of a running run in the order of their last requests; none if it has ended."""
    sql = f"SELECT {_COLUMNS} FROM steps WHERE run = ? AND path <> '' ORDER BY position"  # noqa: S608
    return await views.read(_decode_line, sql, (run,))


async def list_due(
    views: Views,
    now: datetime,
    limit: int = 100,
    runs: Collection[str] | None = None,
    behind: tuple[datetime, str, str] | None = None,
) -> list[StepLine]:
    """Returns at most `limit` rows, the longest due first: open steps past `due`, waiting ones past `retry_at`, and
    runs past their wall time. Steps of paused runs that wait for a retry are left out, and so are steps of panels that
    went on.

    `runs` restricts the result to these runs, `behind` to rows after this time, run and path. Ended runs have no rows.
    """
    sql = (
        f"SELECT {_COLUMNS} FROM steps WHERE timer <= :now AND timer >= :timer AND {CAN_FALL_DUE} "  # noqa: S608
        f"AND (timer > :timer OR run > :run OR (run = :run AND path > :path)) AND {_RUNS} "
        "ORDER BY timer, run, path LIMIT :limit"
    )
    timer, run, path = behind or (None, "", "")
    parameters = {
        "now": seconds(now),
        "runs": _encode_runs(runs),
        "limit": limit,
        "timer": seconds(timer) if timer else float("-inf"),
        "run": run,
        "path": path,
    }
    return await views.read(_decode_line, sql, parameters)


async def list_asked_actors(views: Views, runs: Collection[str] | None = None) -> list[tuple[Role, str]]:
    """Returns the actors with an unanswered request, each once."""
    sql = (
        f"SELECT DISTINCT role, actor FROM steps WHERE status = 'open' AND role NOT IN ('approver', 'run') AND {_RUNS}"  # noqa: S608
    )
    return await views.read(lambda cells: cast("tuple[Role, str]", tuple(cells)), sql, {"runs": _encode_runs(runs)})


async def list_unserved(
    views: Views,
    actor: tuple[Role, str],
    now: datetime,
    unserved: float,
    wait: float,
    limit: int = 100,
    runs: Collection[str] | None = None,
) -> list[StepLine]:
    """Returns at most `limit` requests of an actor, the oldest first, that have waited as long as the plan allows.

    No worker has served the actor for `unserved` seconds; a request whose plan has no limit may wait `wait` seconds.
    Paused runs are left out, and what they waited before they were resumed does not count.
    """
    waited = "held = 0 AND coalesce(queue_wait, :wait) <= :unserved AND since + coalesce(queue_wait, :wait) <= :now"
    lengths: Row = {"unserved": unserved, "wait": wait, "now": seconds(now)}
    return await _list_open(views, actor, waited, lengths, limit, runs)


async def list_unanswered(
    views: Views, actor: tuple[Role, str], upto: int, limit: int = 100, runs: Collection[str] | None = None
) -> list[StepLine]:
    """Returns at most `limit` unanswered requests of an actor up to a position, oldest first, without paused runs."""
    return await _list_open(views, actor, "held = 0 AND position <= :upto", {"upto": upto}, limit, runs)


async def oldest_waiting(views: Views, actor: tuple[Role, str], waiting: int) -> datetime | None:
    """Returns when the oldest request in an actor's queue was made, if so many wait there; None when none is open.

    Queues keep their order: those that wait are the latest ones, and workers have the others.
    """
    sql = (
        "SELECT min(requested) FROM (SELECT requested FROM steps "
        "WHERE status = 'open' AND role = :role AND actor = :actor ORDER BY requested DESC LIMIT :waiting) AS latest"
    )
    role, name = actor
    found = await views.query(sql, {"role": role, "actor": name, "waiting": waiting})
    since = found[0][0]
    return None if since is None else moment(since)


async def _list_open(
    views: Views, actor: tuple[Role, str], condition: str, values: Row, limit: int, runs: Collection[str] | None
) -> list[StepLine]:
    sql = (
        f"SELECT {_COLUMNS} FROM steps WHERE status = 'open' AND role = :role AND actor = :actor AND {condition} "  # noqa: S608
        f"AND {_RUNS} ORDER BY requested LIMIT :limit"
    )
    role, name = actor
    given: Row = {"role": role, "actor": name, "limit": limit, "runs": _encode_runs(runs)}
    return await views.read(_decode_line, sql, given | values)


async def next_due(
    views: Views, runs: Collection[str] | None = None, *, after: datetime | None = None
) -> datetime | None:
    """Returns when the next step falls due, or did; None when none is unanswered. Only times behind `after` count."""
    sql = f"SELECT timer FROM steps WHERE {CAN_FALL_DUE} AND timer > :after AND {_RUNS} ORDER BY timer LIMIT 1"  # noqa: S608
    parameters = {"after": seconds(after) if after else float("-inf"), "runs": _encode_runs(runs)}
    found = await views.read(lambda cells: moment(cells[0]), sql, parameters)
    return found[0] if found else None


LATE_RETRY: Final = 30.0
"""Seconds: a coordinator requests a retry within a few."""


async def count_overdue(views: Views, now: datetime, runs: Collection[str] | None = None) -> int:
    """Returns how many steps are open past `due`, or wait for a retry that was due `LATE_RETRY` seconds ago."""
    due = "(status = 'open' OR status = 'waiting' AND timer <= :now - :late)"
    sql = f"SELECT count(*) FROM steps WHERE timer <= :now AND {CAN_FALL_DUE} AND {due} AND {_RUNS}"  # noqa: S608
    found = await views.query(sql, {"now": seconds(now), "late": LATE_RETRY, "runs": _encode_runs(runs)})
    return cast("int", found[0][0])


def _encode_runs(runs: Collection[str] | None) -> str | None:
    return None if runs is None else msgspec.json.encode(list(runs)).decode()
