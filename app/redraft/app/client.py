"""What a program does with Redraft: submit a brief, wait for the result, follow the events, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from redraft.actors.pinning import pinned
from redraft.actors.workflow import Workflow
from redraft.app.result import Result, result_of
from redraft.events.bus import INBOX, Bus, Letter
from redraft.events.codec import encode_message
from redraft.events.commands import (
    CancelRun,
    ChangeLimits,
    EraseRun,
    GuideRun,
    Message,
    PauseRun,
    ResumeRun,
    StartRun,
    SteeringMessage,
)
from redraft.events.conditions import Condition
from redraft.events.content import Brief, checked
from redraft.events.domain_events import Outcome, RunEnded, RunStarted
from redraft.events.envelope import Origin, Recorded
from redraft.events.errors import InputError, NoSuchRun
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
        let_go: Callable[[str, Outcome], None],
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
        when the brief is empty or too large, PlanError when the plan is faulty, InputError for a tag that is none
        and for a key that was used for another brief or workflow.
        """
        chosen = checked_tags(tags)
        plan = pinned(workflow.plan, workflow.actors.values()) if isinstance(workflow, Workflow) else workflow
        asked = Brief(brief) if isinstance(brief, str) else brief
        checked(asked.text, f"brief {asked.source}".rstrip(), self._limit)
        run = f"k{sha256(key.encode()).hexdigest()[:25]}" if key else self._new_run_id()
        if key:
            await self._require_same(run, plan, asked, key)
        else:
            self._fresh.add(run)
        await self._adopt(run, bool(key))
        await self._send(StartRun(run, plan, asked, key, chosen), by)
        return run

    async def _require_same(self, run: str, plan: Plan, brief: Brief, key: str) -> None:
        """Raises InputError when the run of this key is recorded and has another brief or workflow."""
        for event in await self._store.read(run, upto=1):
            begun = event.data
            if isinstance(begun, RunStarted) and (begun.plan.name, begun.brief.text) != (plan.name, brief.text):
                what = "brief" if begun.brief.text != brief.text else f"workflow, {begun.plan.name}"
                raise InputError(f"key {key!r} was used for another {what}: run {run}; give another key")

    async def cancel(self, run: str, reason: str = "", *, by: str = "client") -> None:
        """Ends a run as cancelled, and stops what is under way; nothing happens when it has ended already."""
        await self.steer(CancelRun(run, reason, by))

    async def guide(self, run: str, advice: str, *, reason: str = "", by: str = "client") -> None:
        """Gives advice to the next refinement, which finds it in its `history.advice`."""
        await self.steer(GuideRun(run, advice, reason, by))

    async def limits(
        self,
        run: str,
        *,
        until: Condition | None = None,
        max_iterations: int | None = None,
        loop: str = "",
        reason: str = "",
        by: str = "client",
    ) -> None:
        """Changes when a loop ends, from its next critique on. `loop` is its path in the plan.

        Without one it is the outermost loop. Nothing happens when there is no such loop, or the plan were wrong then.
        """
        await self.steer(ChangeLimits(run, loop, until, max_iterations, reason, by))

    async def pause(self, run: str, reason: str = "", *, by: str = "client") -> None:
        """Asks for nothing more until the run is resumed; what is under way is still recorded."""
        await self.steer(PauseRun(run, reason, by))

    async def resume(self, run: str, reason: str = "", *, by: str = "client") -> None:
        """Goes on with a run that is paused."""
        await self.steer(ResumeRun(run, reason, by))

    async def steer(self, message: SteeringMessage) -> str:
        """Says this to a run that goes on, once in effect; gives the message's id, which its event's id begins with."""
        said = self._new_message_id()
        await self._send(msgspec.structs.replace(message, key=message.key or said), message.by, said)
        return said

    async def erased(self, run: str, reason: str = "", *, by: str) -> None:
        """Records that the texts of a run were made unreadable; nothing happens when that is recorded already."""
        await self._send(EraseRun(run, by, reason), by)

    async def _send(self, message: Message, by: str, said: str = "") -> None:
        name, body = encode_message(message)
        origin = Origin(said or self._new_message_id(), by, "", message.run)
        await self._bus.publish(INBOX, [Letter(name, body, origin, message.run)])

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
                    self._let_go(event.run, event.data.outcome)
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
