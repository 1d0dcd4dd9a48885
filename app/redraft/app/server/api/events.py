"""Events as they are recorded: as a stream that goes on where its reader was, or a page at a time, waiting for more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import Annotated, Final, TypeAlias

import msgspec
from litestar import Response, get
from litestar.di import NamedDependency, Provide
from litestar.params import HeaderParameter, QueryParameter, SkipValidation
from litestar.response import Stream

from redraft.app.process.times import moment_of
from redraft.app.server.api.answers import Released, answer
from redraft.app.server.api.parameters import Limit, Since, Until
from redraft.app.server.problems import Refused, problem_of
from redraft.app.server.service import Serves, Service
from redraft.app.subscribing.feed import Batch, StoreFeed
from redraft.events.errors import RedraftError
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import EventFilter, event_filter
from redraft.projections.read_models.runs_query import find_run, first_position

HEARTBEAT: Final = 15.0
"""Seconds without an event after which a stream says that it is alive."""

AT_ONCE: Final = 64 * 1024
"""Bytes of events from which on they are sent without waiting for more of the same batch."""

SLOW: Final = 5.0
"""Seconds that a reader took for what it was sent, after which it is told how far it is behind."""

RECONNECT: Final = 2_000
"""Milliseconds after which a browser whose stream has ended calls again."""

Several: TypeAlias = list[str] | None
Runs: TypeAlias = Annotated[Several, QueryParameter(name="run", max_items=100, description="Only of these runs.")]
Types: TypeAlias = Annotated[
    Several, QueryParameter(name="type", max_items=100, description="Only of these types: draft.critiqued.")
]
Workflows: TypeAlias = Annotated[
    Several, QueryParameter(name="workflow", max_items=100, description="Only of runs of these workflows.")
]
Tags: TypeAlias = Annotated[
    Several, QueryParameter(name="tag", max_items=100, description="Only of runs with one of these tags.")
]
Outcomes: TypeAlias = Annotated[
    Several, QueryParameter(name="outcome", max_items=20, description="Only ends of loops and runs with these.")
]
Position: TypeAlias = Annotated[
    int | None, QueryParameter(ge=0, le=2**63 - 1, description="Those after this position of the log.")
]
LastSeen: TypeAlias = Annotated[
    int | None,
    HeaderParameter(name="Last-Event-ID", ge=0, le=2**63 - 1, description="The position of the last event seen."),
]
Wait: TypeAlias = Annotated[float, QueryParameter(ge=0, le=60, description="Seconds to wait for the first event.")]

Fitting: TypeAlias = NamedDependency[SkipValidation[EventFilter]]


class EventPage(msgspec.Struct, frozen=True):
    """Events, the oldest first. The next page is that `after` the `position`, up to which nothing was left out."""

    events: Sequence[Recorded]
    position: int


async def _criteria(
    service: Serves,
    runs: Runs = None,
    types: Types = None,
    workflows: Workflows = None,
    tags: Tags = None,
    outcomes: Outcomes = None,
    since: Since = "",
    until: Until = "",
) -> EventFilter:
    """Returns the filter that the parameters mean. Raises InputError, NoSuchRun."""
    return event_filter(
        types=types or (),
        runs=[(await find_run(service.runtime.views, each)).run for each in runs or ()],
        workflows=workflows or (),
        tags=tags or (),
        outcomes=outcomes or (),
        since=moment_of(since, "since"),
        until=moment_of(until, "until"),
    )


_CRITERIA: Final = {"criteria": Provide(_criteria)}


@get("/events", answer=EventPage, summary="Read events, or wait for them", dependencies=_CRITERIA)
async def list_events(
    service: Serves,
    criteria: Fitting,
    after: Position = None,
    limit: Limit = 100,
    wait: Wait = 0,
) -> Response[bytes]:
    """Gives the events that fit, from a position on; where there are none it waits, for those who cannot stream."""
    start = await _start(service, after, criteria, 0)
    page = await read_events(service, criteria, start, limit)
    if not page.events and wait:
        page = await _await_page(service, criteria, page.position, limit, wait)
    return answer(page)


@get("/events/stream", summary="Follow events", media_type="text/event-stream", dependencies=_CRITERIA)
async def stream_events(
    service: Serves,
    criteria: Fitting,
    after: Position = None,
    last_seen: LastSeen = None,
) -> Stream:
    """Sends each event that fits as a server-sent event whose id is its position: with `Last-Event-ID` none twice.

    Without a position it begins with what is recorded from now on, or since that time.
    """
    begin = last_seen if last_seen is not None else after
    head = await service.runtime.store.head()
    start = await _start(service, begin, criteria, head)
    if service.readers.count >= service.settings.http.streams:
        told = f"{service.readers.count} readers follow events already; come again, or ask for pages"
        raise Refused(503, "streams", told, {"Retry-After": "5"})
    unbuffered = {"X-Accel-Buffering": "no"}
    return Stream(Released(_following(service, criteria, start)), media_type="text/event-stream", headers=unbuffered)


async def _start(service: Service, after: int | None, criteria: EventFilter, otherwise: int) -> int:
    """Returns the position to read after. Raises Refused for one that the log has not reached: it is another log's."""
    if after is not None:
        head = await service.runtime.store.head()
        if after > head:
            told = f"position {after} is of another log: this one ends at {head}; begin anew"
            raise Refused(409, "another-log", told)
        return after
    if criteria.since is None:
        return otherwise
    found = await first_position(service.runtime.views, criteria.since)
    return service.runtime.views.position if found is None else found - 1


