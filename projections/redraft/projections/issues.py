"""The ledger of issues: what critics asked for in each run, when it was fixed, and whether it came back.

An issue is a suggestion or an error of one critic of one loop, told apart by its words without regard to case, spaces,
numbers of lines, and the mark at its end. It is fixed when that critic no longer names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.events.domain_events import DraftCritiqued, RunErased, RunStarted
from redraft.events.envelope import Recorded
from redraft.projections.lines import line_of
from redraft.projections.of_workflow import of_workflow
from redraft.projections.plain import plain
from redraft.projections.projection import (
    Change,
    Delete,
    Projection,
    Row,
    Set,
    SetAll,
    Table,
    Value,
    seconds,
    unchanged,
)
from redraft.projections.views import Views
from redraft.projections.without_texts import without_texts

Kind: TypeAlias = Literal["suggestion", "error"]
Status: TypeAlias = Literal["raised", "fixed", "returned"]

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
        "repeated": "INTEGER NOT NULL",
        "version": "INTEGER NOT NULL",
        "time": "REAL NOT NULL",
        "position": "INTEGER NOT NULL",
    },
    key=4,
)
"""`source` is the critic's step without the number of its loop's pass. `first`, `latest` and `fixed` are drafts: the
first and the last about which it was said, and that which mended it. `position` is that of the critique that named it
first, `version` that of the critique that named it last, `time` that of its last change. `repeated` is 1 while only
what a fork repeats of its parent has named it."""

_PLACE: Final = re.compile(r"\b(?:lines?|col|columns?)\s+\d+(?:[:-]\d+)*")
_PASS: Final = re.compile(r"\[[^\[\]]*\](?=[^\[\]]*$)")


class Issue(msgspec.Struct, frozen=True):
    """An issue of a run: `raised` (not yet fixed), `fixed` by the draft of that number, or `returned`.

    `text` is as it was first said. `named` counts the critiques that named it, `returns` how often it came back after
    it was fixed; `first` and `latest` are the drafts about which it was said first and last. `time` (UTC) is when it
    last changed.
    """

    run: str
    kind: Kind
    text: str
    critic: str
    status: Status
    named: int
    returns: int
    first: int
    latest: int
    fixed: int | None
    time: datetime


class IssueCount(msgspec.Struct, frozen=True):
    """The issues of a critic by kind: how many were raised in all, how many of them are fixed, and came back."""

    critic: str
    kind: Kind
    raised: int
    fixed: int
    open: int
    returned: int
    runs: int


def project_issues(recorded: Recorded) -> Sequence[Change]:
    """What a critique says of the issues of its run."""
    match recorded.data:
        case DraftCritiqued():
            return tuple(_critiqued(recorded, recorded.data))
        case RunStarted() | RunErased():
            return (Delete("issues", (recorded.run,)),)
        case _:
            return ()


ISSUES: Final = Projection("issues", 2, (TABLE,), without_texts(project_issues), unchanged)
"""The projection that keeps it."""


def digest(text: str) -> str:
    """What tells an issue from others: of its words without case and line numbers, and without the mark at its end."""
    words = " ".join(_PLACE.sub(" ", text.casefold()).split())
    return sha256(words.strip(" .,!;:").encode()).hexdigest()[:16]


async def issues_of(views: Views, run: str) -> list[Issue]:
    """The issues of a run, in the order in which they were first named."""
    sql = (
        "SELECT run, kind, text, critic, status, named, returns, first, latest, fixed, time FROM issues "
        "WHERE run = ? ORDER BY first, position, kind, text"
    )
    return await views.read(line_of(Issue, "time"), sql, (run,))


async def issue_counts(views: Views, since: datetime | None = None, workflow: str = "") -> list[IssueCount]:
    """The issues of each critic that changed since then, in runs of a workflow or in all, by critic and kind.

    `workflow` needs `RUNS` in the same place.
    """
    sql = f"""
        SELECT critic, kind, count(*), sum(CASE WHEN status = 'fixed' THEN 1 ELSE 0 END),
            sum(CASE WHEN status <> 'fixed' THEN 1 ELSE 0 END), sum(CASE WHEN returns > 0 THEN 1 ELSE 0 END),
            count(DISTINCT run)
        FROM issues WHERE repeated = 0 AND time >= :since {of_workflow(workflow)}
        GROUP BY critic, kind ORDER BY critic, kind
    """  # noqa: S608 - made of what stands there
    given: dict[str, Value] = {"since": seconds(since) if since else 0.0, "workflow": workflow}
    return await views.read(line_of(IssueCount), sql, given)


def _critiqued(recorded: Recorded, event: DraftCritiqued) -> Iterator[Change]:
    """Those it names come back or go on; those of the same critic that it does not name are fixed."""
    run, source, draft = recorded.run, _PASS.sub("", event.path), event.draft.version
    time = seconds(recorded.time)
    now: Row = {"latest": draft, "fixed": None, "version": recorded.version, "repeated": int(bool(recorded.repeats))}
    for kind, digested, text in _named(event):
        key = (run, source, kind, digested)
        yield Set("issues", key, {"status": "returned", "time": time}, {"returns": 1}, where={"status": ("fixed",)})
        new: Row = {"run": run, "source": source, "kind": kind, "digest": digested, "text": plain(text)}
        new |= {"critic": event.critique.critic or event.path.rpartition("/")[2], "status": "raised", "named": 0}
        new |= {"returns": 0, "first": draft, "time": time, "position": recorded.position, **now}
        yield Set("issues", key, now, {"named": 1}, new=new)
    gone: Row = {"status": "fixed", "fixed": draft, "time": time}
    here = {"source": (source,), "status": ("raised", "returned")}
    yield SetAll("issues", run, gone, here, {"version": (recorded.version,)})


def _named(event: DraftCritiqued) -> Iterator[tuple[Kind, str, str]]:
    """Each issue of a critique once: its kind, digest and words."""
    seen: set[tuple[str, str]] = set()
    kinds: tuple[Kind, Kind] = ("suggestion", "error")
    for kind, texts in zip(kinds, (event.critique.suggestions, event.critique.errors), strict=True):
        for text in texts:
            digested = digest(text)
            if (kind, digested) not in seen:
                seen.add((kind, digested))
                yield kind, digested, text
