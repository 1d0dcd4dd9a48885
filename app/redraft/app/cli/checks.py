"""The checks of `redraft doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final, get_args

from redraft.app.cli.check import Check
from redraft.app.cli.machine_checks import machine_checks, missing, size
from redraft.app.compose import PROJECTIONS
from redraft.app.deployment import MEMORY
from redraft.app.encryption import store_of
from redraft.app.settings import LOCAL, Settings, shown_url, views_path
from redraft.events.envelope import Recorded
from redraft.events.errors import CodecError, InputError, StoreError, StoreUnusable, Tampered, UnknownName, UnknownRules
from redraft.events.plan import Role
from redraft.events.relay_lease import look
from redraft.events.store import EventStore
from redraft.events.subscription_book import are_there
from redraft.events.subscriptions import open_subscriptions
from redraft.projections.plain import counted, plain, quoted
from redraft.projections.projector import catch_up
from redraft.projections.run_list import list_runs
from redraft.projections.states import State
from redraft.projections.step_list import count_overdue
from redraft.projections.views import Views, open_views

SAMPLE: Final = 20
"""How many of the newest runs are verified, unless all are asked for."""
EVERY_RUN: Final = 2**31
MOST_ACTORS: Final = 10
"""How many actors of other versions are named."""


async def checks_of(settings: Settings, *, deep: bool) -> list[Check]:
    """Every check, in order; those of the runs are left out when the store cannot be opened."""
    from redraft.app.cli.broker_checks import broker_checks

    actors: list[tuple[Role, str]] = []
    found = machine_checks(settings)
    found += await _log(settings, actors, deep=deep)
    return found + await broker_checks(settings, actors)


async def _log(settings: Settings, actors: list[tuple[Role, str]], *, deep: bool) -> list[Check]:
    """The checks of the store and what is in it; adds to `actors` those that its runs needed."""
    if (absent := missing(settings)) is not None:
        return [absent]
    found: list[Check] = []
    try:
        async with store_of(settings) as store:
            found += [each async for each in _store(settings, store, actors, deep=deep)]
    except (StoreUnusable, InputError) as error:
        found.append(Check("store", "fail", str(error), misused=isinstance(error, InputError)))
    except StoreError as error:
        found.append(Check("store", "fail", str(error), unreachable=True))
    return found


async def _store(
    settings: Settings, store: EventStore, actors: list[tuple[Role, str]], *, deep: bool
) -> AsyncIterator[Check]:
    head = await store.head()
    where = f"{shown_url(settings.store)}{size(settings)}"
    yield Check("store", "ok", f"{where}; {counted(head, 'event')}, last position {head}")
    try:
        async with await open_views(views_path(settings.store), PROJECTIONS) as views:
            behind = head - views.position
            await catch_up(views, store)
            told = f"{counted(behind, 'event')} behind, now caught up" if behind > 0 else "up to date"
            yield _projections(await views.states()) or Check("read models", "ok", told)
            for found in await _unread(views):
                yield found
            async for each in _runs(settings, store, views, deep=deep):
                yield each
            actors += await _actors(settings, store, views)
    except (UnknownName, UnknownRules) as error:
        yield Check("events", "warn", f"{error}; a later release works on what it wrote, and this one on all else")
    except (CodecError, Tampered) as error:
        yield Check("events", "fail", f"{error}; see redraft audit --all --verify")
    except StoreError as error:
        yield Check("read models", "fail", str(error))
    if settings.bus != LOCAL and settings.store != MEMORY:
        yield await _relay(settings, head)
        for found in await _stream(settings, store):
            yield found
    async for each in _subscriptions(settings, head):
        yield each


async def _unread(views: Views) -> list[Check]:
    """The runs that cannot be read from an event on, or that a read model could not take, and nobody has set aside."""
    runs = {line.run for line in await list_runs(views, limit=EVERY_RUN, status="quarantined")}
    told: dict[str, str] = {}
    for each in await views.aside():
        if each.run in runs or each.run in told:
            continue
        place = f"event {each.version} on (position {each.position}): {plain(each.error)}"
        if each.again:
            remedy = f"upgrade Redraft if a later release wrote it, or redraft quarantine {quoted(each.run)} --reason …"
            told[each.run] = f"run {plain(each.run)} cannot be read from {place}; {remedy}"
        else:
            told[each.run] = (
                f"run {plain(each.run)} is left out of {each.track} from {place}; redraft rebuild tries again"
            )
    more = f"; {counted(len(told) - MOST_ACTORS, 'other run')} like it" if len(told) > MOST_ACTORS else ""
    return [Check("runs", "warn", line + more) for line in list(told.values())[:MOST_ACTORS]]


async def _relay(settings: Settings, head: int) -> Check:
    """Checks the relay: names the process that holds its lease, and how many events it is behind."""
    try:
        held, position = await look(settings.store)
    except StoreError as error:
        return Check("relay", "fail", str(error))
    behind = f"{counted(head - position, 'event')} behind" if head > position else "up to date"
    if held is None or held.ended:
        last = f" any more, the last was {held}" if held else " yet"
        return Check("relay", "warn", f"nobody relays{last}; {behind}; start `redraft coordinator`")
    return Check("relay", "ok", f"{held}; {behind}")


async def _stream(settings: Settings, store: EventStore) -> list[Check]:
    from redraft.app.cli.broker_checks import stream_checks

    return await stream_checks(settings, store)


async def _subscriptions(settings: Settings, head: int) -> AsyncIterator[Check]:
    """How the names are that subscribe; nothing when nobody ever did."""
    if not are_there(settings.store):
        return
    try:
        async with open_subscriptions(settings.store) as names:
            found = await names.all()
    except StoreError as error:
        yield Check("subscriptions", "fail", str(error))
        return
    failing = [f"{each.name} fails at event {each.failing.position}" for each in found if each.failing]
    parked = [f"{counted(each.parked, 'event')} parked for {each.name}" for each in found if each.parked]
    beyond = [f"{each.name} is at {each.position}, beyond the log" for each in found if each.position > head]
    if faults := [*beyond, *failing, *parked]:
        yield Check("subscriptions", "warn", f"{'; '.join(faults)}; see `redraft subscriptions list`")
    elif found:
        behind = max(0, head - min(each.position for each in found))
        told = f"the last is {counted(behind, 'event')} behind" if behind else "up to date"
        yield Check("subscriptions", "ok", f"{counted(len(found), 'name')}, {told}")


def _projections(states: Sequence[State]) -> Check | None:
    """What is wrong with a projection of this store, whoever keeps it."""
    faults = [(each.name, fault) for each in states for fault in (each, each.building) if fault and fault.failed]
    if not faults:
        return None
    told = "; ".join(f"{name} has stopped at event {fault.failed}: {fault.error}" for name, fault in faults)
    return Check("read models", "fail", f"{told}; mend it and start what keeps it again, see redraft projections list")


async def _actors(settings: Settings, store: EventStore, views: Views) -> list[tuple[Role, str]]:
    """The actors whose queues the broker is asked about."""
    from redraft.app.cli.broker_checks import actors_known

    return await actors_known(store, views) if settings.bus != LOCAL else []


async def _runs(settings: Settings, store: EventStore, views: Views, *, deep: bool) -> AsyncIterator[Check]:
    from redraft.app.cli.request_checks import requests_check

    ((total, ended, aside),) = await views.query(
        "SELECT count(*), count(CASE status WHEN 'ended' THEN 1 END), count(CASE status WHEN 'quarantined' THEN 1 END) "
        "FROM runs"
    )
    yield Check("runs", "ok", f"{total} in all, {ended} ended" + (f", {aside} set aside" if aside else ""))
    overdue = await count_overdue(views, datetime.now(UTC))
    if overdue:
        told = f"{counted(overdue, 'step')} past the due time; go on with them: redraft run --resume RUN"
        if settings.bus != LOCAL:
            told = (
                f"{counted(overdue, 'step')} past the due time: they wait in their queues, see below, or, where the "
                "broker lost its data: redraft doctor --rebuild-broker"
            )
        yield Check("steps", "warn", told)
    else:
        yield Check("steps", "ok", "none is overdue")
    lines = await list_runs(views, limit=EVERY_RUN if deep else SAMPLE)
    yield await requests_check(store, [line.run for line in lines])
    yield await _verified(store, views, deep=deep)
    if deep:
        yield await _records(store)
    yield await _versions(store, views, deep=deep)


async def _versions(store: EventStore, views: Views, *, deep: bool) -> Check:
    """Whether some answers came from actors of another version than the plan of their run names."""
    found: dict[str, str] = {}
    for line in await list_runs(views, limit=EVERY_RUN if deep else SAMPLE):
        events = [event for event in await store.entries(line.run) if isinstance(event, Recorded)]
        own = [event for event in events if not event.repeats]
        found |= {event.actor: line.run for event in own if _is_other_version(event.actor)}
    if not found:
        return Check("actors", "ok", "all answers came from the versions that the plans name")
    told = ", ".join(f"{plain(actor)} in {run}" for actor, run in sorted(found.items())[:MOST_ACTORS])
    more = f" and {len(found) - MOST_ACTORS} more" if len(found) > MOST_ACTORS else ""
    return Check("actors", "warn", f"other versions than the plans name have answered: {told}{more}")


def _is_other_version(actor: str) -> bool:
    """Whether a worker that signed so said that its code is not of the version that the plan names."""
    role, _, name = actor.partition(" ")
    return role in get_args(Role) and "@" in name


async def _verified(store: EventStore, views: Views, *, deep: bool) -> Check:
    if deep:
        report = await store.verify_all()
        if report.count:
            told = f"{report.faults[0].told}; {counted(report.count, 'fault')}, see redraft audit --all --verify"
            return Check("hashes", "fail", told)
        return Check("hashes", "ok", f"every run verified, {counted(report.events, 'event')}")
    unread = {each.run for each in await views.aside()}
    runs = [line for line in await list_runs(views, limit=SAMPLE) if line.run not in unread]
    try:
        events = sum([await store.verify(line.run) for line in runs])
    except Tampered as error:
        return Check("hashes", "fail", f"{error}; see redraft audit --all --verify")
    newest = f"the newest {counted(len(runs), 'run')}"
    return Check("hashes", "ok", f"{newest} verified, {counted(events, 'event')}; --deep verifies all")


async def _records(store: EventStore) -> Check:
    """Whether what is recorded of every run fits its plan."""
    from redraft.app.cli.record import is_faulty
    from redraft.app.record_faults import check_log

    runs, aside, faults = 0, 0, []
    async for checked in check_log(store):
        runs += 1
        if checked.findings and checked.set_aside:
            aside += 1
        elif is_faulty(checked):
            faults.append((checked.run, checked.findings[0].told))
    note = f"; {counted(aside, 'damaged run')} set aside" if aside else ""
    if not faults:
        return Check("records", "ok", f"{counted(runs, 'run')} checked against their plans{note}")
    named = ", ".join(run for run, _ in faults[:SAMPLE]) + (
        f" and {len(faults) - SAMPLE} more" * (len(faults) > SAMPLE)
    )
    remedy = f"redraft audit {faults[0][0]} --verify tells more, redraft quarantine RUN --reason … sets a run aside"
    return Check("records", "fail", f"{counted(len(faults), 'run')}: {named}; {plain(faults[0][1])}; {remedy}{note}")
