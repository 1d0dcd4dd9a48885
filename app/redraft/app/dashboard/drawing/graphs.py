"""Lays out charts: lines over a scale, and bars side by side, with axes, units and a description in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

WIDTH: Final = 640
HEIGHT: Final = 210
LEFT: Final = 78
"""Room for a label of six figures on a narrow window, where they are larger than the drawing."""

RIGHT: Final = 610
TOP: Final = 18
BOTTOM: Final = 168
LABELS: Final = 6
"""The approximate maximum number of labels on an axis."""

KINDS: Final = 5
"""The number of dash patterns, and so of lines in a chart."""

Text: TypeAlias = Callable[[float], str]
"""Returns a number of an axis as people read it, with its unit."""


class Value(NamedTuple):
    """A point of a line."""

    x: float
    y: float


class Tick(msgspec.Struct, frozen=True):
    """A label of an axis, where it stands."""

    at: float
    text: str


class Dot(msgspec.Struct, frozen=True):
    """A point, where it is drawn, and what it says."""

    x: float
    y: float
    text: str


class Line(msgspec.Struct, frozen=True):
    """A line with its name; `kind` tells it apart from the others."""

    name: str
    kind: int
    dots: tuple[Dot, ...]


class Bar(msgspec.Struct, frozen=True):
    """A bar, where it is drawn, and what it says."""

    x: float
    y: float
    width: float
    height: float
    text: str


class Table(msgspec.Struct, frozen=True):
    """The numbers of a chart: a name for each column, and rows of as many cells, of which the first names the row."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Graph(msgspec.Struct, frozen=True):
    """A chart, laid out; `key` names it on its page. `chosen` is where a vertical line stands.

    `numbers` are all that it is about, also the `left_out` lines that it has no room for.
    """

    key: str
    title: str
    description: str
    x_title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()
    chosen: float | None = None
    numbers: Table | None = None
    left_out: int = 0

    @property
    def left(self) -> int:
        """The distance of its lines from the left edge."""
        return LEFT


def line_graph(
    key: str,
    title: str,
    x_title: str,
    series: Mapping[str, Sequence[Value]],
    x_text: Text,
    y_text: Text,
    top: float | None = None,
    chosen: float | None = None,
    counted: Mapping[float, str] = MappingProxyType({}),
) -> Graph:
    """Returns a chart of these lines, from 0 to `top`, or to a round number above every value.

    `counted` says for an x what its points are made of.
    """
    xs = sorted({value.x for values in series.values() for value in values} | counted.keys())
    first, last = (xs[0], xs[-1]) if xs else (0.0, 1.0)
    end = top if top is not None else _round_up(max((v.y for values in series.values() for v in values), default=1))

    def x_at(x: float) -> float:
        return LEFT + 10 + (x - first) / ((last - first) or 1) * (RIGHT - LEFT - 20)

    def made_of(x: float) -> str:
        return f" ({counted[x]})" if x in counted else ""

    def drawn(name: str, value: Value) -> Dot:
        return Dot(x_at(value.x), _y(value.y, end), f"{name}, {x_text(value.x)}: {y_text(value.y)}{made_of(value.x)}")

    lines = tuple(
        Line(name, number % KINDS, tuple(drawn(name, value) for value in values))
        for number, (name, values) in enumerate(series.items())
    )
    told = [f"{name}: {_course(values, x_text, y_text)}" for name, values in series.items() if values]
    shown = xs[:: max(1, math.ceil(len(xs) / LABELS))]
    return Graph(
        *(key, title, ". ".join(told) or "nothing to show", x_title, tuple(Tick(x_at(x), x_text(x)) for x in shown)),
        *(_y_ticks(end, y_text), lines, (), None if chosen is None else x_at(chosen)),
    )


def bar_graph(key: str, title: str, x_title: str, values: Sequence[tuple[str, float]], y_text: Text) -> Graph:
    """Returns a chart with a bar for each value, in order."""
    end = _round_up(max((value for _, value in values), default=1))
    step = (RIGHT - LEFT) / max(len(values), 1)
    width = min(step * 0.8, 48)
    tops = [_y(value, end) for _, value in values]
    bars = tuple(
        Bar(LEFT + step * (at + 0.5) - width / 2, y, width, BOTTOM - y, f"{name}: {y_text(value)}")
        for at, ((name, value), y) in enumerate(zip(values, tops, strict=True))
    )
    every = max(1, math.ceil(len(values) / (LABELS + 2)))
    ticks = tuple(Tick(LEFT + step * (at + 0.5), name) for at, (name, _) in enumerate(values) if at % every == 0)
    most = max(values, key=lambda each: each[1], default=None)
    told = f"{len(values)} bars, the highest at {most[0]}: {y_text(most[1])}" if most else "nothing to show"
    numbers = Table((x_title, "number"), tuple((name, y_text(value)) for name, value in values))
    return Graph(key, title, told, x_title, ticks, _y_ticks(end, y_text), (), bars, None, numbers)


def _y(value: float, end: float) -> float:
    return BOTTOM - min(max(value / end, 0), 1) * (BOTTOM - TOP)


def _y_ticks(end: float, text: Text) -> tuple[Tick, ...]:
    return tuple(Tick(_y(value, end), text(value)) for value in (0, end / 2, end))


def _round_up(value: float) -> float:
    """Returns 1, 2, 4, 5 or 10 times a power of ten that is at least the value."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((each * power for each in (1, 2, 4, 5, 10) if each * power >= value), 10 * power)


def _course(values: Sequence[Value], x_text: Text, y_text: Text) -> str:
    first, last = values[0], values[-1]
    if len(values) == 1:
        return f"{y_text(first.y)} at {x_text(first.x)}"
    least, most = min(values, key=lambda v: v.y), max(values, key=lambda v: v.y)
    return (
        f"from {y_text(first.y)} at {x_text(first.x)} to {y_text(last.y)} at {x_text(last.x)}, "
        f"least {y_text(least.y)}, most {y_text(most.y)}"
    )
