"""Gathers the events of runs whose end a client waits for, and wakes those who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from redraft.app.client.result import Result, result_of
from redraft.app.subscribing.misfits import unread
from redraft.app.subscribing.subscriber import is_end
from redraft.events.messages.envelope import Entry, Recorded


@dataclass(slots=True)
class _Waiting:
    """A run that somebody waits for, and its events since the waiting began; `error` is why it cannot be read."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    story: list[Recorded] = field(default_factory=list)
    error: Exception | None = None
    waiters: int = 0


class AwaitedRuns:
    """The runs whose end is awaited. `result` reads the result of a run from the log; None if it has not ended.

    `reached` is the position of the last entry that it took.
    """

    def __init__(self, result: Callable[[str], Awaitable[Result | None]]) -> None:
        self.reached = 0
        self._result = result
        self._begun: set[str] = set()
        self._waiting: dict[str, _Waiting] = {}

    def note_begun(self, run: str) -> None:
        """Notes that this client begins the run now: then `wait` need not look whether it has ended already."""
        self._begun.add(run)

    async def wait(self, run: str) -> Result | None:
        """Waits until `note` sees the run's end; returns its result, None if the log does not have the run.

        Each who waits looks first whether the run has ended: none depends on another, who may be cancelled meanwhile.
        Raises SetAside where an event of the run cannot be read.
        """
        waiting = self._waiting.setdefault(run, _Waiting())
        waiting.waiters += 1
        try:
            if run not in self._begun and (known := await self._result(run)) is not None:
                return known
            await waiting.ended.wait()
        finally:
            waiting.waiters -= 1
            if not waiting.waiters and self._waiting.get(run) is waiting:
                del self._waiting[run]
        if waiting.error is not None:
            raise waiting.error
        story = waiting.story
        told = result_of(story) if story and story[0].version == 1 else None
        return told or await self._result(run)  # the log may have been read further than it was followed

    def note(self, entries: Iterable[Entry]) -> list[Recorded]:
        """Takes the next entries of the log: keeps those of awaited runs, and wakes those who wait for a run's end.

        Returns the events with which runs ended.
        """
        awaited, ends = self._waiting, []
        for entry in entries:
            self.reached = entry.position
            if not isinstance(entry, Recorded):
                self._wake(entry.run, unread(entry))
                continue
            if (waiting := awaited.get(entry.run)) is not None:
                waiting.story.append(entry)
            if is_end(entry):
                ends.append(entry)
                self._wake(entry.run)
        return ends

    def _wake(self, run: str, error: Exception | None = None) -> None:
        """Wakes those who wait for a run; with an `error` their `wait` raises it."""
        self._begun.discard(run)
        if (waiting := self._waiting.pop(run, None)) is not None:
            waiting.error = error
            waiting.ended.set()
