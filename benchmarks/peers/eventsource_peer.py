"""eventsource-py on SQLite: one append for each step, with the version that it expects; no broker, no relay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

from eventsource import DomainEvent, SQLiteEventStore, StreamId, register_event
from eventsource.ports.positions import ExpectedVersion
from peers.work import COMMENT, ROUNDS, TEXT, Loop, main, refined


@register_event
class Drafted(DomainEvent):
    event_type: str = "Drafted"
    aggregate_type: str = "refinement"
    text: str


@register_event
class Critiqued(DomainEvent):
    event_type: str = "Critiqued"
    aggregate_type: str = "refinement"
    comment: str


@register_event
class Published(DomainEvent):
    event_type: str = "Published"
    aggregate_type: str = "refinement"
    text: str


@asynccontextmanager
async def open_eventsource(variant: str, folder: Path) -> AsyncIterator[Loop]:
    store = SQLiteEventStore(str(folder / "events.db"))

    async def one(name: str) -> str:
        run, drafts = uuid4(), [TEXT]
        stream, written = StreamId(aggregate_id=run, category="refinement"), 0

        async def append(kind: type[DomainEvent], **said: str) -> None:
            nonlocal written
            event = kind(aggregate_id=run, aggregate_version=written + 1, **said)
            await store.append(stream, [event], ExpectedVersion.exact(written))
            written += 1

        await append(Drafted, text=TEXT)
        for _ in range(ROUNDS):
            await append(Critiqued, comment=COMMENT)
            drafts.append(refined(drafts[-1]))
            await append(Drafted, text=drafts[-1])
        await append(Critiqued, comment=COMMENT)
        await append(Published, text=drafts[-1])
        return drafts[-1]

    try:
        yield one
    finally:
        await store.close()


if __name__ == "__main__":
    main(open_eventsource)
