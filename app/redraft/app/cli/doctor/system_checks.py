"""The checks of `redraft doctor` that do not need the log: of the machine, and of the broker."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.app.cli.shared.reading import store_file
from redraft.app.models.configuration import check_worker, models_of
from redraft.app.process.logs import shown_url
from redraft.app.settings.settings import LOCAL, Settings
from redraft.app.wiring.deployment import no_worker, open_survey
from redraft.events.backends import open_shares
from redraft.events.bus.port import DEAD_LETTERS, INBOX, inbox_queues, is_inbox, work_queue
from redraft.events.errors import BusError, BusUnusable, InputError, suggest
from redraft.events.messages.plan import Role
from redraft.events.rabbit.survey import Survey
from redraft.events.rabbit.topology import Kind
from redraft.events.store.event_store import EventStore
from redraft.projections.display import counted, plain

Level: TypeAlias = Literal["ok", "warn", "fail"]


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: what was looked at, how it is, and what to do about it.

    `unreachable`: store or broker cannot be opened. `misused`: what names it cannot be understood.
    """

    name: str
    level: Level
    message: str
    unreachable: bool = False
    misused: bool = False


LITTLE_SPACE: Final = 1024**3
NO_SPACE: Final = 50 * 1024**2
"""Bytes of free disk below which there is a warning, and a failure."""

_PACKAGES: Final = ("eventsourcing", "msgspec", "pydantic", "typer", "rich", "ruff", "proselint")
_OPTIONAL: Final = {"codespell": "spelling", "symspellpy": "spelling"}
"""Packages that an extra brings along."""


_OF_KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP).*)?$")
"""The variables that Kubernetes sets for a service, such as REDRAFT_SERVICE_HOST."""


def machine_checks(settings: Settings) -> list[Check]:
    """The checks of Python, of packages, of the environment, of the model that is set, of SQLite and of the disk."""
    return [_python(), *_packages(), *_environment(), *_model(settings), _sqlite(), *_disk(settings)]


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
    for name, extra in _OPTIONAL.items():
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            remedy = f"install it: pip install 'redraft[{extra}]'"
            missing.append(
                Check("packages", "ok", f"{name} is not installed, so `prose` looks at no spelling; {remedy}")
            )
    message = ", ".join(f"{name} {number}" for name, number in found.items())
    return [Check("packages", "ok", message), *missing]


def _environment() -> list[Check]:
    """Warns of variables that look like settings and are none, such as a misspelt one."""
    known = [*(f"REDRAFT_{name.upper()}" for name in Settings.model_fields), "REDRAFT_HEALTH_FILE"]
    unknown = [name for name in sorted(os.environ) if name.upper().startswith("REDRAFT_") and name.upper() not in known]
    return [
        Check("environment", "warn", f"{plain(name)} is no setting; {suggest(name.upper(), known, cutoff=0.8)}")
        for name in unknown
        if not _OF_KUBERNETES.search(name)
    ]


def _model(settings: Settings) -> list[Check]:
    """Checks, without a request, that this machine can ask the model of the settings, if there is one."""
    if not settings.model:
        return []
    try:
        check_worker(("llm",), models_of(settings))
    except InputError as error:
        return [Check("model", "warn", str(error))]
    from redraft.app.models.provider import cost_of

    message = f"{settings.model} is known, and its key is set"
    if cost_of(1, 1, settings.model, settings.model_url, settings.model_prices.get(settings.model)) is None:
        message += "; its price is not known (set REDRAFT_MODEL_PRICES), so its cost is not counted"
    return [Check("model", "ok", message)]


def _sqlite() -> Check:
    message = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < (3, 35):
        return Check("sqlite", "fail", f"{message}; Redraft needs 3.35 or later: use a newer Python")
    return Check("sqlite", "ok", message)


def _disk(settings: Settings) -> list[Check]:
    path = store_file(settings.store)
    if path is None:
        return []
    folder = next(each for each in (_folder(path), *_folder(path).parents) if each.is_dir())
    free = shutil.disk_usage(folder).free
    level: Level = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    return [Check("disk", level, f"{free / 1024**3:,.1f} GiB free at {folder}")]


def missing(settings: Settings) -> Check | None:
    """Says that the store is not there yet; None when it is, when it is in no file, and where it could not be made."""
    path = store_file(settings.store)
    if path is None or path.exists() or not _folder(path).is_dir():
        return None
    return Check("store", "warn", f"{shown_url(settings.store)} does not exist yet; `redraft run` creates it")


def _folder(path: Path) -> Path:
    """The nearest folder above a path that is there, or what stands in its place."""
    return next(each for each in path.absolute().parents if each.exists())


def size(settings: Settings) -> str:
    """The size of the store with its write-ahead log, after a comma; empty when it is in no file."""
    path = store_file(settings.store)
    if path is None:
        return ""
    size = sum(each.stat().st_size for each in (path, path.with_name(path.name + "-wal")) if each.exists())
    return f", {size / 1024**2:,.1f} MiB" if size >= 1024**2 else f", {size / 1024:,.0f} KiB"


_OLDEST: Final = (3, 10)


async def share_checks(settings: Settings) -> list[Check]:
    """Checks that coordinators hold every partition of the inbox; returns nothing where none was recorded yet."""
    async with open_shares(settings.store) as shares:
        holders = Counter(each.holder for each in await shares.all())
    recorded, free = holders.total(), holders.pop("", 0)
    if not recorded:
        return []
    shared = f"{counted(recorded, 'partition')} of the inbox, held by {counted(len(holders), 'coordinator')}"
    if recorded > settings.inbox_partitions:
        shared += f"; all are read, and with REDRAFT_INBOX_PARTITIONS={settings.inbox_partitions} fewer are written to"
    if free:
        return [Check("shares", "warn", f"{shared}; {free} without one: start `redraft coordinator`")]
    return [Check("shares", "ok", shared)]


