"""What a deployment logs of its runs: that they began, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structlog.typing import FilteringBoundLogger

from redraft.events.bus import Announcer
from redraft.events.domain_events import RunEnded, RunStarted
from redraft.events.envelope import Recorded
from redraft.events.filters import About


class Narration:
    """Announces events, and logs the first and the last of each run: names and numbers, no text."""

    def __init__(self, announcer: Announcer, log: FilteringBoundLogger) -> None:
        self._announcer = announcer
        self._log = log

    async def announce(self, events: Sequence[Recorded], facts: Mapping[str, About]) -> None:
        await self._announcer.announce(events, facts)
        for event in events:
            match event.data:
                case RunStarted(plan=plan):
                    self._log.info("run started", run=event.run, workflow=plan.name)
                case RunEnded(outcome=outcome, iterations=iterations, score=score):
                    self._log.info("run ended", run=event.run, outcome=outcome, iterations=iterations, score=score)
                case _:
                    pass
