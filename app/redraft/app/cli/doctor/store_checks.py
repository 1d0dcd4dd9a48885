"""The checks of `redraft doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final

from redraft.actors.plans.paths import steps_in
from redraft.actors.runtime.relaying.queue_publisher import error_message, raise_if_unavailable
from redraft.actors.runtime.relaying.relay import unanswered
from redraft.app.cli.doctor.system_checks import (
    Check,
    broker_checks,
    machine_checks,
    missing,
    share_checks,
    size,
    stream_checks,
)
from redraft.app.process.logs import shown_url
from redraft.app.record.clock_times import CLOCKS_SHOW, runs_of_strange_times
from redraft.app.record.copying.with_texts import find_command
from redraft.app.settings.settings import LOCAL, Settings
from redraft.app.subscribing.misfits import folded
from redraft.app.wiring.deployment import MEMORY
from redraft.app.wiring.stores import open_store_of, open_views_of
from redraft.events.backends import may_have_subscriptions, open_subscriptions, read_http_workers, read_lease
from redraft.events.errors import (
    CodecError,
    EncryptionKeyMissing,
    IncompatibleStore,
    InputError,
    RedraftError,
    StoreError,
    Tampered,
    UnknownName,
    UnknownRules,
)
from redraft.events.messages.domain_events import RunEnded, RunStarted, StepFailed, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import ACTOR_ROLES, Role
from redraft.events.store.event_store import EventStore
from redraft.projections.display import counted, plain, quoted
from redraft.projections.engine.projector import catch_up
from redraft.projections.engine.states import State
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs_query import list_runs
from redraft.projections.read_models.steps import count_overdue

SAMPLE: Final = 20
"""The number of newest runs to verify without `--deep`."""

UNREADABLE: Final = (CodecError, EncryptionKeyMissing, Tampered)
"""The errors of a run that cannot be read here."""

RELAY: Final = "relay"
"""The actor of the answers that the relay gives: failures (`invalid`) of requests that could not be made or sent, and
the ends of items' runs."""

PLANS: Final = 100
"""The number of newest runs whose plans name the actors to look for."""

MOST: Final = 200
"""The largest number of actors whose queues are checked."""

EVERY_RUN: Final = 2**31
MOST_ACTORS: Final = 10
"""The largest number of lines about actors or runs of one kind."""


async def checks_of(settings: Settings, *, deep: bool) -> list[Check]:
    """Every check, in order; those of the runs are left out when the store cannot be opened."""
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
        async with open_store_of(settings) as store:
            found += [each async for each in _store(settings, store, actors, deep=deep)]
    except (IncompatibleStore, InputError) as error:
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
    for fault in await store.inspect_guards():
        yield Check("tables", "warn", fault)  # no reason not to start: a probe of Kubernetes may ask
    async for each in _read_models(settings, store, head, actors, deep=deep):
        yield each
    if settings.bus != LOCAL and settings.store != MEMORY:
        yield await _relay(settings, head)
        for found in [*await share_checks(settings), *await stream_checks(settings, store)]:
            yield found
    async for each in _subscriptions(settings, head):
        yield each
    async for each in _http_workers(settings):
        yield each


async def _http_workers(settings: Settings) -> AsyncIterator[Check]:
    """Names those who work by HTTP at a server of this store; yields nothing when there are none."""
    try:
        found = await read_http_workers(settings.store)
    except StoreError as error:
        yield Check("by http", "fail", str(error))
        return
    if found:
        each = [f"{role}.{name} by {', '.join(one.who for one in them)}" for (role, name), them in found.items()]
        more = f" and {counted(len(each) - MOST_ACTORS, 'other actor')}" if len(each) > MOST_ACTORS else ""
        yield Check("by http", "ok", plain(f"served: {'; '.join(each[:MOST_ACTORS])}{more}", 2_000))


async def _read_models(
    settings: Settings, store: EventStore, head: int, actors: list[tuple[Role, str]], *, deep: bool
) -> AsyncIterator[Check]:
    try:
        async with open_views_of(settings) as views:
            behind = head - views.position
            await catch_up(views, store)
            message = f"{counted(behind, 'event')} behind, now caught up" if behind > 0 else "up to date"
            yield _projections(await views.states()) or Check("read models", "ok", message)
            for found in await _unread(views):
                yield found
            async for each in _runs(settings, store, views, deep=deep):
                yield each
            actors += await _known_actors(store, views) if settings.bus != LOCAL else []
    except (UnknownName, UnknownRules) as error:
        yield Check(
            "events",
            "warn",
            f"{error}; runs that a later release wrote need that release; this one works on all others",
        )
    except (CodecError, Tampered) as error:
        yield Check("events", "fail", f"{error}; see redraft audit --all --verify")
    except StoreError as error:
        yield Check("read models", "fail", str(error))


