"""Reads from the log what read models leave out: the texts of encrypted runs, and the commands of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from redraft.actors.runtime.relaying.request_builder import RequestBuilder
from redraft.app.subscribing.misfits import following_its_plan
from redraft.events.errors import EncryptionKeyMissing, InputError, suggest
from redraft.events.messages.commands import WORK_NAMES, Work
from redraft.events.messages.content import Draft
from redraft.events.messages.domain_events import (
    CriticSkipped,
    DraftEdited,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    ItemOf,
    RunEnded,
    RunQuarantined,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import run_of_item
from redraft.events.messages.redaction import ENCRYPTED
from redraft.events.store.event_store import EventStore
from redraft.projections.backends import open_views
from redraft.projections.display import plain
from redraft.projections.read_models.issues import ISSUES, Issue, issues_of, project_issues
from redraft.projections.read_models.publications import Publication
from redraft.projections.read_models.runs import brief_line
from redraft.projections.read_models.runs_query import RunLine

T = TypeVar("T")


async def with_texts(store: EventStore, found: Sequence[T]) -> list[T]:
    """Returns lines of read models with their texts, and those of runs whose key is not given as they are.

    Raises StoreError.
    """
    read: dict[str, list[Recorded]] = {}
    lines: list[object] = []
    for line in found:
        if not isinstance(line, RunLine | Publication | Issue) or ENCRYPTED not in _texts_of(line):
            lines.append(line)
            continue
        is_first = line.run not in read
        if is_first:
            read[line.run] = await _entries(store, line.run)
        lines.extend(await _restore(line, read[line.run], is_first=is_first))
    return cast("list[T]", lines)


async def _entries(store: EventStore, run: str) -> list[Recorded]:
    """Returns the events of a run that can be read; none without its key."""
    try:
        return [each for each in await store.entries(run) if isinstance(each, Recorded)]
    except EncryptionKeyMissing:
        return []


def _texts_of(line: RunLine | Publication | Issue) -> tuple[str, ...]:
    match line:
        case RunLine():
            return line.brief, line.reason
        case Publication():
            return line.location, line.note, line.sha256
        case Issue():
            return line.text, line.why


async def _restore(
    line: RunLine | Publication | Issue, events: Sequence[Recorded], *, is_first: bool
) -> Sequence[RunLine | Publication | Issue]:
    """Returns a line with its texts; for the first issue of a run, all of them, as they differ only in their texts."""
    match line:
        case _ if not events:
            return (line,)
        case RunLine():
            return (_restore_run(line, events),)
        case Publication():
            return (_restore_publication(line, events),)
        case Issue():
            return await _rebuild_issues(line.run, events) if is_first else ()


def _restore_run(line: RunLine, events: Sequence[Recorded]) -> RunLine:
    drafts: dict[int, Draft] = {}
    for recorded in events:
        match recorded.data:
            case RunStarted(brief=brief):
                line = replace(line, brief=brief_line(brief), source=brief.source)
            case DraftGenerated(draft=draft) | DraftRefined(draft=draft) | DraftEdited(draft=draft):
                drafts[draft.version] = draft
            case RunEnded(reason=reason) | RunQuarantined(reason=reason):
                line = replace(line, reason=reason)
            case _:
                pass
    known = drafts.get(line.draft.version) if line.draft else None
    return replace(line, draft=known.ref) if known else line


def _restore_publication(line: Publication, events: Sequence[Recorded]) -> Publication:
    for recorded in events:
        event = recorded.data
        if isinstance(event, DraftPublished) and (event.path, event.draft.version) == (line.path, line.draft):
            location, note = plain(event.receipt.location), plain(event.receipt.note)
            line = replace(line, location=location, note=note, sha256=event.draft.sha256)
    return line


async def _rebuild_issues(run: str, events: Sequence[Recorded]) -> list[Issue]:
    """Returns the ledger of one run, built in memory."""
    open_ledger = replace(ISSUES, apply=project_issues)
    async with open_views(None, (open_ledger,)) as views:
        at = [replace(each, position=each.version) for each in events]
        await views.write(at, 0)
        return await issues_of(views, run)


_MAX_NAMED: Final = 5

Read: TypeAlias = Callable[[str], Awaitable[Sequence[Recorded]]]
"""Returns all events of a run."""


class CommandSent(msgspec.Struct, frozen=True):
    """A command, by its stable name, and the request for it in the log: run, version, time (UTC).

    `run` is the run that sent the request: for one that a fork repeats, the run that it came from.
    """

    run: str
    version: int
    time: datetime
    name: str
    command: Work


async def find_command(events: Sequence[Recorded], path: str, attempt: int | None, read: Read) -> CommandSent:
    """Returns the command for a step of a run, as first sent: of its last attempt, or of `attempt` (from 1).

    Raises InputError for a step or an attempt that was not requested, and for an item, CodecError when the log no
    longer has its texts.
    """
    asked = _find_request(events, path, attempt)
    around: set[str] = set()
    while asked.repeats:
        around.add(events[0].run)
        events = await read(_parent_of(events))
        with following_its_plan(asked.run):
            asked = events[asked.version - 1]
        if asked.run in around:
            raise InputError(f"run {asked.run} repeats events, and is said to be a fork of itself")
    if not isinstance(asked.data, StepRequested):
        raise InputError(f"event {asked.version} of run {asked.run} asks for nothing")
    if asked.data.role == "run":
        raise InputError(_where_its_run_is(ItemOf(asked.run, path)))
    with following_its_plan(asked.run):
        work = RequestBuilder(events[: asked.version]).command(asked.run, asked.data, at=asked.time)
    return CommandSent(asked.run, asked.version, asked.time, WORK_NAMES[type(work)], work)


def _find_request(events: Sequence[Recorded], path: str, attempt: int | None) -> Recorded:
    """Returns the last request for this step, or for this attempt of it."""
    tries: dict[int, Recorded] = {}
    paths: dict[str, None] = {}
    for event in events:
        if isinstance(event.data, CriticSkipped):
            paths[event.data.path] = None
            if event.data.path == path:
                why = f": {event.data.reason}" if event.data.reason else ""
                left_out = f"{path} was skipped, and no worker was asked about draft {event.data.draft.version}{why}"
                raise InputError(f"--step: {left_out} (event {event.version})")
        if isinstance(event.data, StepRequested):
            paths[event.data.path] = None
            if event.data.path == path:
                tries[event.data.attempt] = event
    if not tries:
        raise InputError(f"--step: run {events[0].run} has no step {path!r} {_suggest_step(path, list(paths))}")
    number = max(tries) if attempt is None else attempt
    if number not in tries:
        there = ", ".join(map(str, tries))
        raise InputError(f"--attempt {number}: {path} was asked for in attempt {there}; give one of these")
    return tries[number]


def _where_its_run_is(item: ItemOf) -> str:
    inner = run_of_item(item)
    return (
        f"--step: {item.path} is an item, which run {inner} works on; see redraft show {inner}, "
        f"or what a step of it was given: redraft show {inner} --step PATH"
    )


def _suggest_step(path: str, paths: Sequence[str]) -> str:
    there = f"it has {', '.join(paths[:_MAX_NAMED])}{', …' if len(paths) > _MAX_NAMED else ''}"
    return f"by then; {suggest(path, paths, there)}"


def _parent_of(events: Sequence[Recorded]) -> str:
    begun = events[0].data
    if not isinstance(begun, RunStarted) or begun.parent is None:
        raise InputError(f"run {events[0].run} repeats events, and names no parent")
    return begun.parent.run
