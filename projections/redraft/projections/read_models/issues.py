"""The ledger of issues: what critics asked for in each run, when it was fixed, and whether it came back.

An issue is a suggestion or an error of one critic of one text and what was made from it, identified by its id or, if
it has none, by its words without regard to case, spaces, line numbers and final punctuation. It is fixed when that
critic no longer lists it, answered when an edit names it, declined when a refiner says why it would not act on it.
What became of it is told of the draft that is worked on and those that it was made from: see `issue_lines`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Final, TypeAlias, get_args

import msgspec

from redraft.events.messages.content import Issue as Issued
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    LessonStruck,
    LoopEnded,
    RunEnded,
    RunErased,
    RunQuarantined,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.redaction import ENCRYPTED
from redraft.projections.display import plain
from redraft.projections.engine.projection import (
    Change,
    Delete,
    Fold,
    Projection,
    Row,
    Set,
    SetAll,
    Table,
    seconds,
    unchanged,
    without_texts,
)
from redraft.projections.engine.storage import row_decoder
from redraft.projections.engine.views import Views
from redraft.projections.read_models.issue_lines import (
    Following,
    IssueKind,
    IssueStatus,
    RunLines,
    Standings,
    Verdict,
    decode_lines,
    encode_lines,
    follow_drafts,
    keep_verdict,
    loop_of,
    text_of,
)
from redraft.projections.read_models.lessons import ENDED_RUNS, STRUCK, lesson_changes
from redraft.projections.read_models.runs import select_runs

TABLE: Final = Table(
    "issues",
    {
        "run": "TEXT NOT NULL",
        "source": "TEXT NOT NULL",
        "kind": "TEXT NOT NULL",
        "digest": "TEXT NOT NULL",
        "text": "TEXT NOT NULL",
        "critic": "TEXT NOT NULL",
        "status": "TEXT NOT NULL",
        "named": "INTEGER NOT NULL",
        "returns": "INTEGER NOT NULL",
        "first": "INTEGER NOT NULL",
        "latest": "INTEGER NOT NULL",
        "fixed": "INTEGER",
        "quote": "TEXT NOT NULL",
        "criterion": "TEXT NOT NULL",
        "severity": "TEXT NOT NULL",
        "answered": "INTEGER",
        "declined": "INTEGER",
        "why": "TEXT NOT NULL",
        "repeated": "INTEGER NOT NULL",
        "version": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
        "mended": "TEXT NOT NULL",
    },
    key=4,
)
"""`source` is the critic's step without the numbers of iterations, with the first draft of its text. `first`, `latest`
and `fixed` are drafts: the first and the last with this issue, and the one that fixed it. `position` is that of the
first critique that listed it, `version` that of the last, `time` that of the last change. `answered` and `declined` are
the latest drafts that were made to answer it, or without heeding it. `repeated` is 1 while only critiques that a fork
repeats from its parent have listed it. `mended` is what was changed when it was fixed last.
"""

LINES: Final = Table("issue_lines", {"run": "TEXT NOT NULL", "lines": "TEXT NOT NULL"}, key=1)
"""Of each run how its drafts were made from each other and what was said of them, as JSON: see `RunLines`."""

_Listed: TypeAlias = tuple[IssueKind, str, str, Issued | None]
"""An issue in a critique: its kind, digest and words, and the issue with its place, if it has one."""

_OPEN: Final = "sum(CASE WHEN status IN ('raised', 'returned') THEN 1 ELSE 0 END)"
_UNHEEDED: Final[Row] = {"answered": None, "declined": None, "why": ""}
_NOWHERE: Final[Row] = {"quote": "", "criterion": "", "severity": ""}
_LINE_NUMBERS: Final = re.compile(r"\b(?:lines?|col|columns?)\s+\d+(?:[:-]\d+)*")
_ITERATION: Final = re.compile(r"\[[^\[\]]*\]")


class Issue(msgspec.Struct, frozen=True):
    """An issue of a run: `raised` (not yet fixed), `fixed` by the draft of that number, `returned`, or `dropped`.

    A dropped one was raised only in drafts that were not kept, and that nothing more is made from.
    `text` is its first wording. `named` counts the critiques that listed it, `returns` how often it came back after it
    was fixed; `first` and `latest` are the first and last drafts with it. `quote` is its latest place, `criterion` what
    it is about and `severity` how grave it is, if the critic says so. `answered` is the latest draft whose edits name
    it, `declined` the latest whose refiner would not act on it, and `why`. `time` (UTC) is when it last changed.
    """

    run: str
    kind: IssueKind
    text: str
    critic: str
    status: IssueStatus
    named: int
    returns: int
    first: int
    latest: int
    fixed: int | None
    quote: str
    criterion: str
    severity: str
    answered: int | None
    declined: int | None
    why: str
    time: datetime


class IssueCount(msgspec.Struct, frozen=True):
    """The issues of a critic by kind: how many were raised, and how many are fixed, open, came back, were declined.

    Those that are neither fixed nor open were dropped with their drafts.
    """

    critic: str
    kind: IssueKind
    raised: int
    fixed: int
    open: int
    returned: int
    declined: int
    runs: int


def project_issues(recorded: Recorded) -> Sequence[Change | Fold]:
    """Returns the changes that an event makes to the issues of its run."""
    event, key = recorded.data, (recorded.run,)
    match event:
        case DraftCritiqued():
            return (Fold("issue_lines", key, partial(_with_critique, recorded, event)),)
        case DraftRefined():
            return (
                Fold("issue_lines", key, partial(_with_drafts, recorded, event)),
                *_revision_changes(recorded, event),
            )
        case StepRequested(role="generator", critiques=(_, *_)):
            return (Fold("issue_lines", key, partial(_with_drafts, recorded, event)),)
        case DraftGenerated() | DraftEdited() | ApprovalRequested() | LoopEnded() | RunEnded():
            return (Fold("issue_lines", key, partial(_with_drafts, recorded, event)), *lesson_changes(recorded))
        case RunStarted() | RunErased():
            return Delete("issues", key), Fold("issue_lines", key, None), *lesson_changes(recorded)
        case RunQuarantined() | LessonStruck():
            return lesson_changes(recorded)
        case _:
            return ()


ISSUES: Final = Projection(
    "issues",
    6,
    (TABLE, LINES, ENDED_RUNS, STRUCK),
    without_texts(project_issues),
    unchanged,
    only=(DraftCritiqued, *get_args(Following), RunStarted, RunErased, RunQuarantined, LessonStruck),
)
"""The projection that keeps the ledger."""


def digest(text: str) -> str:
    """Returns the identity of an issue: a hash of its words without case, line numbers and final punctuation."""
    words = " ".join(_LINE_NUMBERS.sub(" ", text.casefold()).split())
    return sha256(words.strip(" .,!;:").encode()).hexdigest()[:16]


async def issues_of(views: Views, run: str) -> list[Issue]:
    """Returns the issues of a run, in the order in which they were first listed."""
    columns = ", ".join(Issue.__struct_fields__)
    sql = f"SELECT {columns} FROM issues WHERE run = ? ORDER BY first, position, kind, text"  # noqa: S608
    return await views.read(row_decoder(Issue, "time"), sql, (run,))


async def issue_counts(views: Views, since: datetime | None = None, workflow: str = "") -> list[IssueCount]:
    """Returns the issues of each critic that changed since a time, in runs of a workflow or in all, by critic and kind.

    `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT critic, kind, count(*), sum(CASE WHEN status = 'fixed' THEN 1 ELSE 0 END),
            {_OPEN}, sum(CASE WHEN returns > 0 THEN 1 ELSE 0 END),
            sum(CASE WHEN declined IS NOT NULL THEN 1 ELSE 0 END), count(DISTINCT run)
        FROM issues WHERE repeated = 0 AND {where} GROUP BY critic, kind ORDER BY critic, kind
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(IssueCount), sql, given)


class Recurring(msgspec.Struct, frozen=True):
    """An issue of a critic in all runs: in how many it was raised, fixed, is open, came back, and was declined.

    `text` is one of its wordings, `last` (UTC) when it last changed.
    """

    critic: str
    kind: IssueKind
    text: str
    runs: int
    fixed: int
    open: int
    returned: int
    declined: int
    last: datetime


async def recurring_issues(
    views: Views, since: datetime | None = None, workflow: str = "", limit: int = 200
) -> list[Recurring]:
    """Returns at most `limit` issues that changed since a time, across runs: those that came back first, then the most
    raised.

    `workflow` needs `RUNS` in the same storage.
    """
    where, given = select_runs("time", since, workflow)
    sql = f"""
        SELECT critic, kind, max(text), count(DISTINCT run), sum(CASE WHEN status = 'fixed' THEN 1 ELSE 0 END),
            {_OPEN}, sum(CASE WHEN returns > 0 THEN 1 ELSE 0 END) AS back,
            sum(CASE WHEN declined IS NOT NULL THEN 1 ELSE 0 END), max(time)
        FROM issues WHERE repeated = 0 AND {where} GROUP BY critic, kind, digest
        ORDER BY back DESC, count(DISTINCT run) DESC, max(time) DESC, digest LIMIT :limit
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(Recurring, "last"), sql, {**given, "limit": limit})


def _with_drafts(recorded: Recorded, event: Following, row: Row | None) -> tuple[Row, Iterable[Change]]:
    """Returns the row of a run whose drafts went on, and the changes of what became of its issues."""
    lines = _lines_of(row)
    changes = list(_standing_changes(recorded, lines, follow_drafts(lines, event)))
    return _row_of(recorded, lines), changes


def _with_critique(recorded: Recorded, event: DraftCritiqued, row: Row | None) -> tuple[Row, Iterable[Change]]:
    """Returns the row of a run with a critique, and its changes: the issues that it lists, and what became of all."""
    lines = _lines_of(row)
    issues = list(_list_issues(event))
    source = f"{_step_of(event)} {text_of(lines, event.draft.version)}"
    listed = tuple((each[0], each[1]) for each in issues)
    verdict = Verdict(source, event.draft.version, listed, recorded.version, loop_of(event.path))
    changes: list[Change] = [_listed_change(recorded, event, source, each) for each in issues]
    changes += _standing_changes(recorded, lines, keep_verdict(lines, event, verdict))
    return _row_of(recorded, lines), changes


def _step_of(event: DraftCritiqued) -> str:
    """Returns the step of a critic in its plan; it may be asked in several iterations, and again after an edit."""
    return _ITERATION.sub("", event.path)


def _lines_of(row: Row | None) -> RunLines:
    return RunLines() if row is None else decode_lines(str(row["lines"]))


def _row_of(recorded: Recorded, lines: RunLines) -> Row:
    return {"run": recorded.run, "lines": encode_lines(lines)}


def _listed_change(recorded: Recorded, event: DraftCritiqued, source: str, listed: _Listed) -> Set:
    """Returns the change of an issue that a critique lists."""
    kind, digested, text, issue = listed
    run, draft = recorded.run, event.draft.version
    said: Row = {"latest": draft, "version": recorded.version, "repeated": int(bool(recorded.repeats))}
    said |= _NOWHERE if issue is None else _place_of(issue)
    new: Row = {"run": run, "source": source, "kind": kind, "digest": digested, "text": plain(text)}
    new |= {"critic": event.critique.critic or _step_of(event).rpartition("/")[2], "status": "dropped", "named": 0}
    new |= {"returns": 0, "first": draft, "fixed": None, "time": seconds(recorded.time)}
    new |= {"position": recorded.position, "mended": "", **_UNHEEDED}
    return Set("issues", (run, source, kind, digested), said, {"named": 1}, new=new | said)


def _standing_changes(recorded: Recorded, lines: RunLines, changed: Standings) -> Iterator[Change]:
    """Yields the changes of the issues that something else became of."""
    for issue, now in changed.items():
        source, kind, digested = issue.split("\n")
        values: Row = {"status": now.status, "fixed": now.fixed, "returns": now.returns}
        if now.fixed is not None:
            values["mended"] = lines.changes.get(now.fixed, "")
        yield Set("issues", (recorded.run, source, kind, digested), {**values, "time": seconds(recorded.time)})


def _place_of(issue: Issued) -> Row:
    return {"quote": plain(issue.quote), "criterion": plain(issue.criterion), "severity": issue.severity}


def _revision_changes(recorded: Recorded, event: DraftRefined) -> Iterator[Change]:
    """Yields changes: the issues that edits name are answered; those that the refiner would not act on are declined."""
    draft, time = event.draft.version, seconds(recorded.time)
    for named in dict.fromkeys(name for edit in event.edits for name in edit.issues):
        yield SetAll("issues", recorded.run, {"answered": draft, "time": time}, {"digest": (named,)})
    refused = {each.issue: each.reason for each in event.refusals}
    for line in event.declined:
        words, dash, why = line.partition(" — ")
        if dash:
            refused.setdefault(digest(words), why)
    for named, reason in refused.items():
        values: Row = {"declined": draft, "why": plain(reason), "time": time}
        yield SetAll("issues", recorded.run, values, {"digest": (named,)})


def _list_issues(event: DraftCritiqued) -> Iterator[_Listed]:
    """Yields each issue of a critique once: its kind, digest and words, and what is said of its place.

    Those that are kept encrypted cannot be told apart: they are one issue of each kind.
    """
    seen: set[tuple[str, str]] = set()
    own = {*event.critique.errors, *event.critique.weaknesses, *event.critique.suggestions}
    placed = {words for issue in event.critique.issues for words in (issue.line, issue.text)}
    for issue in event.critique.issues:
        sort: IssueKind = "error" if issue.severity == "error" else "suggestion"
        if (sort, issue.id) not in seen:
            seen.add((sort, issue.id))
            yield sort, issue.id, issue.text if issue.text in own or issue.text == ENCRYPTED else issue.line, issue
    kinds: tuple[IssueKind, IssueKind] = ("suggestion", "error")
    for kind, texts in zip(kinds, (event.critique.suggestions, event.critique.errors), strict=True):
        for text in texts:
            digested = ENCRYPTED if text == ENCRYPTED else digest(text)
            if text not in placed and (kind, digested) not in seen:
                seen.add((kind, digested))
                yield kind, digested, text, None
