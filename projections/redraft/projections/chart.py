"""The chart of a run's scores as an inline SVG: no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import isnan
from typing import Final

from redraft.projections.plain import counted, score_text
from redraft.projections.scores import Point

WIDTH: Final = 560
HEIGHT: Final = 232
DOTS: Final = 60
"""Drafts up to which each has a dot of its own; above, the line alone is drawn."""
VALUES: Final = 12
"""Drafts up to which each dot has its score beside it."""
LINES: Final = 3
"""Goals that are drawn at most."""
POINTS: Final = 2_000
"""Drafts above which only every second, third, ... is drawn."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 14, 20, 46
_STYLE: Final = 'fill="none" stroke="currentColor"'


def chart(points: Sequence[Point], goals: Sequence[float] = (), kept: int | None = None, name: str = "scores") -> str:
    """An `<svg>` of the scores by draft, with a line at each goal (0..1) and a ring around the draft that was `kept`.

    Its classes (`axis`, `goal`, `line`, `dot`, `kept`, `value`, `label`) let a page colour it; alone it has the text's
    colour. `name` makes its ids unique where a page has several.
    """
    told = escape(_told(points, goals))
    none = _text(WIDTH / 2, HEIGHT / 2, "no draft has been judged", "middle")
    body = "".join(_body(_sampled(points, kept), goals, kept)) if points else none
    title, desc = f"{escape(name)}-title", f"{escape(name)}-desc"
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg" '
        f'aria-labelledby="{title} {desc}" font-size="13" font-family="inherit">'
        f'<title id="{title}">Score by draft</title><desc id="{desc}">{told}</desc>{body}</svg>'
    )


def _body(points: Sequence[Point], goals: Sequence[float], kept: int | None) -> Iterator[str]:
    places = [(_x(points, number), _y(point.score)) for number, point in enumerate(points)]
    yield from (_axis(value) for value in (0.0, 0.5, 1.0))
    yield from (_goal(value) for value in goals[-LINES:])
    if len(points) > 1:
        row = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline class="line" points="{row}" {_STYLE} stroke-width="2" stroke-linejoin="round"/>'
    for number, (point, (x, y)) in enumerate(zip(points, places, strict=True)):
        if len(points) <= DOTS or point.draft == kept:
            yield _dot(point, x, y, ring=point.draft == kept)
        if len(points) <= VALUES:
            yield _text(x, y - 10 if y > _TOP + 14 else y + 20, score_text(point.score), "middle", "value")
        if number in _labelled(len(points)):
            yield _text(x, HEIGHT - 14, f"{point.draft:,}", "middle")
    yield _text(_LEFT - 8, HEIGHT - 14, "draft", "end")


def _axis(value: float) -> str:
    y = _y(value)
    line = f'<path class="axis" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" {_STYLE} stroke-opacity="0.18"/>'
    return line + _text(_LEFT - 8, y + 4, f"{value:g}", "end")


def _goal(value: float) -> str:
    y = _y(value)
    line = f'<path class="goal" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" {_STYLE} stroke-dasharray="5 4"/>'
    return line + _text(
        _LEFT + 4, y - 5 if value < 0.95 else y + 15, f"goal {score_text(value)}", "start", "goal-label"
    )


def _dot(point: Point, x: float, y: float, *, ring: bool) -> str:
    around = f'<circle class="kept" cx="{x:.1f}" cy="{y:.1f}" r="8" {_STYLE} stroke-width="2"/>' if ring else ""
    title = f"<title>draft {point.draft}: {score_text(point.score)}{', kept' if ring else ''}</title>"
    return f'{around}<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4" fill="currentColor">{title}</circle>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'
    )


def _x(points: Sequence[Point], number: int) -> float:
    left, width = _LEFT + 26, WIDTH - _LEFT - _RIGHT - 52
    return left + width * (number / (len(points) - 1) if len(points) > 1 else 0.5)


def _y(score: float) -> float:
    held = 0.0 if isnan(score) else min(max(score, 0.0), 1.0)
    return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - held)


def _labelled(count: int) -> frozenset[int]:
    """Which of `count` points have their draft's number below them: all of a few, some of many, the ends always."""
    if count <= VALUES:
        return frozenset(range(count))
    return frozenset(round(step * (count - 1) / 8) for step in range(9))


def _told(points: Sequence[Point], goals: Sequence[float]) -> str:
    if not points:
        return "No draft has been judged."
    best = max(points, key=lambda point: point.score)
    first, last = points[0], points[-1]
    goal = f" The goal is {score_text(goals[-1])}." if goals else ""
    return (
        f"{counted(len(points), 'judged draft')}: from {score_text(first.score)} (draft {first.draft}) to "
        f"{score_text(last.score)} (draft {last.draft}); "
        f"the best is draft {best.draft} with {score_text(best.score)}.{goal}"
    )


def _sampled(points: Sequence[Point], kept: int | None) -> Sequence[Point]:
    """At most about `POINTS` of the points: every so many, the last, and the one that was kept."""
    every = len(points) // POINTS + 1
    last = len(points) - 1
    return [each for place, each in enumerate(points) if place % every == 0 or place == last or each.draft == kept]
