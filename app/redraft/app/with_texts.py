"""Putting the texts of encrypted runs, which read models do not hold, back from the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

import msgspec

from redraft.events.content import Draft
from redraft.events.domain_events import (
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    RunEnded,
    RunQuarantined,
    RunStarted,
)
from redraft.events.envelope import Recorded
from redraft.events.store import EventStore
from redraft.events.texts import ENCRYPTED
from redraft.projections.issues import ISSUES, Issue, issues_of, project_issues
from redraft.projections.plain import plain
from redraft.projections.publications import Publication
from redraft.projections.run_list import RunLine
from redraft.projections.runs import brief_line
from redraft.projections.views import open_views

T = TypeVar("T")


async def with_texts(store: EventStore, found: Sequence[T]) -> list[T]:
    """Returns lines of read models with their texts. Raises Sealed without the key, and StoreError."""
    read: dict[str, list[Recorded]] = {}
    lines: list[object] = []
    for line in found:
        if not isinstance(line, RunLine | Publication | Issue) or ENCRYPTED not in _texts(line):
            lines.append(line)
            continue
        is_first = line.run not in read
        if is_first:
            read[line.run] = [each for each in await store.entries(line.run) if isinstance(each, Recorded)]
        lines.extend(await _told(line, read[line.run], is_first=is_first))
    return cast("list[T]", lines)


def _texts(line: RunLine | Publication | Issue) -> tuple[str, ...]:
    match line:
        case RunLine():
            return line.brief, line.reason
        case Publication():
            return line.location, line.note, line.sha256
        case Issue():
            return (line.text,)


async def _told(
    line: RunLine | Publication | Issue, events: Sequence[Recorded], *, is_first: bool
) -> Sequence[RunLine | Publication | Issue]:
    """Returns a line with its texts; for the first issue of a run all of them, which differ in their texts alone."""
    match line:
        case _ if not events:
            return (line,)
        case RunLine():
            return (_run(line, events),)
        case Publication():
            return (_publication(line, events),)
        case Issue():
            return await _issues(line.run, events) if is_first else ()


def _run(line: RunLine, events: Sequence[Recorded]) -> RunLine:
    drafts: dict[int, Draft] = {}
    for recorded in events:
        match recorded.data:
            case RunStarted(brief=brief):
                line = msgspec.structs.replace(line, brief=brief_line(brief), source=brief.source)
            case DraftGenerated(draft=draft) | DraftRefined(draft=draft) | DraftEdited(draft=draft):
                drafts[draft.version] = draft
            case RunEnded(reason=reason) | RunQuarantined(reason=reason):
                line = msgspec.structs.replace(line, reason=reason)
            case _:
                pass
    known = drafts.get(line.draft.version) if line.draft else None
    return msgspec.structs.replace(line, draft=known.ref) if known else line


def _publication(line: Publication, events: Sequence[Recorded]) -> Publication:
    for recorded in events:
        match recorded.data:
            case DraftPublished(path=line.path, draft=draft, receipt=receipt) if draft.version == line.draft:
                told = {"location": plain(receipt.location), "note": plain(receipt.note), "sha256": draft.sha256}
                line = msgspec.structs.replace(line, **told)
            case _:
                pass
    return line


async def _issues(run: str, events: Sequence[Recorded]) -> list[Issue]:
    """The ledger of one run, made in memory."""
    open_ledger = msgspec.structs.replace(ISSUES, apply=project_issues)
    async with await open_views(None, (open_ledger,)) as views:
        at = [msgspec.structs.replace(each, position=each.version) for each in events]
        await views.write(at, 0)
        return await issues_of(views, run)