async def broker_checks(settings: Settings, actors: Sequence[tuple[Role, str]]) -> list[Check]:
    """Checks the broker and its queues; yields nothing for `local:`."""
    if settings.bus == LOCAL:
        return []
    found: list[Check] = []
    try:
        async with open_survey(settings) as survey:
            async for check in _check_topology(survey, settings, actors):
                found.append(check)  # noqa: PERF401 - what was found before an error counts
    except InputError as error:
        found.append(Check("broker", "fail", str(error), misused=True))
    except BusError as error:
        found.append(Check("broker", "fail", str(error), unreachable=True))
    return found


async def stream_checks(settings: Settings, store: EventStore) -> list[Check]:
    """Checks that the log holds the last event of the stream; returns nothing where the broker does not say."""
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
    message = f"event {last.version} of run {plain(last.run)}, announced at position {last.position}, is not in the log"
    remedy = "was the store restored? end the coordinators, then redraft doctor --republish, then start them"
    return [Check("stream", "fail", f"{message}: {remedy}")]


async def _check_topology(
    survey: Survey, settings: Settings, actors: Sequence[tuple[Role, str]]
) -> AsyncIterator[Check]:
    kind = settings.queue_type
    yield _version(await survey.server(), survey.where)
    missing = await survey.missing()
    if unfit := await survey.unfit():
        yield Check("topology", "fail", f"there with other settings: {', '.join(unfit)}; {_ANEW}")
    elif missing:
        yield Check("topology", "warn", f"not there yet: {', '.join(missing)}; a coordinator creates all of it")
    else:
        yield Check("topology", "ok", f"exchanges, inbox ({kind}), dead letters and event stream are there")
    yield await _served(survey, kind, INBOX, "start `redraft coordinator`")
    async for check in _check_partitions(survey, kind, settings.inbox_partitions):
        yield check
    for role, actor in actors:
        yield await _served(survey, kind, work_queue(role, actor), no_worker(role, actor))
    dead_letters = await survey.queue(DEAD_LETTERS)
    if dead_letters and dead_letters.waiting:
        message = f"{counted(dead_letters.waiting, 'message')} set aside; see `redraft dead-letters list`"
        yield Check("dead-letters", "warn", message)
    else:
        yield Check("dead-letters", "ok", "nothing is set aside")


def _version(server: str, where: str) -> Check:
    detail = f"{server} at {where}"
    number = server.rpartition(" ")[2].split(".")
    known = tuple(int(part) for part in number[:2] if part.isdecimal())
    if known and known < _OLDEST:
        return Check("broker", "fail", f"{detail}; Redraft needs RabbitMQ 3.10 or later")
    return Check("broker", "ok", detail)


_ANEW: Final = "delete it, and Redraft creates it again"
_DEAD: Final = "if that lasts, RabbitMQ goes on without them, as it does after a full disk: restart it"


async def _check_partitions(survey: Survey, kind: Kind, partitions: int) -> AsyncIterator[Check]:
    """Yields the partitions of the inbox with the settings of somebody else, and those without a consumer.

    A share of them may be changing hands. A quorum queue that is down has no consumer in RabbitMQ's answer.
    """
    inbox, *others = inbox_queues(partitions)
    unread: list[str] = []
    for queue in others:
        check = await _served(survey, kind, queue, "")
        if check.level == "fail":
            yield check
        elif await _count_consumers(survey, queue) == 0:
            unread.append(plain(survey.there(queue)))
    if unread and await _count_consumers(survey, inbox):
        yield Check("queue", "warn", f"{', '.join(unread)}: nothing reads them, though coordinators run; {_DEAD}")


async def _count_consumers(survey: Survey, queue: str) -> int | None:
    """Returns the number of a queue's consumers; None if it is not there, or is somebody else's alone."""
    try:
        depth = await survey.queue(queue)
    except BusUnusable:
        return None
    return None if depth is None else depth.consumers


async def _served(survey: Survey, kind: Kind, queue: str, unserved: str) -> Check:
    try:
        name, depth = plain(survey.there(queue)), await survey.queue(queue)
    except InputError as error:
        return Check("queue", "fail", f"{plain(str(error), 300)}; give the actor a shorter name")
    except BusUnusable as error:
        return Check("queue", "fail", plain(str(error), 400))
    if depth is None:
        return Check("queue", "warn", f"{name} does not exist yet; {unserved}")
    if not await survey.fits(queue, kind):
        return Check("queue", "fail", f"{name} {_unfit(queue, kind)}")
    if not is_inbox(queue) and not await survey.exchange_fits(queue):
        return Check("queue", "fail", f"the exchange {name} is there with other settings; {_ANEW}")
    message = f"{name}: {counted(depth.consumers, 'consumer')}, {counted(depth.waiting, 'message')} waiting"
    return Check("queue", "ok", message) if depth.consumers else Check("queue", "warn", f"{message}; {unserved}")


def _unfit(queue: str, kind: Kind) -> str:
    """Returns what is wrong with a queue that is there with other settings, and the remedy."""
    if is_inbox(queue):
        other = f"is there with other settings than REDRAFT_QUEUE_TYPE={kind} asks for"
        return f"{other}; give all processes the same setting, or delete the queue when it is empty"
    other = "is there with other settings, such as those of another release"
    return f"{other}; end what uses it, and delete the queue: requests that are open are sent again"
