"""What a program does with Redraft: submit a brief, wait for the result, follow the events, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from redraft.actors.pinning import pinned
from redraft.actors.workflow import Workflow
from redraft.app.result import Result, result_of
from redraft.events.bus import INBOX, Bus, Letter
from redraft.events.codec import encode_message
from redraft.events.commands import CancelRun, Message, StartRun
from redraft.events.content import Brief, checked
from redraft.events.domain_events import RunEnded
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import NoSuchRun
from redraft.events.filters import About, about
from redraft.events.plan import Plan
from redraft.events.store import EventStore
from redraft.events.tags import checked_tags


@dataclass(slots=True)
class _Waiting:
    """A run that somebody waits for, and its events from when the waiting began."""

    ended: asyncio.Future[None]
    story: list[Recorded]


class Client:
    """Speaks to a deployment: sends to its inbox, reads from its log. Made by `redraft.app.compose`."""

    def __init__(
        self,
        store: EventStore,
        bus: Bus,
        adopt: Callable[[str, bool], Awaitable[None]],
        let_go: Callable[[str], None],
        new_run_id: Callable[[], str],
        new_message_id: Callable[[], str],
        limit: int,
    ) -> None:
        self._store = store
        self._bus = bus
        self._adopt = adopt
        self._let_go = let_go
        self._new_run_id = new_run_id
        self._new_message_id = new_message_id
        self._limit = limit
        self._fresh: set[str] = set()
        self._waiting: dict[str, _Waiting] = {}

    async def submit(
        self,
        workflow: Workflow | Plan,
        brief: Brief | str,
        *,
        key: str = "",
        tags: Iterable[str] = (),
        by: str = "client",
    ) -> str:
        """Starts a run and gives its id; with the same `key` it is the same run, however often it is submitted.

        The plan of a Workflow names the versions of the actors that it was built with; a Plan is taken as it is.
        `tags` are words to find it by: at most 10, each of 64 letters, digits, `_ . : / -` at most. Raises ContentError
        when the brief is empty or too large, PlanError when the plan is faulty, InputError for a tag that is none.
        """
        chosen = checked_tags(tags)
        plan = pinned(workflow.plan, workflow.actors.values()) if isinstance(workflow, Workflow) else workflow
        asked = Brief(brief) if isinstance(brief, str) else brief
        checked(asked.text, f"brief {asked.source}".rstrip(), self._limit)
        run = f"k{sha256(key.encode()).hexdigest()[:25]}" if key else self._new_run_id()
        await self._adopt(run, bool(key))
        if not key:
            self._fresh.add(run)
        await self._send(StartRun(run, plan, asked, key, chosen), by)
        return run

    async def cancel(self, run: str, reason: str, *, by: str = "client") -> None:
        """Ends a run as cancelled; nothing happens when it has ended already."""
        await self._send(CancelRun(run, reason, by), by)

    async def _send(self, message: Message, by: str) -> None:
        name, body = encode_message(message)
        await self._bus.publish(
            INBOX, [Letter(name, body, Origin(self._new_message_id(), by, "", message.run), message.run)]
        )

    async def wait(self, run: str) -> Result:
        """The result of a run, once it has ended. Raises NoSuchRun when the log has lost it meanwhile."""
        waiting = self._waiting.get(run)
        if waiting is None:
            waiting = self._waiting[run] = _Waiting(asyncio.get_running_loop().create_future(), [])
            if run not in self._fresh and await self.result(run) is not None:
                self._end(run)
        await asyncio.shield(waiting.ended)
        story = waiting.story
        result = result_of(story) if story and story[0].version == 1 else await self.result(run)
        if result is None:
            raise NoSuchRun(run)
        return result

    async def result(self, run: str) -> Result | None:
        """The result of a run that has ended; None while it goes on, or before its start is recorded."""
        return result_of(await self._store.read(run))

    async def notice(self, after: int) -> None:
        """Gathers what is waited for, and wakes those who wait; runs for as long as the client is open."""
        async for batch in self._store.tail(after):
            for event in batch:
                if waiting := self._waiting.get(event.run):
                    waiting.story.append(event)
                if isinstance(event.data, RunEnded):
                    self._let_go(event.run)
                    self._end(event.run)

    def _end(self, run: str) -> None:
        self._fresh.discard(run)
        if (waiting := self._waiting.pop(run, None)) and not waiting.ended.done():
            waiting.ended.set_result(None)

    async def history(self, run: str, upto: int | None = None) -> tuple[Recorded, ...]:
        """The events of a run, oldest first, up to a version. Raises NoSuchRun."""
        events = await self._store.read(run, upto)
        if not events:
            raise NoSuchRun(run)
        return events

    async def about(self, run: str) -> About:
        """What a run is, for a filter of events; nothing for one that is not known."""
        first = await self._store.read(run, upto=1)
        return (first and about(first[0])) or About()

    async def subscribe(self, after: int = 0, *, run: str = "", follow: bool = True) -> AsyncIterator[Recorded]:
        """Every event after this position, in log order, as it is recorded; with `run`, those of one run."""
        async for batch in self._store.tail(after, follow=follow):
            for event in batch:
                if not run or event.run == run:
                    yield event
