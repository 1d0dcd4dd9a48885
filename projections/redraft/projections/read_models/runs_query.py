"""Queries on the list of runs: the newest first, or the one that a person means."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.events.errors import InputError, NoSuchRun
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import Outcome, Parent
from redraft.events.messages.usage import Usage
from redraft.projections.engine.projection import Value, seconds, times
from redraft.projections.engine.views import Cells, Views
from redraft.projections.read_models.runs import TABLE
from redraft.projections.read_models.texts import TABLE as TEXTS_TABLE
from redraft.projections.read_models.texts import read_search

RunStatus: TypeAlias = Literal["running", "waiting", "paused", "ended", "quarantined", "unreadable"]
"""`waiting`: for people, who have to decide on a draft."""

RunSort: TypeAlias = Literal["started", "updated", "iterations", "score", "tokens", "cost"]
"""The order of a list; runs without a score come after all that have one, the other way round before them."""

_COLUMNS: Final = ", ".join(TABLE.columns)
_DAY: Final = 86_400
_MAX_NAMED: Final = 5
"""How many candidates an error names when a text fits several runs."""


class RunLine(msgspec.Struct, frozen=True):
    """A run in the list.

    `brief` is its brief's first line, 120 characters at most; `source` the file that it came from; a fork names its
    `parent`. `started`, `updated` and `ended` are the times of events. `iterations` counts the iterations of the
    outermost loops, `steps` the answers of workers, `failures` the attempts that failed. `calls`, `tokens` and `cost`
    (in `currency`) are the usage of models, and `unpriced` the calls without a price. `score` (0..1) is the last score,
    shown on `scale`, `best` the best joined score of one draft. `draft` is the newest or, once a loop or the run has
    ended, the one that left it. `step` is the path of the step that a run is at, empty once it has ended. `began` is
    the position of its first event; `version` and `position` are those of its last. The run of an item is that of the
    run `item_of`, and its usage is also in that one's from its end on.
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
    step: str
    began: int
    position: int
    version: int
    scale: str | None = None
    item_of: str | None = None


class RunFilter(msgspec.Struct, frozen=True):
    """Selects runs that match every filter given.

    `since` and `until` select by when a run began: then or later, and before that. `text` is in the first line of its
    brief or the name of its source, whatever the case of its letters; runs that are stored encrypted never match it.
    `min_cost` is the least that its models cost. `search` is in its brief or in one of its drafts, as `read_search`
    reads it; it needs `TEXTS` in the same storage. Runs of items are left out unless `items`, or their workflow is
    named; `of` is the run whose items' runs are selected.
    """

    status: RunStatus | None = None
    workflow: str | None = None
    outcome: Outcome | None = None
    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str = ""
    min_cost: float | None = None
    search: str = ""
    items: bool = False
    of: str = ""

    def condition(self, views: Views) -> tuple[list[str], dict[str, Value]]:
        """Returns the tests in SQL that a row has to pass, and their parameters. Raises InputError for the search."""
        tests: dict[str, tuple[str, Value]] = {
            "status": (f"{_STATUS} = :status", self.status),
            "workflow": ("workflow = :workflow", self.workflow),
            "outcome": ("outcome = :outcome", self.outcome),
            "tag": ("replace(tags, :tag, '') <> tags", f" {self.tag} " if self.tag is not None else None),
            "since": ("started >= :since", seconds(self.since) if self.since else None),
            "until": ("started < :until", seconds(self.until) if self.until else None),
            "text": (f"replace({_TEXT}, lower(:text), '') <> {_TEXT}", self.text or None),
            "min_cost": ("cost >= :min_cost", self.min_cost),
            "of": ("item_of = :of", self.of or None),
        }
        given = {name: (test, value) for name, (test, value) in tests.items() if value is not None}
        if self.search:
            matching, words = views.matching(TEXTS_TABLE, read_search(self.search))
            given["words"] = (f"run IN (SELECT run FROM texts WHERE {matching})", words)  # noqa: S608
        every = [] if self.items or self.of or self.workflow else ["item_of IS NULL"]
        return every + [test for test, _ in given.values()], {name: value for name, (_, value) in given.items()}


_STATUS: Final = "CASE WHEN waits = 1 AND status = 'running' THEN 'waiting' ELSE status END"
_TEXT: Final = "lower(brief || ' ' || source)"


async def list_runs(
    views: Views,
    *,
    limit: int = 50,
    status: RunStatus | None = None,
    workflow: str | None = None,
    outcome: Outcome | None = None,
    tag: str | None = None,
    since: datetime | None = None,
    items: bool = False,
) -> list[RunLine]:
    """Returns at most `limit` runs (at least 1) that match every filter given, the last started first.

    `since` leaves out runs that started before it; runs of items are left out as by `RunFilter`. Raises InputError for
    a limit below 1.
    """
    return await page_of_runs(views, RunFilter(status, workflow, outcome, tag, since, items=items), limit)


