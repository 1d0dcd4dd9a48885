"""Scales of scores: recorded as shares (0..1), given by critics and shown on the scale that a critic declares.

`score_text` is the one function that writes a score for people: `0.93`, or `9 of 10` on a scale of 1 to 10.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_FLOOR, Decimal
from statistics import fmean
from typing import Final, TypeAlias

Scale: TypeAlias = tuple[float, float]
"""The lowest and the highest score that a critic gives."""

UNIT: Final[Scale] = (0.0, 1.0)
"""The scale of a critic that declares none, and of every recorded score."""

LARGEST_END: Final = 10**15
"""The largest end of a declared scale; scores on it keep their decimals."""

_NARROWEST: Final = 0.001
"""The least width of a declared scale, as scores are shown with three decimals."""

_FINEST: Final = 1e-6
"""The least share of its larger end that a declared scale is wide, so that its points can be told apart."""

_PRECISE: Final = 9
"""Decimals that scores on a declared scale are compared with: a mean of eights is 8, whatever floats make of it."""


def scale_fault(low: float, high: float) -> str:
    """Returns why these ends, which rise, make no scale of scores; empty when they do."""
    largest = max(abs(low), abs(high))
    if not largest <= LARGEST_END:
        return "its ends are numbers up to 10**15"
    narrow = high - low < max(_NARROWEST, largest * _FINEST)
    return "its ends are too near each other to tell scores apart" if narrow else ""


def to_share(value: float, scale: Scale) -> float:
    """Returns a score on this scale as a share, 0..1, of at most 15 decimals if these tell it: 8.2 of 1..10 is 0.8."""
    low, high = scale
    share = (value - low) / (high - low)
    short = round(share, 15)
    return short if on_scale(short, scale) == on_scale(share, scale) else share


def mean_of(shares: Iterable[float], weights: Iterable[float] | None = None) -> float:
    """Returns the mean of shares, rounded as `without_noise` does: that of 0.7, 0.7 and 0.7 is 0.7, and of one is it.

    Raises statistics.StatisticsError without shares, or when the weights of several add up to 0.
    """
    given = tuple(shares)
    return given[0] if len(given) == 1 else without_noise(fmean(given, weights))


def without_noise(mean: float) -> float:
    """Returns a mean of shares rounded to 14 decimals; those after them come of calculating with binary numbers."""
    return round(mean, 14)


def on_scale(share: float, scale: Scale) -> float:
    """Returns a share as a score on this scale, rounded to 9 decimals."""
    low, high = scale
    return round(low + share * (high - low), _PRECISE)


def score_text(score: float, scale: Scale | None = None, *, beside: bool = False) -> str:
    """Returns a share (0..1) as people read it: 0.66667 becomes `0.667`, but 0.8999 `0.899`, as it is not 0.9.

    On a declared scale it becomes `9 of 10`; `beside` adds the share, for where critics are compared: `9 of 10 (0.88)`.
    """
    if scale is None or tuple(scale) == UNIT:
        return points_text(score, scale)
    text = f"{points_text(score, scale)} of {_end_text(scale[1])}"
    return f"{text} ({score_text(score)})" if beside else text


def points_text(score: float, scale: Scale | None = None) -> str:
    """Returns a share as `score_text` does, without the end of its scale: where an axis or a column has that."""
    if scale is None or tuple(scale) == UNIT:
        return _rounded(score, 2) if 0 <= score <= 1 else f"{score:.3g}"
    return _rounded(on_scale(score, scale), 0)


def write_scale(scale: Scale | None) -> str | None:
    """Returns a scale as a text for tables: `1..10`; None for none."""
    return None if scale is None else f"{_end_text(scale[0])}..{_end_text(scale[1])}"


def read_scale(text: str | None) -> Scale | None:
    """Returns the scale of such a text."""
    low, dots, high = (text or "").partition("..")
    return (float(low), float(high)) if dots else None


def _end_text(end: float) -> str:
    """Returns an end of a scale with all its digits: `1000000`, not `1e+06`, which no condition is written with."""
    return str(int(end)) if float(end).is_integer() and abs(end) < LARGEST_END else f"{end:.15g}"


def _rounded(number: float, least: int) -> str:
    """Returns the number with at most three decimals, and at least so many.

    It is rounded, but not up to a number of fewer decimals, such as a threshold that it does not reach. One too large
    for decimals, as older records may hold, is written short: `5e+29`.
    """
    if not abs(number) <= LARGEST_END:
        return f"{number:g}"
    exact, thousandth = Decimal(f"{number:.9f}"), Decimal("0.001")
    floor, nearest = exact.quantize(thousandth, ROUND_FLOOR), exact.quantize(thousandth)
    text = str(floor if nearest % Decimal("0.01") == 0 else nearest)
    kept = len(text) - 3 + least
    return (text[:kept] + text[kept:].rstrip("0")).rstrip(".")
