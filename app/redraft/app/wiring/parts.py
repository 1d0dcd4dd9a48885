"""Builds the parts of a running system, and logs what they report: coordinator, relay, worker and timekeeper.

One process starts all of them (`local`); in a deployment each process starts its own (`coordinating`, `deployment`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol, assert_never

from redraft.actors.runtime.admission import Authority
from redraft.actors.runtime.coordinating.aggregates import no_trace
from redraft.actors.runtime.coordinating.command_handler import CommandHandler, Resend
from redraft.actors.runtime.coordinating.coordinator import Coordinator, Outlasts, outlasts_nothing
from redraft.actors.runtime.coordinating.recalling import find_earlier
from redraft.actors.runtime.coordinating.setting_aside import Report
from redraft.actors.runtime.coordinating.sharing import Share
from redraft.actors.runtime.coordinating.timekeeper import QueueMonitor, Timekeeper
from redraft.actors.runtime.relaying.queue_publisher import Blocked, Freed, LeftOut, OnTrouble, Refused, Trouble
from redraft.actors.runtime.relaying.relay import Relay
from redraft.actors.runtime.working.active_calls import Differs, OnRestart
from redraft.actors.runtime.working.call import OnError
from redraft.actors.runtime.working.worker import Worker
from redraft.actors.values import ignore
from redraft.actors.workflow.actor import Actor
from redraft.app.isolation.isolated_actor import Isolation
from redraft.app.process.ids import new_message_id
from redraft.app.process.lifecycle import Part
from redraft.app.settings.settings import Settings
from redraft.app.telemetry.telemetry import find_telemetry
from redraft.app.wiring.coordinator_views import ArmTallies, StepsAgenda
from redraft.app.wiring.earlier_lessons import EarlierLessons
from redraft.app.wiring.earlier_verdicts import EarlierVerdicts
from redraft.events.bus.port import Bus, DeadLetter, EventPublisher, PeerChannel, Queues
from redraft.events.errors import RedraftError
from redraft.events.messages.domain_events import RunEnded, RunQuarantined, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import RunFacts
from redraft.events.messages.tracing import parse_traceparent
from redraft.events.store.event_store import EventStore
from redraft.projections.backends import ReadModels
from redraft.projections.engine.states import Resumed, SetAside, Stopped, Switched
from redraft.projections.engine.views import Views
from redraft.projections.engine.writer import Notice
from redraft.projections.read_models.runs_query import spent_on

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def utc_now() -> datetime:
    return datetime.now(UTC)


class CancellationSource(Protocol):
    def cancellations(self, listening: Callable[[], None]) -> AsyncGenerator[str, None]: ...


@dataclass(frozen=True, slots=True)
class Resources:
    """The open resources that the parts of a process share: settings, event store, read models, bus."""

    settings: Settings
    store: EventStore
    views: Views
    models: ReadModels
    bus: Bus


class OtherRuns:
    """Gives a coordinator what it decides by of other runs; each part is read when it is asked for.

    These are the tallies of `arms`, `verdicts` and `lessons`.
    """

    def __init__(self, resources: Resources) -> None:
        self.arms = ArmTallies(resources.models)
        self.verdicts = EarlierVerdicts(resources.models, resources.store.is_imported)
        self.lessons = EarlierLessons(resources.models)

    def parts(self) -> dict[str, Part]:
        """Returns what has to run beside the coordinator."""
        return {"choices": self.arms.run, "verdicts": self.verdicts.run, "lessons": self.lessons.run}


def every_run(run: str) -> bool:
    """Returns True: a coordinator works on all runs."""
    return True


def build_handler(
    resources: Resources,
    resend: Resend,
    others: OtherRuns,
    report: Report = ignore,
    authority: Authority | None = None,
) -> CommandHandler:
    """Returns what decides and appends; `resend` sends a doubtful request again, `authority` limits what users send."""
    limit, spent = resources.settings.max_draft_bytes, partial(spent_on, resources.views)
    earlier = partial(find_earlier, resources.store, others.verdicts)
    telemetry = find_telemetry()
    new_trace = telemetry.new_trace if telemetry else no_trace
    queue_limit = timedelta(seconds=resources.settings.queue_limit)
    given = limit, spent, others.arms, report, authority, new_trace, earlier, queue_limit, others.lessons
    return CommandHandler(resources.store, utc_now, resend, *given)


def build_coordinator(
    resources: Resources,
    relay: Relay,
    others: OtherRuns,
    report: Report = ignore,
    authority: Authority | None = None,
    share: Share | None = None,
    outlasts: Outlasts = outlasts_nothing,
) -> Coordinator:
    """Returns a coordinator that resends doubtful requests by this relay; `authority` limits what users may send.

    It reads its `share` of the inbox; without one, all of it. It waits for a store that is away where it `outlasts`
    the error, and ends with any other.
    """
    handler = build_handler(resources, resend_by(relay), others, report, authority)
    return Coordinator(handler, resources.bus, share, outlasts)


def build_timekeeper(
    resources: Resources, runs: Collection[str] | None, queues: Queues, on_trouble: OnTrouble = ignore
) -> Timekeeper:
    """Returns a timekeeper for these runs, which may change, or (None) for all; `queues` counts who serves actors."""
    settings = resources.settings
    wait, limit = timedelta(seconds=settings.queue_wait), timedelta(seconds=settings.queue_limit)
    agenda, monitor = StepsAgenda(resources.views, runs), QueueMonitor(queues, wait, limit)

    async def trace_of(run: str) -> str:
        try:
            first = await resources.store.read(run, upto=1)
        except RedraftError:  # whatever is wrong with one run, its timers and those of others go on
            return ""
        return first[0].trace if first else ""

    return Timekeeper(agenda, resources.bus, utc_now, new_message_id, monitor, on_trouble, trace_of)


def build_worker(
    settings: Settings,
    actors: Sequence[Actor],
    bus: Bus,
    isolation: Isolation,
    differs: Differs,
    *,
    peers: PeerChannel | None = None,
    on_restart: OnRestart = ignore,
    on_trouble: OnTrouble = ignore,
    on_error: OnError = ignore,
) -> Worker:
    """Returns a worker that serves these actors; `peers` connects it with the other workers of a deployment."""
    telemetry = find_telemetry()
    return Worker(
        actors,
        bus,
        new_message_id,
        settings.worker_concurrency,
        settings.max_draft_bytes,
        differs,
        peers=peers,
        on_restart=on_restart,
        on_trouble=on_trouble,
        queue_limit=timedelta(seconds=settings.queue_limit),
        start_isolated=isolation.begin,
        on_error=on_error,
        tracer=telemetry.call_tracer() if telemetry else None,
    )


def resend_by(relay: Relay) -> Resend:
    """Returns what sends a doubtful request again, to be confirmed before it is worked on."""

    async def resend(run: str, path: str, sent: int) -> None:
        await relay.resend(run, path, sent=sent, confirmed=True)

    return resend


async def stop_cancelled(worker: Worker, bus: CancellationSource, listening: Callable[[], None]) -> None:
    """Stops the calls of runs that people cancel, until it is cancelled itself; `listening` is called at the start."""
    async with aclosing(bus.cancellations(listening)) as cancelled:
        async for run in cancelled:
            worker.cancel_run(run)


class LoggedPublisher:
    """Announces events, and logs that runs began, ended or were set aside: names and numbers, no text.

    Events that are announced once more, as after an interruption, are not logged again.
    """

    def __init__(self, announcer: EventPublisher, log: FilteringBoundLogger) -> None:
        self._announcer = announcer
        self._log = log
        self._logged = 0

    async def publish_events(self, events: Sequence[Recorded], facts: Mapping[str, RunFacts]) -> None:
        await self._announcer.publish_events(events, facts)
        for event in events:
            if event.position <= self._logged:
                continue
            self._logged = event.position
            match event.data:
                case RunStarted(plan=plan):
                    self._log.info("run started", run=event.run, workflow=plan.name, **_trace_fields(event))
                case RunEnded(outcome=outcome, iterations=iterations, score=score):
                    told = {"outcome": outcome, "iterations": iterations, "score": score, **_trace_fields(event)}
                    self._log.info("run ended", run=event.run, **told)
                case RunQuarantined(by=by):
                    self._log.warning("run quarantined", run=event.run, by=by, **_trace_fields(event))
                case _:
                    pass


def _trace_fields(event: Recorded) -> dict[str, str]:
    """Returns the trace of an event, for a line of the log about its run."""
    context = parse_traceparent(event.trace)
    return {"trace_id": context.trace_id} if context else {}


def log_trouble(log: FilteringBoundLogger, there: Callable[[str], str], trouble: Trouble) -> None:
    """Logs what is wrong with one run or one queue, while everything else goes on.

    `there` gives a queue its name on the broker.
    """
    match trouble:
        case Refused(run, position, path, fault):
            log.error("step refused", run=run, position=position, path=path, error=fault)
        case LeftOut(run, position, fault):
            log.error("left out", run=run, position=position, error=fault)
        case Blocked(queue, fault):
            log.warning("queue cannot be used", queue=there(queue), error=fault)
        case Freed(queue):
            log.info("queue can be used", queue=there(queue))
        case _:
            assert_never(trouble)


def log_dead_letter(log: FilteringBoundLogger, there: Callable[[str], str], letter: DeadLetter) -> None:
    """Logs that a message was set aside, and why: no text of it. `there` gives its queue the name on the broker."""
    sent, queue = letter.bus_message, there(letter.queue)
    log.warning("dead letter", id=letter.id, queue=queue, name=sent.name, run=sent.run, reason=letter.reason)


def log_notice(log: FilteringBoundLogger, notice: Notice) -> None:
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
