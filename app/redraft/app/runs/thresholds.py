"""Computes what-if results for many thresholds over the recorded runs of a workflow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from cachetools import LRUCache

from redraft.actors.deciding.policy import Policy
from redraft.actors.replay.whatif import RunSummary, what_if_each
from redraft.app.runs.comparing import Row, read_policies, rows_of
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import InputError
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.scales import read_scale
from redraft.projections.read_models.runs_query import RunFilter, RunLine, count_runs, page_of_runs

SHARES: Final = tuple(at / 20 for at in range(10, 21))
"""The thresholds that are tried, as shares of the scale."""

MOST: Final = 1_000
"""The maximum number of runs, the newest, that are decided again."""

_KEPT: Final = 2_000
"""The runs whose courses are kept: one that has ended does not change."""

_Courses: TypeAlias = tuple[RunSummary, ...]
"""A run as recorded, then under each threshold."""


class Point(msgspec.Struct, frozen=True):
    """A threshold, as a share of the scale and as a condition, and what it makes of the runs."""

    share: float
    until: str
    row: Row


class Curve(msgspec.Struct, frozen=True):
    """The runs as `recorded`, and under each threshold. `taken` of `total` runs were decided again so far.

    `without` of those taken have no such loop. `recorded` is None when no run could be decided. `currency` is that of
    all runs, empty where there are several.
    """

    taken: int
    total: int
    without: int
    recorded: Row | None
    points: tuple[Point, ...]
    currency: str = ""


class Thresholds:
    """Decides runs again under each threshold, and remembers what came of it."""

    def __init__(self) -> None:
        self._known: LRUCache[tuple[str, int, str], _Courses | str] = LRUCache(_KEPT)

    async def curve(self, log: LocalRuntime, chosen: RunFilter, loop: str, seconds: float) -> Curve:
        """Returns the curve over the newest runs; after `seconds` only over those that are known by then.

        `loop` names the loop, if there are several. Raises InputError when none of the runs taken has it.
        """
        lines = await page_of_runs(log.views, chosen, MOST)
        until = [_condition(lines, share) for share in SHARES]
        policies = read_policies(until, None, None, None)
        end, courses, fault = time.monotonic() + seconds, list[_Courses](), ""
        taken = 0
        for line in lines:
            found = self._known.get(key := (line.run, line.version, f"{loop}\n{until[0]}"))
            if found is None:
                if time.monotonic() > end:
                    continue
                events = await log.store.read(line.run)
                found = self._known[key] = await asyncio.to_thread(_courses, events, policies, loop)
            taken += 1
            if isinstance(found, str):
                fault = found
            else:
                courses.append(found)
        if fault and not courses:
            raise InputError(fault)
        total = min(await count_runs(log.views, chosen), MOST)
        rows = rows_of([str(policy) for policy in policies], courses) if courses else ()
        points = (Point(share, text, row) for share, text, row in zip(SHARES, until, rows[1:], strict=False))
        currencies = {line.currency for line in lines if line.currency}
        currency = currencies.pop() if len(currencies) == 1 else ""
        return Curve(taken, total, taken - len(courses), rows[0] if rows else None, tuple(points), currency)


def _condition(lines: Sequence[RunLine], share: float) -> str:
    """Returns the condition for a share of the scale that all runs have, or of 0 to 1."""
    scales = {line.scale for line in lines if line.score is not None}
    scale = read_scale(scales.pop()) if len(scales) == 1 else None
    if scale is None:
        return f"score >= {share:g}"
    low, high = scale
    return f"score >= {low + share * (high - low):g} of {high:g}"


def _courses(events: Sequence[Recorded], policies: Sequence[Policy], loop: str) -> _Courses | str:
    """Returns a run as recorded and under each policy, or why that cannot be said."""
    try:
        found = what_if_each(events, policies, loop)
    except InputError as error:
        return str(error)
    return (found[0].recorded, *(each.imagined for each in found))
