"""What a deployment logs: that runs began and how they ended, and what becomes of its projections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, assert_never

from redraft.actors.trouble import Blocked, Freed, LeftOut, Refused, Trouble
from redraft.events.bus import Announcer
from redraft.events.domain_events import RunEnded, RunQuarantined, RunStarted
from redraft.events.envelope import Recorded
from redraft.events.filters import About
from redraft.projections.compare import Switched
from redraft.projections.faults import Resumed, SetAside, Stopped
from redraft.projections.writer import Notice

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class Narration:
    """Announces events, and logs that runs began, ended or were set aside: names and numbers, no text."""

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
                case RunQuarantined(by=by):
                    self._log.warning("run quarantined", run=event.run, by=by)
                case _:
                    pass


def tell_of_trouble(log: FilteringBoundLogger, trouble: Trouble) -> None:
    """Logs what is wrong with one run or one queue, while everything else goes on."""
    match trouble:
        case Refused(run, position, path, fault):
            log.error("step refused", run=run, position=position, path=path, error=fault)
        case LeftOut(run, position, fault):
            log.error("left out", run=run, position=position, error=fault)
        case Blocked(queue, fault):
            log.warning("queue cannot be used", queue=queue, error=fault)
        case Freed(queue):
            log.info("queue can be used", queue=queue)
        case _:
            assert_never(trouble)


def tell_of_projection(log: FilteringBoundLogger, notice: Notice) -> None:
    """Logs that a projection has stopped, goes on, or has taken the place of its earlier rows."""
    match notice:
        case Stopped(projection, position, failed, error):
            log.error("projection stopped", projection=projection, position=position, at=failed, error=error)
        case SetAside(run, version, position, error):
            log.warning("run set aside", run=run, version=version, position=position, error=error)
        case Resumed(projection, position):
            log.info("projection goes on", projection=projection, position=position)
        case Switched():
            log.info(
                "projection switched",
                projection=notice.projection,
                before=notice.before,
                version=notice.version,
                position=notice.position,
                rows={name: table.after for name, table in notice.tables.items()},
                differ={name: table.differ for name, table in notice.tables.items()},
            )
        case _:
            assert_never(notice)
