"""The scores of a run by draft, and the coordinates of their chart: its line, dots and labels, whatever draws it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Final, assert_never

import msgspec

from redraft.events.messages.conditions import (
    AllOf,
    AnyOf,
    Approved,
    Compare,
    Condition,
    Exit,
    Not,
    Oscillating,
    Plateau,
)
from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    LoopEnded,
    RunEnded,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import loops_of, scale_of_critics
from redraft.events.messages.scales import UNIT, Scale, on_scale, score_text, to_share
from redraft.projections.display import counted


class Point(msgspec.Struct, frozen=True):
    """A judged draft's version, and its score, 0..1."""

    draft: int
    score: float
    scale: Scale | None = None


class CriticScore(msgspec.Struct, frozen=True):
    """One critic's score of a draft, and the iteration in which it was given."""

    draft: int
    within: str
    score: float
    scale: Scale | None = None


class JoinedScore(msgspec.Struct, frozen=True):
    """The joined score of all critics with which a run goes on."""

    draft: int
    score: float
    scale: Scale | None = None


def scores(events: Iterable[Recorded]) -> tuple[Point, ...]:
    """Returns the last joined score of each judged draft, by version.

    If several critics judged a draft, this is the score that the run went on with; until that is recorded, the lowest
    of theirs. A draft that was judged in several loops has the score of the last.
    """
    lowest_scores: dict[int, tuple[str, float]] = {}
    scales: dict[int, Scale | None] = {}
    for event in events:
        match score_of(event.data):
            case CriticScore(draft, within, score, scale):
                scales[draft] = scale
                place, lowest = lowest_scores.get(draft, ("", 1.0))
                lowest_scores[draft] = within, min(lowest, score) if place == within else score
            case JoinedScore(draft, score, scale):
                if draft in lowest_scores:
                    scales[draft] = scale
                    lowest_scores[draft] = lowest_scores[draft][0], score
            case None:
                pass
    return tuple(Point(draft, score, scales[draft]) for draft, (_, score) in sorted(lowest_scores.items()))


def scores_by_part(events: Iterable[Recorded]) -> dict[str, tuple[Point, ...]]:
    """Returns the scores of which a run's are made, by name, each by version: those of criteria, or else of critics.

    Criteria of several critics have their critic's name before theirs; a single critic without criteria has no parts.
    """
    criteria: dict[tuple[str, str], dict[int, Point]] = {}
    critics: dict[str, dict[int, Point]] = {}
    for event in events:
        if not isinstance(event.data, DraftCritiqued) or not event.data.critique.scored:
            continue
        said, draft = event.data.critique, event.data.draft.version
        critic = event.data.path.rpartition("/")[2]  # one actor, such as a program, may serve several steps
        critics.setdefault(critic, {})[draft] = Point(draft, said.score, said.scale)
        for mark in said.criteria:
            criteria.setdefault((critic, mark.name), {})[draft] = Point(draft, mark.score, mark.scale or said.scale)
    several = len(critics) > 1
    found = {f"{critic}: {name}" if several else name: points for (critic, name), points in criteria.items()}
    parts = found or (critics if several else {})
    return {name: tuple(points[draft] for draft in sorted(points)) for name, points in parts.items()}


def score_of(event: DomainEvent) -> CriticScore | JoinedScore | None:
    """Returns the score that an event holds, if any."""
    match event:
        case DraftCritiqued(path=path, draft=ref, critique=critique):
            if not critique.scored:
                return None
            return CriticScore(ref.version, _iteration_of(path), critique.score, critique.scale)
        case StepRequested(draft=ref, score=score, scale=scale) | LoopEnded(draft=ref, score=score, scale=scale):
            return JoinedScore(ref.version, score, scale) if ref and score is not None else None
        case _:
            return None


def goals(events: Iterable[Recorded]) -> tuple[float, ...]:
    """Returns the scores (0..1) at which loops of the run's plan may end, lowest first."""
    plan = next((event.data.plan for event in events if isinstance(event.data, RunStarted)), None)
    found = {
        value
        for _, loop in loops_of(plan.steps if plan else ())
        for value in _score_limits(loop.until, scale_of_critics(loop.body))
    }
    return tuple(sorted(found))


def _share_of_limit(value: float, top: float | None, scale: Scale | None) -> float:
    if scale is not None and top in (None, scale[1]) and scale[0] <= value <= scale[1]:
        return to_share(value, scale)
    return value / (top or 1.0)


def kept_draft(events: Sequence[Recorded]) -> int | None:
    """Returns the version of the draft that a run ended with; None while it runs, or without a draft."""
    ended = next((event.data for event in reversed(events) if isinstance(event.data, RunEnded)), None)
    return ended.draft.version if ended and ended.draft else None


def _iteration_of(path: str) -> str:
    """Returns the iteration of the innermost loop around a step: `A[2]/B[1]` for `A[2]/B[1]/critics/one`."""
    return path[: path.rfind("]/") + 1]


def _score_limits(condition: Condition, scale: Scale | None) -> Iterator[float]:
    match condition:
        case Compare(quantity="score", operator=">=" | ">", value=value, top=top):
            yield _share_of_limit(value, top, scale)
        case AnyOf(conditions) | AllOf(conditions):
            for each in conditions:
                yield from _score_limits(each, scale)
        case Compare() | Approved() | Plateau() | Oscillating() | Exit() | Not():
            pass
        case _:
            assert_never(condition)


