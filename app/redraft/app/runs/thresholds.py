"""Computes what-if results for many thresholds over the recorded runs of a workflow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence, Set
from functools import cache
from typing import Final

import msgspec
from cachetools import LRUCache

from redraft.actors.conditions.printing import print_condition
from redraft.actors.conditions.text import terms
from redraft.actors.plans.paths import find_loop
from redraft.actors.replay.whatif import RunSummary, plan_of, what_if_each
from redraft.app.runs.comparing import Row, read_policies, rows_of
from redraft.app.subscribing.misfits import following_its_plan
from redraft.app.wiring.local import LocalRuntime
from redraft.events.errors import CodecError, InputError, Tampered
from redraft.events.messages.conditions import AllOf, AnyOf, Condition, Not, State
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import loops_of, scale_of_critics
from redraft.events.messages.scales import Scale, on_scale
from redraft.projections.read_models.runs_query import RunFilter, count_runs, page_of_runs

SHARES: Final = tuple(at / 20 for at in range(10, 21))
"""The thresholds that are tried, as shares of the scale."""

MOST: Final = 1_000
"""The maximum number of runs, the newest, that are decided again."""

_KEPT: Final = 2_000
"""The runs whose courses are kept: one that has ended does not change."""


class _Decided(msgspec.Struct, frozen=True):
    """A run as recorded, then under each threshold on the `scale` of its loop, with what it asks `beside` that."""

    scale: Scale | None
    beside: str
    courses: tuple[RunSummary, ...]


class Point(msgspec.Struct, frozen=True):
    """A threshold, as a share of the scale and as a condition, and what it makes of the runs."""

    share: float
    until: str
    row: Row


class Curve(msgspec.Struct, frozen=True):
    """The runs as `recorded`, and under each threshold. `taken` of `total` runs were decided again so far.

    `without` of those taken have no such loop. `recorded` is None when no run could be decided. `currency` is that of
    all runs, empty where there are several, and `scale` that of the loop in all of them, None where there are several.
    """

    taken: int
    total: int
    without: int
    recorded: Row | None
    points: tuple[Point, ...]
    currency: str = ""
    scale: Scale | None = None


class Thresholds:
    """Decides runs again under each threshold, and remembers what came of it."""

    def __init__(self) -> None:
        self._known: LRUCache[tuple[str, int, str], _Decided | str] = LRUCache(_KEPT)

    async def curve(self, log: LocalRuntime, chosen: RunFilter, loop: str, seconds: float) -> Curve:
        """Returns the curve over the newest runs; after `seconds` only over those that are known by then.

        `loop` names the loop, if there are several. Raises InputError when none of the runs taken has it.
        """
        lines = await page_of_runs(log.views, chosen, MOST)
        end, decided, fault, taken = time.monotonic() + seconds, list[_Decided](), "", 0
        for line in lines:
            found = self._known.get(key := (line.run, line.version, loop))
            if found is None:
                if time.monotonic() > end:
                    continue
                found = self._known[key] = await _decided(log, line.run, loop)
            taken += 1
            if isinstance(found, str):
                fault = found
            else:
                decided.append(found)
        if fault and not decided:
            raise InputError(fault)
        total = min(await count_runs(log.views, chosen), MOST)
        return _curve(taken, total, decided, {line.currency for line in lines if line.currency})


def _curve(taken: int, total: int, decided: Sequence[_Decided], currencies: Set[str]) -> Curve:
    """Returns what the thresholds made of the runs that were decided."""
    scales = {each.scale for each in decided}
    scale = next(iter(scales)) if len(scales) == 1 else None
    beside = {each.beside for each in decided}
    until = _conditions(scale, next(iter(beside)) if len(beside) == 1 else "")
    rows = rows_of(until, [each.courses for each in decided]) if decided else ()
    points = tuple(Point(*each) for each in zip(SHARES, until, rows[1:], strict=False))
    currency = next(iter(currencies)) if len(currencies) == 1 else ""
    return Curve(taken, total, taken - len(decided), rows[0] if rows else None, points, currency, scale)


@cache
def _conditions(scale: Scale | None, beside: str) -> tuple[str, ...]:
    """Returns the condition for each share of this scale, or of 0 to 1, and what has to hold beside it."""
    if scale is None:
        return tuple(f"score >= {share:g}{beside}" for share in SHARES)
    return tuple(f"score >= {on_scale(share, scale):.15g} of {scale[1]:.15g}{beside}" for share in SHARES)


def _beside(until: Condition) -> str:
    """Returns what a loop asks of the run's state in any case, as text: ` and state.tests_pass`."""
    parts = until.conditions if isinstance(until, AllOf) else (until,)
    of_state = [each for each in parts if {type(term) for term in terms(each)} <= {State, AnyOf, AllOf, Not}]
    return "".join(f" and {print_condition(AllOf((each,)))}" for each in of_state)


async def _decided(log: LocalRuntime, run: str, loop: str) -> _Decided | str:
    """Returns a run under each threshold on the scale of its own loop, or why that cannot be said."""
    try:
        return await asyncio.to_thread(_decide, await log.store.read(run), loop)
    except (InputError, CodecError, Tampered) as error:
        return str(error)


def _decide(events: Sequence[Recorded], loop: str) -> _Decided:
    with following_its_plan(events[0].run):
        plan = plan_of(events)
        path = find_loop(plan, loop)
        of_path = next(each for at, each in loops_of(plan.steps) if at == path)
        scale, beside = scale_of_critics(of_path.body), _beside(of_path.until)
        found = what_if_each(events, read_policies(_conditions(scale, beside), None, None, None), loop)
        return _Decided(scale, beside, (found[0].recorded, *(each.imagined for each in found)))