async def _unread(views: Views) -> list[Check]:
    """The runs that cannot be read from an event on, or that a read model could not take, and nobody has set aside."""
    runs = {line.run for line in await list_runs(views, limit=EVERY_RUN, status="quarantined", items=True)}
    lines: dict[str, str] = {}
    for each in await views.aside():
        if each.run in runs or each.run in lines:
            continue
        place = f"event {each.version} on (position {each.position}): {plain(each.error)}"
        if each.again:
            remedy = f"upgrade Redraft if a later release wrote it, or redraft quarantine {quoted(each.run)} --reason …"
            lines[each.run] = f"run {plain(each.run)} cannot be read from {place}; {remedy}"
        else:
            lines[each.run] = (
                f"run {plain(each.run)} is left out of {each.checkpoint_name} from {place}; redraft rebuild tries again"
            )
    more = f"; {counted(len(lines) - MOST_ACTORS, 'other run')} like it" if len(lines) > MOST_ACTORS else ""
    return [Check("runs", "warn", line + more) for line in list(lines.values())[:MOST_ACTORS]]


async def _relay(settings: Settings, head: int) -> Check:
    """Checks the relay: names the process that holds its lease, and how many events it is behind."""
    try:
        held, position = await read_lease(settings.store)
    except StoreError as error:
        return Check("relay", "fail", str(error))
    behind = f"{counted(head - position, 'event')} behind" if head > position else "up to date"
    if held is None or held.ended:
        last = f" any more, the last was {held}" if held else " yet"
        return Check("relay", "warn", f"no coordinator relays events{last}; {behind}; start `redraft coordinator`")
    return Check("relay", "ok", f"{held}; {behind}")


async def _subscriptions(settings: Settings, head: int) -> AsyncIterator[Check]:
    """Checks the named subscriptions; yields nothing when there never was one."""
    if not may_have_subscriptions(settings.store):
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
        message = f"the last is {counted(behind, 'event')} behind" if behind else "up to date"
        yield Check("subscriptions", "ok", f"{counted(len(found), 'name')}, {message}")


def _projections(states: Sequence[State]) -> Check | None:
    """Returns the projections of this store that have stopped, whoever keeps them; None if there are none."""
    faults = [(each.name, fault) for each in states for fault in (each, each.building) if fault and fault.failed]
    if not faults:
        return None
    message = "; ".join(f"{name} has stopped at event {fault.failed}: {fault.error}" for name, fault in faults)
    return Check(
        "read models",
        "fail",
        f"{message}; correct it and restart the process that follows it, see redraft projections list",
    )


async def _known_actors(store: EventStore, views: Views) -> list[tuple[Role, str]]:
    """The actors that the plans of the newest runs name, those of the newest first."""
    found: dict[tuple[Role, str], None] = {}
    for line in await list_runs(views, limit=PLANS):
        for event in await store.entries(line.run, upto=1):
            if isinstance(event, Recorded) and isinstance(event.data, RunStarted):
                found |= {(step.role, step.actor): None for _, step in steps_in(event.data.plan.steps)}
    return list(found)[:MOST]


async def _runs(settings: Settings, store: EventStore, views: Views, *, deep: bool) -> AsyncIterator[Check]:
    ((total, ended, aside),) = await views.query(
        "SELECT count(*), count(CASE status WHEN 'ended' THEN 1 END), count(CASE status WHEN 'quarantined' THEN 1 END) "
        "FROM runs"
    )
    yield Check("runs", "ok", f"{total} in all, {ended} ended" + (f", {aside} set aside" if aside else ""))
    overdue = await count_overdue(views, datetime.now(UTC))
    remedy = "; go on with them: redraft run --resume RUN"
    if settings.bus != LOCAL:
        lost = "where the broker lost its data: redraft doctor --republish"
        remedy = f": they wait in their queues, see below, or, {lost}"
    late = Check("steps", "warn", f"{counted(overdue, 'step')} past the due time{remedy}")
    yield late if overdue else Check("steps", "ok", "none is overdue")
    for found in await _strange_times(views):
        yield found
    lines = await list_runs(views, limit=EVERY_RUN if deep else SAMPLE, items=True)
    yield await _requests(store, [line.run for line in lines])
    yield await _check_hashes(store, views, deep=deep)
    if deep:
        yield await _records(store)
    yield await _versions(store, views, deep=deep)


async def _strange_times(views: Views) -> list[Check]:
    """Names the runs with times that no clock shows, as a stranger's row may hold them."""
    runs = await runs_of_strange_times(views)
    more = f"; {counted(len(runs) - MOST_ACTORS, 'other run')} like it" if len(runs) > MOST_ACTORS else ""
    said = f"has times that no clock shows (they are {CLOCKS_SHOW}), so its steps fall due at once or never"
    remedies = {run: f"redraft quarantine {quoted(run)} --reason …{more}" for run in runs[:MOST_ACTORS]}
    return [Check("times", "warn", f"run {plain(run)} {said}; {remedy}") for run, remedy in remedies.items()]


