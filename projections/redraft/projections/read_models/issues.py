"""The ledger of issues: what critics asked for in each run, when it was fixed, and whether it came back.

An issue is a suggestion or an error of one critic of one loop, identified by its id or, if it has none, by its words
without regard to case, spaces, line numbers and final punctuation. It is fixed when that critic no longer lists it,
answered when an edit names it, declined when a refiner says why it would not act on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.events.messages.content import Issue as Issued
from redraft.events.messages.domain_events import DraftCritiqued, DraftRefined, RunErased, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.redaction import ENCRYPTED
from redraft.projections.display import plain
from redraft.projections.engine.projection import (
    Change,
    Delete,
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
from redraft.projections.read_models.runs import select_runs

IssueKind: TypeAlias = Literal["suggestion", "error"]
IssueStatus: TypeAlias = Literal["raised", "fixed", "returned"]

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
    },
    key=4,
)
"""`source` is the critic's step without the number of its loop's iteration. `first`, `latest` and `fixed` are drafts:
the first and the last with this issue, and the one that fixed it. `position` is that of the first critique that listed
it, `version` that of the last, `time` that of the last change. `answered` and `declined` are the latest drafts that
were made to answer it, or without heeding it. `repeated` is 1 while only critiques that a fork repeats from its parent
have listed it.
"""

_UNHEEDED: Final[Row] = {"answered": None, "declined": None, "why": ""}
_NOWHERE: Final[Row] = {"quote": "", "criterion": "", "severity": ""}
_LINE_NUMBERS: Final = re.compile(r"\b(?:lines?|col|columns?)\s+\d+(?:[:-]\d+)*")
_ITERATION: Final = re.compile(r"\[[^\[\]]*\](?=[^\[\]]*$)")


class Issue(msgspec.Struct, frozen=True):
    """An issue of a run: `raised` (not yet fixed), `fixed` by the draft of that number, or `returned`.

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
    """The issues of a critic by kind: how many were raised, and how many are fixed, open, came back, were declined."""

    critic: str
    kind: IssueKind
    raised: int
    fixed: int
    open: int
    returned: int
    declined: int
    runs: int


def project_issues(recorded: Recorded) -> Sequence[Change]:
    """Returns the changes that a critique makes to the issues of its run."""
    match recorded.data:
        case DraftCritiqued():
            return tuple(_critique_changes(recorded, recorded.data))
        case DraftRefined():
            return tuple(_revision_changes(recorded, recorded.data))
        case RunStarted() | RunErased():
            return (Delete("issues", (recorded.run,)),)
        case _:
            return ()


ISSUES: Final = Projection(
    "issues",
    4,
    (TABLE,),
    without_texts(project_issues),
    unchanged,
    only=(DraftCritiqued, DraftRefined, RunStarted, RunErased),
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
            sum(CASE WHEN status <> 'fixed' THEN 1 ELSE 0 END), sum(CASE WHEN returns > 0 THEN 1 ELSE 0 END),
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
            sum(CASE WHEN status <> 'fixed' THEN 1 ELSE 0 END), sum(CASE WHEN returns > 0 THEN 1 ELSE 0 END) AS back,
            sum(CASE WHEN declined IS NOT NULL THEN 1 ELSE 0 END), max(time)
        FROM issues WHERE repeated = 0 AND {where} GROUP BY critic, kind, digest
        ORDER BY back DESC, count(DISTINCT run) DESC, max(time) DESC, digest LIMIT :limit
    """  # noqa: S608 - made of what stands there
    return await views.read(row_decoder(Recurring, "last"), sql, {**given, "limit": limit})


def _critique_changes(recorded: Recorded, event: DraftCritiqued) -> Iterator[Change]:
    """Yields changes: the issues that a critique lists are raised or return; its critic's other issues are fixed."""
    run, source, draft = recorded.run, _ITERATION.sub("", event.path), event.draft.version
    time = seconds(recorded.time)
    now: Row = {"latest": draft, "fixed": None, "version": recorded.version, "repeated": int(bool(recorded.repeats))}
    nowhere = now | _NOWHERE
    for kind, digested, text, issue in _list_issues(event):
        key = (run, source, kind, digested)
        yield Set("issues", key, {"status": "returned", "time": time}, {"returns": 1}, where={"status": ("fixed",)})
        new: Row = {"run": run, "source": source, "kind": kind, "digest": digested, "text": plain(text)}
        new |= {"critic": event.critique.critic or event.path.rpartition("/")[2], "status": "raised", "named": 0}
        new |= {"returns": 0, "first": draft, "time": time, "position": recorded.position, **_UNHEEDED}
        said = nowhere if issue is None else now | _place_of(issue)
        yield Set("issues", key, said, {"named": 1}, new=new | said)
    gone: Row = {"status": "fixed", "fixed": draft, "time": time}
    here = {"source": (source,), "status": ("raised", "returned")}
    yield SetAll("issues", run, gone, here, {"version": (recorded.version,)})


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


def _list_issues(event: DraftCritiqued) -> Iterator[tuple[IssueKind, str, str, Issued | None]]:
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
