"""Asking for runs: the newest first, or the one that a person means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.events.content import DraftRef
from redraft.events.domain_events import Outcome, Parent
from redraft.events.errors import InputError, NoSuchRun
from redraft.events.usage import Usage
from redraft.projections.projection import Value, seconds, times
from redraft.projections.runs import TABLE
from redraft.projections.views import Cells, Views

RunStatus: TypeAlias = Literal["running", "paused", "ended", "quarantined", "unreadable"]

_COLUMNS: Final = ", ".join(TABLE.columns)
_NAMED: Final = 5
"""How many of the runs that a text may mean are named."""


class RunLine(msgspec.Struct, frozen=True):
    """A run in the list.

    `brief` is its brief's first line, 120 characters at most; `source` the file that it came from; a fork names its
    `parent`. `started`, `updated` and `ended` are the times of events. `iterations` counts the passes of the outermost
    loops, `steps` the answers of workers, `failures` the attempts that failed. `calls`, `tokens` and `cost` (in
    `currency`) are what models took, and `unpriced` the calls that `cost` leaves out. `score` (0..1) is what critics
    said last, `best` the best that they said together of one draft. `draft` is the newest or, once a loop or the run
    has ended, the one that left it. `began` is the position of its first event; `version` and `position` are those of
    its last.
    """

    run: str
    workflow: str
    status: RunStatus
    outcome: Outcome | None
    reason: str
    brief: str
    source: str
    tags: tuple[str, ...]
    parent: Parent | None
    started: datetime
    updated: datetime
    ended: datetime | None
    iterations: int
    score: float | None
    best: float | None
    draft: DraftRef | None
    steps: int
    failures: int
    calls: int
    unpriced: int
    tokens: int
    cost: float
    currency: str
    began: int
    position: int
    version: int


async def list_runs(
    views: Views,
    *,
    limit: int = 50,
    status: RunStatus | None = None,
    workflow: str | None = None,
    outcome: Outcome | None = None,
    tag: str | None = None,
    since: datetime | None = None,
) -> list[RunLine]:
    """At most `limit` runs (at least 1) that fit every filter given, those that started last first.

    `since` leaves out runs that started before it. Raises InputError for a limit below 1.
    """
    if limit < 1:
        raise InputError(f"the limit of a list is {limit}; give at least 1")
    given: dict[str, Value] = {"status": status, "workflow": workflow, "outcome": outcome}
    tests = [f"{name} = :{name}" for name, value in given.items() if value is not None]
    if since is not None:
        tests.append("started >= :since")
        given["since"] = seconds(since)
    if tag is not None:
        tests.append("replace(tags, :tag, '') <> tags")
        given["tag"] = f" {tag} "
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    newest = "ORDER BY started DESC, position DESC"
    found = f"SELECT run FROM runs {where} {newest} LIMIT :limit"  # noqa: S608 - answered by the index alone
    sql = f"SELECT {_COLUMNS} FROM runs WHERE run IN ({found}) {newest}"  # noqa: S608
    return await views.read(_line, sql, {**given, "limit": limit})


async def spent_on(views: Views, workflow: str, day: datetime, but: str = "") -> Usage:
    """What the runs of a workflow used together that began on the day (UTC) of this time, but for one run."""
    begin = day.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    sql = (
        "SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0), coalesce(sum(calls), 0) FROM runs "
        "WHERE workflow = :workflow AND started >= :begin AND started < :end AND run <> :but"
    )
    times_of_day = {"begin": seconds(begin), "end": seconds(begin + timedelta(days=1))}
    ((tokens, cost, calls),) = await views.query(sql, {"workflow": workflow, "but": but, **times_of_day})
    return Usage(int(tokens or 0), float(cost or 0), int(calls or 0))


async def first_position(views: Views, since: datetime) -> int | None:
    """Where in the log the first of the runs begins that had events at this time or later; None when none had.

    No event since then lies before it, whatever the clocks of several writers said.
    """
    ((first,),) = await views.query("SELECT min(began) FROM runs WHERE updated >= ?", (seconds(since),))
    return first if isinstance(first, int) else None


async def find_run(views: Views, text: str) -> RunLine:
    """The run that a person means: by its id, by the beginning or end of it if only one fits, or the `last` started.

    Raises NoSuchRun when none fits, InputError naming them when several do.
    """
    if not text:
        raise InputError("no run is named; give its id, the beginning or end of it, or `last`")
    if text == "last":
        found = await list_runs(views, limit=1)
    else:
        found = await _exact(views, text) or await _alike(views, text)
    match found:
        case []:
            raise NoSuchRun(text)
        case [one]:
            return one
        case _:
            named = ", ".join(f"{line.run} ({line.workflow})" for line in found[:_NAMED])
            more = ", …" if len(found) > _NAMED else ""
            raise InputError(f"run {text!r} may be any of {named}{more}; give more of its id")


async def _exact(views: Views, text: str) -> list[RunLine]:
    sql = f"SELECT {_COLUMNS} FROM runs WHERE run = ?"  # noqa: S608
    return await views.read(_line, sql, (text,))


async def _alike(views: Views, text: str) -> list[RunLine]:
    sql = (
        f"SELECT {_COLUMNS} FROM runs WHERE substr(run, 1, length(:text)) = :text "  # noqa: S608
        "OR substr(run, length(run) - length(:text) + 1) = :text ORDER BY started DESC, position DESC LIMIT :limit"
    )
    return await views.read(_line, sql, {"text": text, "limit": _NAMED + 1})


def _line(cells: Cells) -> RunLine:
    row = dict(zip(TABLE.columns, cells, strict=True))
    version, sha256 = row["draft"], row.pop("sha256")
    draft = None if version is None else {"version": version, "sha256": sha256}
    forked = row.pop("forked")
    parent = None if forked is None else {"run": row["parent"], "version": forked}
    told = {"draft": draft, "parent": parent, "tags": str(row["tags"]).split()}
    return msgspec.convert({**row, **times(row, "started", "updated", "ended"), **told}, RunLine)
