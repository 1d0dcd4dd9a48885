"""Read models that a coordinator keeps at hand: steps that are due, and tallies of choices."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from redraft.actors.runtime.coordinating.decisions import Tallies
from redraft.actors.runtime.coordinating.timekeeper import DueStep
from redraft.actors.workflow.actor import ActorKey
from redraft.app.wiring.caught_up import PATIENCE, CaughtUp
from redraft.events.errors import StoreError
from redraft.events.messages.plan import Role
from redraft.projections.backends import ReadModels
from redraft.projections.engine.views import Views
from redraft.projections.read_models.choices import CHOICES, tallies
from redraft.projections.read_models.steps import (
    StepLine,
    list_asked_actors,
    list_due,
    list_unanswered,
    list_unserved,
    next_due,
)

_Rows: TypeAlias = tuple[int, int, frozenset[str] | None]
"""The position of the read models, how often they were written, and the runs that are looked for.

While these stay equal, a query finds the same rows.
"""


class _Calm(msgspec.Struct, frozen=True):
    """At `since` nothing was due in these rows, and nothing falls due before `until` (None: ever)."""

    rows: _Rows
    since: datetime
    until: datetime | None = None


class StepsAgenda:
    """Steps that are due among `runs`, which may change, or (None) among all.

    Read models that lag are behind by no more than a batch. While they stay as they are, nothing is read twice.
    """

    def __init__(self, views: Views, runs: Collection[str] | None) -> None:
        self._views = views
        self._runs = runs
        self._seen = 0
        self._idle: _Calm | None = None
        self._calm: _Calm | None = None
        self._asked: tuple[_Rows, Sequence[ActorKey]] | None = None

    async def due(self, now: datetime, limit: int, behind: DueStep | None = None) -> Sequence[DueStep]:
        rows = self._rows()
        if behind is None:
            self._seen = self._views.position
            if self._is_calm(rows, now):
                return ()
        after = (behind.timer, behind.run, behind.path) if behind and behind.timer else None
        found = await list_due(self._views, now, limit, self._runs, after)
        self._idle = None if found or behind else _Calm(rows, now)
        return [_due_step(each) for each in found]

    async def actors(self) -> Sequence[ActorKey]:
        rows = self._rows()
        if self._asked is None or self._asked[0] != rows:
            self._asked = rows, await list_asked_actors(self._views, self._runs)
        return self._asked[1]

    async def waited(
        self, actor: ActorKey, now: datetime, unserved: timedelta, wait: timedelta, limit: int
    ) -> Sequence[DueStep]:
        lengths = unserved.total_seconds(), wait.total_seconds()
        found = await list_unserved(self._views, actor, now, *lengths, limit, self._runs)
        return [replace(_due_step(each), requested=each.since, unserved=True) for each in found]

    async def unanswered(self, actor: ActorKey, upto: int, limit: int) -> Sequence[DueStep]:
        return [_due_step(each) for each in await list_unanswered(self._views, actor, upto, limit, self._runs)]

    async def next_due(self, after: datetime) -> datetime | None:
        rows = self._rows()
        if self._calm is not None and self._is_calm(rows, after):
            return self._calm.until
        until = await next_due(self._views, self._runs, after=after)
        self._calm = _Calm(rows, after, until) if self._idle == _Calm(rows, after) else None
        return until

    async def changed(self) -> None:
        await self._views.changed(self._seen)

    def _rows(self) -> _Rows:
        runs = None if self._runs is None else frozenset(self._runs)
        return self._views.position, self._views.progress.writes, runs

    def _is_calm(self, rows: _Rows, now: datetime) -> bool:
        """Returns whether it is known without reading that nothing is due."""
        calm = self._calm
        return calm is not None and calm.rows == rows and (calm.until is None or now < calm.until)


def _due_step(line: StepLine) -> DueStep:
    waits = line.status == "waiting"
    actor = None if line.role in ("approver", "clock", "run") else (cast("Role", line.role), line.actor)
    timer = line.retry_at if waits else line.due
    return DueStep(line.run, line.path, line.attempt, waits, line.cause, timer, actor, line.requested)


FRESH_SECONDS: Final = 1.0
"""Seconds: the largest age of the tallies behind a choice; runs that ended since may be missing from them."""

SHARE: Final = 20
"""Tallies last this many times as long as it took to read them, so that reading takes at most 1/20 of the time."""


class ArmTallies:
    """Gives tallies for choices that are at most a second old. `run` keeps the read model up to date, beside the
    coordinator.

    It is brought up to date when a choice is to be made, and not before. The first choice waits while that takes, up
    to `patience` seconds; while it cannot be read, choices are made by the tallies that were read last.
    """

    def __init__(
        self, models: ReadModels, fresh: float = FRESH_SECONDS, patience: float = PATIENCE, share: float = SHARE
    ) -> None:
        self._model = CaughtUp(models, CHOICES, patience)
        self._fresh = fresh
        self._share = share
        self._known: Mapping[str, Tallies] = {}
        self._until = -float("inf")
        self.run = self._model.run

    async def __call__(self, workflow: str) -> Tallies:
        """Returns the tallies of a workflow's arms."""
        began = time.monotonic()
        if began > self._until:
            views = await self._model.views()
            self._until = time.monotonic() + self._fresh
            with suppress(StoreError, TypeError, ValueError):  # whatever is wrong with it, runs go on
                if views is not None and not self._model.late:
                    self._known = await tallies(views)
                    ended = time.monotonic()
                    self._until = min(began + self._fresh, ended + self._share * (ended - began))
        return self._known.get(workflow, {})