async def read_events(service: Service, criteria: EventFilter, after: int, limit: int) -> EventPage:
    """Returns what there is now."""
    events: list[Recorded] = []
    async with aclosing(StoreFeed(service.runtime.store).read(after, criteria, follow=False)) as batches:
        async for batch in batches:
            events += batch.events
            after = batch.position
            if len(events) >= limit:
                events = events[:limit]
                return EventPage(events, events[-1].position if len(events) == limit else after)
    return EventPage(events, after)


async def _await_page(service: Service, criteria: EventFilter, after: int, limit: int, wait: float) -> EventPage:
    """Returns the first events to come; none after so many seconds, and when the server ends."""
    closing = asyncio.create_task(service.closing.wait())
    batches = StoreFeed(service.runtime.store).read(after, criteria)
    end = time.monotonic() + wait
    try:
        while (left := end - time.monotonic()) > 0:
            coming = asyncio.ensure_future(anext(batches))
            try:
                await asyncio.wait({coming, closing}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    break
                batch = coming.result()
            finally:
                await _cancelled(coming)
            after = batch.position
            if batch.events:
                events = batch.events[:limit]
                return EventPage(events, after if len(batch.events) <= limit else events[-1].position)
    finally:
        await _cancelled(closing)
        await batches.aclose()
    return EventPage((), after)


async def _following(service: Service, criteria: EventFilter, after: int) -> AsyncGenerator[bytes, None]:
    """Yields the events after a position for one reader, however slow: it holds one batch of them at most."""
    feed = StoreFeed(service.runtime.store).read(after, criteria)
    with service.readers.one():
        async with aclosing(feed) as batches, aclosing(_parts(service, batches, after)) as parts:
            async for part in parts:
                sent = time.monotonic()
                yield part.encoded
                if part.position and time.monotonic() - sent > SLOW:
                    yield await _behind(service, part.position)


class _Part(msgspec.Struct, frozen=True):
    """Bytes to send at once, and the position of the log up to which they go; 0 where they hold no event."""

    encoded: bytes
    position: int = 0


async def _parts(service: Service, batches: AsyncGenerator[Batch, None], after: int) -> AsyncGenerator[_Part, None]:
    """Yields what to send: where it begins, events, signs of life, and why it ends."""
    yield _Part(b"retry: %d\nid: %d\n\n" % (RECONNECT, after))
    closing = asyncio.create_task(service.closing.wait())
    coming = asyncio.ensure_future(anext(batches))
    try:
        while not closing.done():
            await asyncio.wait({coming, closing}, timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                batch = coming.result()
                for part in _encode(batch):
                    yield part
                coming = asyncio.ensure_future(anext(batches))
            elif not closing.done():
                yield _Part(b": alive\n\n")
        yield _Part(_note("end", {"why": "the server ends; call again with the id of the last event"}))
    except RedraftError as error:
        found = problem_of(error)
        yield _Part(_note("error", found))
    finally:
        await _cancelled(coming)
        await _cancelled(closing)


def _encode(batch: Batch) -> Iterator[_Part]:
    """Yields a batch as server-sent events, many small ones at once; its position alone where nothing is wanted."""
    waiting = bytearray()
    for each in batch.events:
        waiting += b"id: %d\ndata: %b\n\n" % (each.position, msgspec.json.encode(each))
        if len(waiting) >= AT_ONCE:
            yield _Part(bytes(waiting), each.position)
            waiting.clear()
    if not batch.events or batch.events[-1].position < batch.position:
        waiting += b"id: %d\n\n" % batch.position
    if waiting:
        yield _Part(bytes(waiting), batch.position)


async def _behind(service: Service, position: int) -> bytes:
    """Returns what tells a slow reader how far it is behind; nothing where it is not."""
    head = await service.runtime.store.head()
    if head <= position:
        return b": caught up\n\n"
    return _note("behind", {"position": position, "head": head, "events": head - position})


def _note(kind: str, what: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode(what))


async def _cancelled(task: asyncio.Future[object] | asyncio.Task[object]) -> None:
    """Ends a task that nobody waits for any more."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        with suppress(Exception):
            task.result()


HANDLERS: Final = (list_events, stream_events)