WIDTH: Final = 560
HEIGHT: Final = 232
LEFT: Final = 54
RIGHT: Final = WIDTH - 14
DOTS: Final = 60
"""The maximum number of drafts with a dot each; above it only the line is drawn."""
VALUES: Final = 12
"""The maximum number of drafts whose dots are labelled with their scores."""
CURVES: Final = 6
"""The maximum number of curves of criteria and critics."""
LINES: Final = 3
"""The maximum number of goals drawn."""
POINTS: Final = 2_000
"""Above this number of drafts only every second, third, ... is drawn."""

_TOP, _BOTTOM, _INSET = 20, HEIGHT - 46, 26
_LABEL_WIDTH, _LABEL_HEIGHT = 70, 32


class Dot(msgspec.Struct, frozen=True):
    """A judged draft in the chart; the line connects all of them.

    `kept` marks the draft that the run ended with. With many drafts not each is `drawn`, `valued` (labelled with its
    score) or `numbered` (labelled with its number).
    """

    x: float
    y: float
    draft: int
    score: str
    kept: bool
    drawn: bool
    valued: bool
    numbered: bool


class Curve(msgspec.Struct, frozen=True):
    """A further line of the chart: its name, and its points from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


class Chart(msgspec.Struct, frozen=True):
    """The layout of a chart, and `description` in words. `axes` and `goals` are horizontal lines: height and label.

    The label of a goal has a place too, where it begins. `curves` are those of criteria and critics.
    """

    description: str
    dots: tuple[Dot, ...]
    axes: tuple[tuple[float, str], ...]
    goals: tuple[tuple[float, str, float], ...]
    curves: tuple[Curve, ...] = ()


def chart(
    points: Sequence[Point],
    goals: Sequence[float] = (),
    kept: int | None = None,
    parts: Mapping[str, Sequence[Point]] | None = None,
) -> Chart:
    """Returns the layout of the scores by draft, with a line at each goal (0..1) and the `kept` draft marked.

    `parts` are further curves by name, as `scores_by_part` has them.
    """
    scale = _common_scale(points)
    dots = tuple(_dots(_sample(points, kept), kept))
    return Chart(
        _describe(points, goals),
        dots,
        tuple((_y(value), f"{on_scale(value, scale or UNIT):g}") for value in (0.0, 0.5, 1.0)),
        tuple((_y(value), score_text(value, scale), _label_place(_y(value), dots)) for value in goals[-LINES:]),
        tuple(_curves(_sample(points, kept), parts or {})),
    )


def _curves(points: Sequence[Point], parts: Mapping[str, Sequence[Point]]) -> Iterator[Curve]:
    places = {point.draft: _x(points, number) for number, point in enumerate(points)}
    for name, part in list(parts.items())[:CURVES]:
        yield Curve(name, tuple((places[each.draft], _y(each.score)) for each in part if each.draft in places))


def _common_scale(points: Sequence[Point]) -> Scale | None:
    """Returns the scale of all points; None if they have several, or none."""
    return points[0].scale if points and len({point.scale for point in points}) == 1 else None


def _dots(points: Sequence[Point], kept: int | None) -> Iterator[Dot]:
    few, numbered = len(points) <= DOTS, _numbered_points(len(points))
    for number, point in enumerate(points):
        x, y, is_kept = _x(points, number), _y(point.score), point.draft == kept
        labels = few or is_kept, len(points) <= VALUES, number in numbered
        yield Dot(x, y, point.draft, score_text(point.score, point.scale), is_kept, *labels)


def _x(points: Sequence[Point], number: int) -> float:
    left, right = LEFT + _INSET, RIGHT - _INSET
    return left + (right - left) * (number / (len(points) - 1) if len(points) > 1 else 0.5)


def _y(score: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * (0.0 if isnan(score) else min(max(score, 0.0), 1.0))


def _label_place(y: float, dots: Sequence[Dot]) -> float:
    """Returns where the label of a line begins: at its left, or further right where it would cover a score."""
    scores = [dot.x for dot in dots if dot.valued and abs(dot.y - y) < _LABEL_HEIGHT]
    places = (LEFT + 4.0, (LEFT + RIGHT - _LABEL_WIDTH) / 2, RIGHT - _LABEL_WIDTH - 4.0)
    free = (x for x in places if not any(x - _INSET < score < x + _LABEL_WIDTH + _INSET for score in scores))
    return next(free, places[0])


def _numbered_points(count: int) -> frozenset[int]:
    """Returns which of `count` points are labelled with their draft's number: all of a few, else nine."""
    if count <= VALUES:
        return frozenset(range(count))
    return frozenset(round(step * (count - 1) / 8) for step in range(9))


def _describe(points: Sequence[Point], goals: Sequence[float]) -> str:
    if not points:
        return "No draft has been judged."
    best = max(points, key=lambda point: point.score)
    first, last = points[0], points[-1]
    goal = f" The goal is {score_text(goals[-1], _common_scale(points))}." if goals else ""
    return (
        f"{counted(len(points), 'judged draft')}: from {score_text(first.score, first.scale)} (draft {first.draft}) to "
        f"{score_text(last.score, last.scale)} (draft {last.draft}); "
        f"the best is draft {best.draft} with {score_text(best.score, best.scale)}.{goal}"
    )


def _sample(points: Sequence[Point], kept: int | None) -> Sequence[Point]:
    """Returns at most about `POINTS` of the points: every n-th one, the last, and the kept one."""
    every = len(points) // POINTS + 1
    last = len(points) - 1
    return [each for place, each in enumerate(points) if place % every == 0 or place == last or each.draft == kept]
