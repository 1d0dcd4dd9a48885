"""The checks of `redraft doctor` that ask the broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from redraft.actors.plan_paths import steps_in
from redraft.app.cli.check import Check
from redraft.app.deployment import open_survey
from redraft.app.settings import LOCAL, Settings
from redraft.app.unserved import no_worker
from redraft.events.bus import INBOX, work_queue
from redraft.events.domain_events import RunStarted
from redraft.events.envelope import Recorded
from redraft.events.errors import BusError, InputError
from redraft.events.plan import Role
from redraft.events.rabbit_survey import PARKED, Survey
from redraft.events.rabbit_topology import Kind
from redraft.events.store import EventStore
from redraft.projections.plain import counted, plain
from redraft.projections.run_list import list_runs
from redraft.projections.views import Views

PLANS: Final = 100
"""How many of the newest runs' plans say which actors are needed."""

MOST: Final = 200
"""How many actors' queues are looked at."""

_OLDEST: Final = (3, 10)


async def broker_checks(settings: Settings, actors: Sequence[tuple[Role, str]]) -> list[Check]:
    """Whether the broker is there, and what waits in its queues; nothing for `local:`."""
    if settings.bus == LOCAL:
        return []
    found: list[Check] = []
    try:
        async with open_survey(settings) as survey:
            async for check in _asked(survey, settings.queues, actors):
                found.append(check)  # noqa: PERF401 - what was found before an error counts
    except InputError as error:
        found.append(Check("broker", "fail", str(error), misused=True))
    except BusError as error:
        found.append(Check("broker", "fail", str(error), unreachable=True))
    return found


async def stream_checks(settings: Settings, store: EventStore) -> list[Check]:
    """Whether the last event that was announced is in the log; nothing where the broker does not say."""
    if settings.bus == LOCAL:
        return []
    try:
        async with open_survey(settings) as survey:
            last = await survey.newest()
            kept = await store.entries(last.run, upto=last.version, after=last.version - 1) if last else ()
    except (BusError, InputError):  # the checks of the broker tell of it
        return []
    if last is None or [each.hash for each in kept] == [last.hash]:
        return [Check("stream", "ok", f"announced up to position {last.position if last else 0}")]
    told = f"event {last.version} of run {plain(last.run)}, announced at position {last.position}, is not in the log"
    remedy = "was the store restored? end the coordinators, then redraft doctor --rebuild-broker, then start them"
    return [Check("stream", "fail", f"{told}: {remedy}")]


async def actors_known(store: EventStore, views: Views) -> list[tuple[Role, str]]:
    """The actors that the plans of the newest runs name, those of the newest first."""
    found: dict[tuple[Role, str], None] = {}
    for line in await list_runs(views, limit=PLANS):
        for event in await store.entries(line.run, upto=1):
            if isinstance(event, Recorded) and isinstance(event.data, RunStarted):
                found |= {(step.role, step.actor): None for _, step in steps_in(event.data.plan.steps)}
    return list(found)[:MOST]


async def _asked(survey: Survey, kind: Kind, actors: Sequence[tuple[Role, str]]) -> AsyncIterator[Check]:
    yield _version(await survey.server(), survey.where)
    missing = await survey.missing()
    if missing:
        yield Check("topology", "warn", f"not there yet: {', '.join(missing)}; a coordinator makes it all")
    else:
        yield Check("topology", "ok", f"exchanges, inbox ({kind}), parking and event stream are there")
    yield await _served(survey, kind, INBOX, "start `redraft coordinator`")
    for role, actor in actors:
        yield await _served(survey, kind, work_queue(role, actor), no_worker(role, actor))
    parked = await survey.queue(PARKED)
    if parked and parked.waiting:
        told = f"{counted(parked.waiting, 'message')} set aside; see `redraft parked list`"
        yield Check("parked", "warn", told)
    else:
        yield Check("parked", "ok", "nothing is set aside")


def _version(server: str, where: str) -> Check:
    told = f"{server} at {where}"
    number = server.rpartition(" ")[2].split(".")
    known = tuple(int(part) for part in number[:2] if part.isdecimal())
    if known and known < _OLDEST:
        return Check("broker", "fail", f"{told}; Redraft needs RabbitMQ 3.10 or later")
    return Check("broker", "ok", told)


async def _served(survey: Survey, kind: Kind, queue: str, unserved: str) -> Check:
    try:
        depth = await survey.queue(queue)
    except InputError as error:
        return Check("queue", "fail", f"{plain(str(error), 300)}; give the actor a shorter name")
    if depth is None:
        return Check("queue", "warn", f"{plain(queue)} is not there yet; {unserved}")
    if not await survey.fits(queue, kind):
        told = f"{plain(queue)} is there with other settings than REDRAFT_QUEUES={kind} asks for"
        return Check("queue", "fail", f"{told}; give all parts the same, or delete the queue when it is empty")
    told = f"{plain(queue)}: {counted(depth.consumers, 'consumer')}, {counted(depth.waiting, 'message')} waiting"
    return Check("queue", "ok", told) if depth.consumers else Check("queue", "warn", f"{told}; {unserved}")
