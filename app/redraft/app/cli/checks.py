"""The checks of `redraft doctor`."""

from __future__ import annotations

import platform
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from redraft.app.compose import PROJECTIONS
from redraft.app.deployment import MEMORY
from redraft.app.encryption import store_of
from redraft.app.models import check_worker, models_of
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

Level: TypeAlias = Literal["ok", "warn", "fail"]

SAMPLE: Final = 20
"""How many of the newest runs are verified, unless all are asked for."""
EVERY_RUN: Final = 2**31
MOST_ACTORS: Final = 10
"""How many actors of other versions are named."""

LITTLE_SPACE: Final = 1024**3
NO_SPACE: Final = 50 * 1024**2
"""Bytes of free disk below which there is a warning, and a failure."""

_PACKAGES: Final = ("eventsourcing", "msgspec", "pydantic", "typer", "rich", "ruff", "proselint", "codespell")


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: what was looked at, how it is, and what to do about it.

    `unreachable`: store or broker cannot be opened. `misused`: what names it cannot be understood.
    """

    name: str
    level: Level
    told: str
    unreachable: bool = False
    misused: bool = False


async def checks_of(settings: Settings, *, deep: bool) -> list[Check]:
    """Every check, in order; those of the runs are left out when the store cannot be opened."""
    from redraft.app.cli.broker_checks import broker_checks

    actors: list[tuple[Role, str]] = []
    found = [_python(), *_packages(), *_model(settings), _sqlite(), *_disk(settings)]
    found += await _log(settings, actors, deep=deep)
    return found + await broker_checks(settings, actors)


async def _log(settings: Settings, actors: list[tuple[Role, str]], *, deep: bool) -> list[Check]:
    """The checks of the store and what is in it; adds to `actors` those that its runs needed."""
    missing = _missing(settings)
    if missing is not None:
        return [missing]
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
    where = f"{shown_url(settings.store)}{_size(settings)}"
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


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()}, redraft {version('redraft')}, {platform.system()}")


def _packages() -> list[Check]:
    found: dict[str, str] = {}
    missing: list[Check] = []
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            missing.append(Check("packages", "fail", f"{name} is not installed; reinstall redraft"))
    told = ", ".join(f"{name} {number}" for name, number in found.items())
    return [Check("packages", "ok", told), *missing]


def _model(settings: Settings) -> list[Check]:
    """Whether the model of the settings, if there is one, can be asked from here; it is not asked."""
    if not settings.model:
        return []
    try:
        check_worker(("llm",), models_of(settings))
    except InputError as error:
        return [Check("model", "warn", str(error))]
    from redraft.app.builtin.llm_model import cost_of

    told = f"{settings.model} is known, and its key is set"
    if cost_of(1, 1, settings.model, settings.model_url, settings.model_prices.get(settings.model)) is None:
        told += "; nobody knows its price (REDRAFT_MODEL_PRICES), so what it costs is not counted"
    return [Check("model", "ok", told)]


def _sqlite() -> Check:
    told = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < (3, 35):
        return Check("sqlite", "fail", f"{told}; Redraft needs 3.35 or later: use a newer Python")
    return Check("sqlite", "ok", told)


def _disk(settings: Settings) -> list[Check]:
    path = _path(settings)
    if path is None:
        return []
    folder = next(each for each in (_folder(path), *_folder(path).parents) if each.is_dir())
    free = shutil.disk_usage(folder).free
    level: Level = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    return [Check("disk", level, f"{free / 1024**3:,.1f} GiB free at {folder}")]


def _missing(settings: Settings) -> Check | None:
    path = _path(settings)
    if path is None or path.exists() or not _folder(path).is_dir():
        return None
    return Check("store", "warn", f"{shown_url(settings.store)} is not there yet; `redraft run` makes it")


def _path(settings: Settings) -> Path | None:
    """The file of the store; None when it is not in a file."""
    scheme, _, path = settings.store.partition(":///")
    return Path(path) if scheme == "sqlite" and path else None


def _folder(path: Path) -> Path:
    """The nearest folder above a path that is there, or what stands in its place."""
    return next(each for each in path.absolute().parents if each.exists())


def _size(settings: Settings) -> str:
    path = _path(settings)
    if path is None:
        return ""
    size = sum(each.stat().st_size for each in (path, path.with_name(path.name + "-wal")) if each.exists())
    return f", {size / 1024**2:,.1f} MiB" if size >= 1024**2 else f", {size / 1024:,.0f} KiB"
