"""Follows the log past the proxies, and knows of each run what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tests.chaos.campaign.workflow import TIMEOUT

from redraft.events.backends import open_store
from redraft.events.errors import StoreError
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DraftApproved,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    DraftRejected,
    RunEnded,
    RunPaused,
    RunResumed,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Entry, Recorded

LOOK: Final = 0.1
"""Seconds between two looks."""

BEYOND: Final = timedelta(seconds=60)
"""How long after a deadline, or without one, something has to have happened."""

ANSWERED: Final = timedelta(seconds=TIMEOUT)
"""In so much time a step is to be answered: what it has itself. That a request was lost is recorded an hour later."""

Answer = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished | StepFailed | VerdictLate


@dataclass(slots=True)
class Seen:
    """What is known of a run whose steps follow one another, but for those of a panel.

    `open` are requests that are waited for, and when each was asked for; `timers` say by path when something is due: an
    answer, another try, people's word. `latest` is when that was asked for which was answered last.
    """

    open: dict[tuple[str, int], datetime] = field(default_factory=dict)
    timers: dict[str, datetime] = field(default_factory=dict)
    asked: DraftRef | None = None
    paused: bool = False
    ended: bool = False
    last: datetime | None = None
    latest: datetime | None = None

    def note(self, event: Recorded) -> None:
        """Takes in the next event."""
        self.last = event.time
        match event.data:
            case StepRequested(path=path, attempt=attempt):
                self._move_on(path)
                self.open[path, attempt] = event.time
                self.timers[path] = event.time + ANSWERED
            case data if isinstance(data, Answer):
                self._answered(data)
            case ApprovalRequested(path=path, draft=draft, due=due):
                self._move_on(path)
                self.asked, self.timers[path] = draft, due
            case DraftApproved(granted=True) | DraftRejected() | ApprovalExpired():
                self.asked = None
                self.timers.pop(event.data.path, None)
            case RunPaused():
                self.paused = True
            case RunResumed():
                self.paused = False
                self.timers = {path: max(due, event.time) for path, due in self.timers.items()}
            case RunEnded():
                self.ended = True
                self.open, self.timers = {}, {}
            case _:
                pass

    def overdue(self, now: datetime) -> dict[str, datetime]:
        """What should have happened a minute ago, by its path, and when it was due."""
        if self.ended or self.last is None:
            return {}
        pause = {"its pause": self.last + 4 * BEYOND}
        waits = pause if self.paused else self.timers or {"what follows": self.last}
        return {path: due for path, due in waits.items() if due + BEYOND < now}

    def _answered(self, data: Answer) -> None:
        asked = self.open.pop((data.path, data.attempt), None)
        if asked is None:
            return
        self.latest = asked
        del self.timers[data.path]
        if isinstance(data, StepFailed) and data.retry_at is not None:
            self.timers[data.path] = data.retry_at

    def _move_on(self, path: str) -> None:
        """Nobody waits any more for what was asked for in another place."""
        place = path.rpartition("/")[0]
        for each in [each for each in self.timers if each != path and each.rpartition("/")[0] != place]:
            del self.timers[each]
        self.open = {key: at for key, at in self.open.items() if key[0] in self.timers}


class Watch:
    """`runs` by id; `latest` is when that was asked for which was answered, the latest of all answers."""

    def __init__(self, store: str) -> None:
        self.runs: dict[str, Seen] = {}
        self.latest: datetime | None = None
        self.position = 0
        self._store = store

    async def follow(self) -> None:
        """Follows the log until it is cancelled, however often the server is away."""
        while True:
            with suppress(StoreError):
                async with await asyncio.to_thread(open_store, self._store) as store:
                    while True:
                        async for batch in store.tail(self.position, follow=False):
                            self.take(batch)
                        await asyncio.sleep(LOOK)
            await asyncio.sleep(LOOK)

    def take(self, batch: Sequence[Entry]) -> None:
        """Takes in what follows in the log."""
        for event in batch:
            if isinstance(event, Recorded):
                seen = self.runs.setdefault(event.run, Seen())
                seen.note(event)
                self.latest = max((each for each in (self.latest, seen.latest) if each), default=None)
            self.position = event.position

    @property
    def going(self) -> dict[str, Seen]:
        return {run: seen for run, seen in self.runs.items() if not seen.ended}

    @property
    def open(self) -> set[tuple[str, str, int]]:
        """Every request that is waited for in a run that goes on and is not paused."""
        return {(run, *place) for run, seen in self.going.items() if not seen.paused for place in seen.open}
