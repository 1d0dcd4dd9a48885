"""Gathers the events of runs whose end a client waits for, and wakes those who wait, also where a start was refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from cachetools import LRUCache

from redraft.app.client.result import Result, result_of
from redraft.app.subscribing.misfits import unread
from redraft.app.subscribing.subscriber import is_end
from redraft.events.errors import InputError
from redraft.events.messages.envelope import Entry, Recorded

T = TypeVar("T")

REFUSED: Final = 256
"""The number of runs whose refused starts are remembered, for those who wait for them only then."""


@dataclass(slots=True)
class _Waiting:
    """A run that somebody waits for, and its events since the waiting began; `error` is why its end cannot be read."""

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
        self._refused: LRUCache[str, InputError] = LRUCache(REFUSED)

    def note_start(self, run: str, *, is_new: bool) -> None:
        """Notes that this client begins the run now; `wait` need not look whether a new one has ended already."""
        self._refused.pop(run, None)
        if is_new:
            self._begun.add(run)

    def refuse(self, run: str, why: str) -> None:
        """Ends all waits for a run that was never begun, as its start was refused."""
        self._refused[run] = error = InputError(f"run {run} was not begun: {why}")
        self._wake(run, error)

    async def wait(self, run: str) -> Result | None:
        """Waits until `note` sees the run's end; returns its result, None if the log does not have the run.

        Each who waits looks first whether the run has ended: none depends on another, who may be cancelled meanwhile.
        Raises SetAside where an event of the run cannot be read, InputError where its start was refused.
        """
        with self._joined(run) as waiting:
            if run not in self._begun and (known := await self._result(run)) is not None:
                return known
            await waiting.ended.wait()
        if waiting.error is not None:
            raise waiting.error
        story = waiting.story
        told = result_of(story) if story and story[0].version == 1 else None
        return told or await self._result(run)  # the log may have been read further than it was followed

    async def unless_refused(self, run: str, coming: Coroutine[Any, Any, T]) -> T:
        """Returns what is to come of a run. Raises InputError once its start was refused, as then nothing comes."""
        with self._joined(run) as waiting:
            ends = [first := asyncio.create_task(coming), asyncio.create_task(waiting.ended.wait())]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if run in self._refused and not first.done():
                    raise self._refused[run]
                return await first
            finally:
                for each in ends:
                    each.cancel()
                await asyncio.wait(ends)

    @contextmanager
    def _joined(self, run: str) -> Iterator[_Waiting]:
        """Yields the entry of a run, which lives as long as somebody waits; one that was refused has ended."""
        waiting = self._waiting.setdefault(run, _Waiting())
        waiting.waiters += 1
        if (refused := self._refused.get(run)) is not None:
            waiting.error = refused
            waiting.ended.set()
        try:
            yield waiting
        finally:
            waiting.waiters -= 1
            if not waiting.waiters and self._waiting.get(run) is waiting:
                del self._waiting[run]

    def note(self, entries: Iterable[Entry]) -> list[Recorded]:
        """Takes the next entries of the log: keeps those of awaited runs, and wakes those who wait for a run's end.

        Returns the events with which runs ended.
        """
        awaited, ends = self._waiting, []
        for entry in entries:
            self.reached = entry.position
            if self._refused:
                self._refused.pop(entry.run, None)
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
