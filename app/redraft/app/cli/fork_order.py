"""What `redraft fork` was asked to do: the history to begin with, and what is to be different."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redraft.actors.pinning import pinned, unpinned
from redraft.actors.roles import Actor, Seat
from redraft.app.briefs import read_brief
from redraft.app.changes import changed, refuse_vain
from redraft.app.cli.order import Order, functions, refuse_foreign
from redraft.app.cli.reading import events_at, events_of, refuse_missing
from redraft.app.compose import open_log
from redraft.app.forks import Change, fork_of, stand
from redraft.app.models import Models, check_models, seats_of
from redraft.app.outlets import Outlets, check_out, publish_to
from redraft.app.prepare import prepare
from redraft.app.settings import Settings
from redraft.app.sources import own_actors, read_source
from redraft.app.staff import staff
from redraft.events.commands import StartRun
from redraft.events.content import Brief
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError
from redraft.events.tags import checked_tags


@dataclass(frozen=True, slots=True)
class Forked:
    """The words and options of `redraft fork`, as they were typed."""

    run: str
    at: str
    settings: Sequence[str] = ()
    brief: str = ""
    workflow: str = ""
    actors: str = ""
    out: str = ""
    key: str = ""
    tags: Sequence[str] = ()
    trust: bool = False


def fork_order(given: Forked, outlets: Outlets, settings: Settings) -> Order:
    """A fork for this process to work on. Raises NoSuchRun, StoreError, and InputError for what was given."""
    mine = _own(given)
    own = seats_of(mine)
    start = start_of(given, settings, outlets.models, own)
    plan = start.plan
    if given.out:
        plan = publish_to(plan, check_out(Path(given.out)))
    actors = staff(plan, mine, outlets)
    check_models(plan, outlets.models, own)
    files = functions(given.workflow, given.actors)
    return Order(
        pinned(plan, actors), actors, start.brief, given.key, files=files, tags=start.tags, parent=start.parent
    )


def start_of(given: Forked, settings: Settings, models: Models, own: frozenset[Seat] = frozenset()) -> StartRun:
    """Returns the message that begins the fork, with its plan as it is kept and no run id yet. Nothing is recorded."""
    tags = checked_tags(given.tags) if given.tags else None
    brief = _brief(given, settings)
    refuse_missing(settings.store)
    past, at, is_foreign = asyncio.run(_past(settings, given))
    state = stand(past, at)
    if is_foreign and not given.trust:
        refuse_foreign(past[0].run, state.plan)
    change = changed(unpinned(state.plan), given.settings)
    refuse_vain(state, change)
    plan = prepare(change.plan, brief or state.brief, models, own)
    return fork_of(past, at, "", given.key, Change(plan, brief, tags))


def _brief(given: Forked, settings: Settings) -> Brief | None:
    if not given.brief:
        return None
    return read_brief(given.brief, sys.stdin.buffer, as_text=None, limit=settings.draft_limit)


def _own(given: Forked) -> Sequence[Actor]:
    own = read_source(given.workflow).actors if given.workflow else ()
    return [*own, *own_actors(given.actors)]


async def _past(settings: Settings, given: Forked) -> tuple[Sequence[Recorded], int, bool]:
    """What is recorded of the run, how many events of it are wanted, and whether it was imported."""
    if not given.at.strip():
        raise InputError("--at is empty; give the number of an event, or a time")
    async with open_log(settings) as log:
        upto = await events_at(log, given.run, given.at)
        past = await events_of(log, given.run)
        return past, len(upto), await log.store.is_imported(past[0].run)