async def page_of_runs(
    views: Views,
    chosen: RunFilter,
    limit: int,
    after: RunLine | None = None,
    sort: RunSort = "started",
    *,
    ascending: bool = False,
) -> list[RunLine]:
    """Returns at most `limit` runs (at least 1), from the first on, or those after a run.

    The last started comes first, or that with the most of what they are sorted by; where that is equal, the one of
    which something was recorded last. `ascending` is the other way round. Raises InputError for a limit below 1.
    """
    if limit < 1:
        raise InputError(f"the limit of a list is {limit}; give at least 1")
    tests, given = chosen.condition(views)
    by, direction = ("coalesce(score, -1)" if sort == "score" else sort), "ASC" if ascending else "DESC"
    if after is not None:
        tests.append(f"({by}, position) {'>' if ascending else '<'} (:after_sorted, :after_position)")
        given |= {"after_sorted": _sorted_by(after, sort), "after_position": after.position}
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    order = f"ORDER BY {by} {direction}, position {direction}"
    found = f"SELECT run FROM runs {where} {order} LIMIT :limit"  # noqa: S608 - by time, answered by the index alone
    sql = f"SELECT {_COLUMNS} FROM runs WHERE run IN ({found}) {order}"  # noqa: S608
    return await views.read(_decode_line, sql, {**given, "limit": limit})


def _sorted_by(line: RunLine, sort: RunSort) -> Value:
    """Returns what a run is sorted by."""
    match sort:
        case "started":
            return seconds(line.started)
        case "updated":
            return seconds(line.updated)
        case "score":
            return -1.0 if line.score is None else line.score
        case "iterations":
            return line.iterations
        case "tokens":
            return line.tokens
        case "cost":
            return line.cost


async def count_runs(views: Views, chosen: RunFilter) -> int:
    """Returns how many runs match every filter given."""
    tests, given = chosen.condition(views)
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    ((count,),) = await views.query(f"SELECT count(*) FROM runs {where}", given)  # noqa: S608
    return int(count or 0)


async def list_workflows(views: Views) -> list[str]:
    """Returns the workflows of all runs, that with the most runs first."""
    found = await views.query("SELECT workflow FROM runs GROUP BY workflow ORDER BY count(*) DESC, workflow")
    return [str(name) for (name,) in found if name]


async def spent_on(views: Views, workflow: str, day: datetime, excluded: str = "") -> Usage:
    """Returns the usage of a workflow's runs that started on the UTC day of this time, without the run `excluded`.

    That of the runs of their items is included, from their beginning on and once.
    """
    begin = seconds(day) // _DAY * _DAY
    chosen = "workflow = :workflow AND started < :end AND item_of IS NULL AND run <> :excluded"
    sql = f"""
        SELECT coalesce(sum(tokens - items_tokens), 0), coalesce(sum(cost - items_cost), 0),
            coalesce(sum(calls - items_calls), 0)
        FROM runs WHERE started >= :begin
            AND ({chosen} OR root IS NOT NULL AND root IN (SELECT run FROM runs WHERE started >= :begin AND {chosen}))
    """  # noqa: S608 - made of what stands above
    times_of_day = {"begin": begin, "end": begin + _DAY}
    ((tokens, cost, calls),) = await views.query(sql, {"workflow": workflow, "excluded": excluded, **times_of_day})
    return Usage(int(tokens or 0), float(cost or 0), int(calls or 0))


async def first_position(views: Views, since: datetime) -> int | None:
    """Returns the position of the first event of all runs with events at this time or later; None when there are none.

    No event since that time has a smaller position, even if the clocks of several writers differ.
    """
    ((first,),) = await views.query("SELECT min(began) FROM runs WHERE updated >= ?", (seconds(since),))
    return first if isinstance(first, int) else None


async def find_run(views: Views, text: str) -> RunLine:
    """Returns the run that a person means: by id, by a beginning or end that fits only one, or `last` for the newest.

    Runs of items are not meant where another one is: the newest, and those that begin with the id of the run around.
    Raises NoSuchRun when none fits, InputError naming them when several do.
    """
    if not text:
        raise InputError("no run is named; give its id, the beginning or end of it, or `last`")
    if text == "last":
        found = await list_runs(views, limit=1)
    else:
        exact = f"SELECT {_COLUMNS} FROM runs WHERE run = ?"  # noqa: S608
        found = await views.read(_decode_line, exact, (text,)) or await _find_similar(views, text)
    match found:
        case []:
            raise NoSuchRun(text)
        case [one]:
            return one
        case _:
            named = ", ".join(f"{line.run} ({line.workflow})" for line in found[:_MAX_NAMED])
            more = ", …" if len(found) > _MAX_NAMED else ""
            raise InputError(f"run {text!r} may be any of {named}{more}; give more of its id")


async def _find_similar(views: Views, text: str) -> list[RunLine]:
    sql = (
        f"SELECT {_COLUMNS} FROM runs WHERE (substr(run, 1, length(:text)) = :text "  # noqa: S608
        "OR substr(run, length(run) - length(:text) + 1) = :text) AND (item_of IS NOT NULL) = :items "
        "ORDER BY started DESC, position DESC LIMIT :limit"
    )
    for items in (False, True):
        if found := await views.read(_decode_line, sql, {"text": text, "items": items, "limit": _MAX_NAMED + 1}):
            return found
    return []


def _decode_line(cells: Cells) -> RunLine:
    row = dict(zip(TABLE.columns, cells, strict=True))
    version, sha256 = row["draft"], row.pop("sha256")
    draft = None if version is None else {"version": version, "sha256": sha256}
    if row.pop("waits") and row["status"] == "running":
        row["status"] = "waiting"
    forked = row.pop("forked")
    for name in ("root", "items_calls", "items_tokens", "items_cost"):
        del row[name]
    parent = None if forked is None else {"run": row["parent"], "version": forked}
    told = {"draft": draft, "parent": parent, "tags": str(row["tags"]).split()}
    return msgspec.convert({**row, **times(row, "started", "updated", "ended"), **told}, RunLine)
