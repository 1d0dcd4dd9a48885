"""Many rehearsed runs of a plan as numbers: how they end, and how what they take is distributed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

import msgspec

from redraft.app.rehearsal import Rehearsed
from redraft.events.domain_events import Outcome

PERCENTS: Final = (5, 25, 50, 75, 95)


class Spread(msgspec.Struct, frozen=True):
    """The distribution of a quantity over the runs in which it is known; `p05` is its 5th percentile, and so on."""

    runs: int
    mean: float
    min: float
    p05: float
    p25: float
    p50: float
    p75: float
    p95: float
    max: float


class Summary(msgspec.Struct, frozen=True):
    """`outcomes` and `iterations` say how many runs ended so; `spreads` are by the name of what is measured.

    `unpriced` is how many calls, of all runs, have no price that is known, and are left out of the cost.
    """

    runs: int
    outcomes: dict[Outcome, int]
    iterations: dict[int, int]
    spreads: dict[str, Spread]
    unpriced: int


def summary(rehearsed: Iterable[Rehearsed]) -> Summary:
    """Returns these runs, at least one, in numbers."""
    runs = list(rehearsed)
    measured: dict[str, Sequence[float | None]] = {
        "iterations": [each.iterations for each in runs],
        "score": [each.score for each in runs],
        "quality": [each.quality for each in runs],
        "cost": [each.usage.cost for each in runs],
        "tokens": [each.usage.tokens for each in runs],
        "calls": [each.usage.calls for each in runs],
        "steps": [each.steps for each in runs],
        "seconds": [each.seconds for each in runs],
    }
    return Summary(
        len(runs),
        dict(Counter(each.outcome for each in runs).most_common()),
        dict(sorted(Counter(each.iterations for each in runs).items())),
        {name: found for name, values in measured.items() if (found := _spread(values)) is not None},
        sum(each.usage.unpriced for each in runs),
    )


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    p05, p25, p50, p75, p95 = (known[ceil(len(known) * percent / 100) - 1] for percent in PERCENTS)
    return Spread(len(known), sum(known) / len(known), known[0], p05, p25, p50, p75, p95, known[-1])
