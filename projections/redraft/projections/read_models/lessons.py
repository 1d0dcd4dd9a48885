"""The lessons that runs leave to later ones of their workflow: tables and queries beside the ledger of issues.

Only ended runs leave lessons: none that is encrypted, erased or set aside, and a fork only what it found itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from redraft.events.messages.domain_events import LessonStruck, RunEnded, RunErased, RunQuarantined, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.lessons import Lesson, LessonKind, cut_text, lesson_id
from redraft.projections.display import plain
from redraft.projections.engine.projection import Change, Delete, Put, Row, Set, Table, seconds
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views

ENDED_RUNS: Final = Table(
    "lesson_runs",
    {"run": "TEXT NOT NULL", "workflow": "TEXT NOT NULL", "ended": "INTEGER NOT NULL"},
    key=1,
    indexes={"lesson_runs_workflow": "(workflow, ended)"},
)
"""The runs whose issues may be lessons, with `ended` 1 once they have ended. `without_texts` keeps names."""

STRUCK: Final = Table(
    "lessons_struck",
    {
        "workflow": "TEXT NOT NULL",
        "lesson": "TEXT NOT NULL",
        "run": "TEXT NOT NULL",
        "author": "TEXT NOT NULL",
        "reason": "TEXT NOT NULL",
        "time": "REAL NOT NULL",
    },
    key=2,
)
"""The lessons that are struck out, with the run that has the event."""


class KnownLesson(msgspec.Struct, frozen=True):
    """A lesson of a workflow; see `Lesson`. `run` is the latest run that it came from, or the one where it was struck.

    `struck_by` and `reason` are of the person who struck it out; None and empty while nobody did.
    """

    workflow: str
    id: str
    text: str
    critic: str
    kind: LessonKind
    times: int
    runs: int
    returns: int
    mended: str
    run: str
    struck_by: str | None = None
    reason: str = ""

    @property
    def lesson(self) -> Lesson:
        """The lesson as runs are given it."""
        count = self.times, self.runs, self.returns
        return Lesson(self.id, self.text, self.critic, self.kind, *count, self.mended)


class _Issue(msgspec.Struct, frozen=True):
    """An issue in all runs of a workflow. `run` is the latest of them."""

    workflow: str
    critic: str
    kind: LessonKind
    digest: str
    text: str
    times: int
    runs: int
    returns: int
    mended: str
    run: str


class _Struck(msgspec.Struct, frozen=True):
    workflow: str
    lesson: str
    run: str
    author: str
    reason: str
    time: datetime


def lesson_changes(recorded: Recorded) -> Sequence[Change]:
    """Returns the changes that an event makes to the runs that leave lessons, and to the lessons struck out."""
    event, run = recorded.data, recorded.run
    match event:
        case RunStarted(plan=plan) if not recorded.encrypted:
            return (Put("lesson_runs", {"run": run, "workflow": plan.name, "ended": 0}),)
        case RunEnded():
            return (Set("lesson_runs", (run,), {"ended": 1}),)
        case RunStarted() | RunErased() | RunQuarantined():
            return (Delete("lesson_runs", (run,)),)
        case LessonStruck(withdrawn=True):
            return (Delete("lessons_struck", (event.workflow, event.lesson)),)
        case LessonStruck():
            key: Row = {"workflow": event.workflow, "lesson": event.lesson, "run": run}
            said: Row = {"author": event.by, "reason": plain(event.reason), "time": seconds(recorded.time)}
            return (Put("lessons_struck", key | said),)
        case _:
            return ()


_ISSUES: Final = """
    WITH told AS (
        SELECT i.*, r.workflow AS workflow,
            row_number() OVER (PARTITION BY r.workflow, critic, kind, digest ORDER BY i.position DESC) AS newest,
            row_number() OVER (PARTITION BY r.workflow, critic, kind, digest
                ORDER BY CASE WHEN mended = '' THEN 1 ELSE 0 END, i.time DESC, mended) AS mending
        FROM issues i JOIN lesson_runs r ON r.run = i.run
        WHERE r.ended = 1 AND i.repeated = 0 AND (:workflow = '' OR r.workflow = :workflow)
    )
    SELECT workflow, critic, kind, digest, max(CASE WHEN newest = 1 THEN text END),
        CAST(sum(named) AS BIGINT), count(DISTINCT run),
        CAST(sum(returns) AS BIGINT), max(CASE WHEN mending = 1 THEN mended END), max(CASE WHEN newest = 1 THEN run END)
    FROM told GROUP BY workflow, critic, kind, digest
    ORDER BY count(DISTINCT run) + sum(returns) DESC, sum(named) DESC, workflow, critic, kind, digest
    LIMIT :limit
"""


async def known_lessons(views: Views, workflow: str = "", limit: int = 200) -> list[KnownLesson]:
    """Returns the lessons of a workflow (empty: of all), also those struck out, at most `limit`.

    First come those that came back most, in other runs or after they were fixed; then those that were listed most.
    """
    issues = await views.read(row_decoder(_Issue), _ISSUES, {"workflow": workflow, "limit": limit})
    struck = {(each.workflow, each.lesson): each for each in await _struck(views)}
    return [_known(each, struck.get((each.workflow, _id_of(each)))) for each in issues]


async def lessons_for(views: Views, workflow: str, limit: int) -> list[Lesson]:
    """Returns the first lessons of a workflow that are not struck out, at most `limit`."""
    struck = len([each for each in await _struck(views) if each.workflow == workflow])
    known = await known_lessons(views, workflow, limit + struck)
    return [each.lesson for each in known if each.struck_by is None][:limit]


async def _struck(views: Views) -> list[_Struck]:
    sql = "SELECT workflow, lesson, run, author, reason, time FROM lessons_struck"
    return await views.read(row_decoder(_Struck, "time"), sql, {})


def _known(issue: _Issue, struck: _Struck | None) -> KnownLesson:
    said = (
        cut_text(issue.text),
        issue.critic,
        issue.kind,
        issue.times,
        issue.runs,
        issue.returns,
        cut_text(issue.mended),
    )
    run, by, reason = (struck.run, struck.author, struck.reason) if struck else (issue.run, None, "")
    return KnownLesson(issue.workflow, _id_of(issue), *said, run, by, reason)


def _id_of(issue: _Issue) -> str:
    return lesson_id(issue.workflow, issue.critic, issue.kind, issue.digest)