async def _requests(store: EventStore, runs: Sequence[str]) -> Check:
    """Checks that every open request of these runs can be made, and that no step failed because its could not."""
    left_out: dict[str, str] = {}
    refused: list[str] = []
    for run in runs:
        try:
            events = await store.read(run)
        except UNREADABLE:
            continue  # the check of the runs reports it
        try:
            refused += [run for event in events if _is_refused(event)]
            if events and not isinstance(events[-1].data, RunEnded):  # no row is found by an id that is no valid text
                await _make_all(store, events)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a run concerns that run alone
            raise_if_unavailable(error)
            left_out[run] = _why_left_out(events, error)
    if left_out:
        run, fault = next(iter(left_out.items()))
        said = (
            f"{counted(len(left_out), 'run')} left out, because their requests cannot be built: {run}: {plain(fault)}"
        )
        return Check("requests", "fail", said)
    if refused:
        because = "because its request could not be made or sent"
        said = f"{counted(len(refused), 'step')} failed {because}, the last in {refused[0]}; see redraft audit"
        return Check("requests", "warn", said)
    return Check("requests", "ok", "every open request can be built")


def _why_left_out(events: Sequence[Recorded], error: Exception) -> str:
    """Returns the first event that does not follow from those before it; where all do, the error itself."""
    try:
        folded(events)
    except RedraftError as misfit:
        return error_message(misfit)
    return error_message(error)


def _is_refused(event: Recorded) -> bool:
    return isinstance(event.data, StepFailed) and event.actor == RELAY and event.data.kind == "invalid"


async def _make_all(store: EventStore, events: Sequence[Recorded]) -> None:
    for event in unanswered(events):
        if isinstance(event.data, StepRequested) and event.data.role != "run":
            await find_command(events, event.data.path, event.data.attempt, store.read)


async def _versions(store: EventStore, views: Views, *, deep: bool) -> Check:
    """Checks that answers came from actors of the versions that the plans of their runs name."""
    found: dict[str, str] = {}
    for line in await list_runs(views, limit=EVERY_RUN if deep else SAMPLE, items=True):
        events = [event for event in await store.entries(line.run) if isinstance(event, Recorded)]
        own = [event for event in events if not event.repeats]
        for role, _, name in (event.actor.partition(" ") for event in own):
            if role in ACTOR_ROLES and "@" in name:  # as a worker signs whose code is not what the plan names
                found[f"{role} {name}"] = line.run
    if not found:
        return Check("actors", "ok", "all answers came from the versions that the plans name")
    message = ", ".join(f"{plain(actor)} in {run}" for actor, run in sorted(found.items())[:MOST_ACTORS])
    more = f" and {len(found) - MOST_ACTORS} more" if len(found) > MOST_ACTORS else ""
    return Check("actors", "warn", f"other versions than the plans name have answered: {message}{more}")


async def _check_hashes(store: EventStore, views: Views, *, deep: bool) -> Check:
    if deep:
        report = await store.verify_all()
        if report.count:
            message = f"{report.faults[0].message}; {counted(report.count, 'fault')}, see redraft audit --all --verify"
            return Check("hashes", "fail", message)
        return Check("hashes", "ok", f"every run verified, {counted(report.events, 'event')}")
    unread = {each.run for each in await views.aside()}
    runs = [line for line in await list_runs(views, limit=SAMPLE, items=True) if line.run not in unread]
    try:
        events = sum([await store.verify(line.run) for line in runs])
    except Tampered as error:
        return Check("hashes", "fail", f"{error}; see redraft audit --all --verify")
    newest = f"the newest {counted(len(runs), 'run')}"
    return Check("hashes", "ok", f"{newest} verified, {counted(events, 'event')}; --deep verifies all")


async def _records(store: EventStore) -> Check:
    """Checks the record of every run against its plan."""
    from redraft.app.record.auditing.record_faults import check_log, is_faulty
    from redraft.projections.record_check import UNPROVEN

    runs, aside, unproven, faults = 0, 0, 0, []
    async for checked in check_log(store):
        runs += 1
        if checked.findings and checked.set_aside:
            aside += 1
        elif is_faulty(checked):
            faults.append((checked.run, checked.findings[0].message))
        elif any(each.code == UNPROVEN for each in checked.findings):
            unproven += 1
    note = f"; {counted(aside, 'damaged run')} set aside" if aside else ""
    if unproven:
        note += f"; {counted(unproven, 'run')} with verdicts of runs that are not here to compare"
    if not faults:
        return Check("records", "ok", f"{counted(runs, 'run')} checked against their plans{note}")
    more = f" and {len(faults) - SAMPLE} more" if len(faults) > SAMPLE else ""
    named = ", ".join(run for run, _ in faults[:SAMPLE]) + more
    remedy = f"redraft audit {faults[0][0]} --verify tells more, redraft quarantine RUN --reason … sets a run aside"
    return Check("records", "fail", f"{counted(len(faults), 'run')}: {named}; {plain(faults[0][1])}; {remedy}{note}")
