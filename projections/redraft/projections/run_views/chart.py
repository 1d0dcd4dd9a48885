"""The scores of a run by draft, and the coordinates of their chart: its line, dots and labels, whatever draws it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Final

import msgspec

from redraft.events.messages.domain_events import (
    DomainEvent,
    DraftCritiqued,
    LoopEnded,
    RunEnded,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.scales import UNIT, Scale, on_scale, points_text, score_text
from redraft.projections.display import counted, plain, short_number
from redraft.projections.run_views.goals import Goal


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


def kept_draft(events: Sequence[Recorded]) -> int | None:
    """Returns the version of the draft that a run ended with; None while it runs, or without a draft."""
    ended = next((event.data for event in reversed(events) if isinstance(event.data, RunEnded)), None)
    return ended.draft.version if ended and ended.draft else None


def _iteration_of(path: str) -> str:
    """Returns the iteration of the innermost loop around a step: `A[2]/B[1]` for `A[2]/B[1]/critics/one`."""
    return path[: path.rfind("]/") + 1]


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
_LABEL_HEIGHT = 32
_LETTER: Final = 12
"""The width of a letter of a label at most: on a narrow window, and between wide ones, letters are large."""

_NAME: Final = 24
"""The maximum number of characters of a criterion's name in the label of its goal."""


class Dot(msgspec.Struct, frozen=True):
    """A judged draft in the chart; the line connects all of them.

    `kept` marks the draft that the run ended with. With many drafts not each is `drawn`, `valued` (labelled with its
    score) or `numbered` (labelled with its number). `label` is the score as the axis has it, around `label_x`.
    """

    x: float
    y: float
    draft: int
    score: str
    label: str
    label_x: float
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

    The label of a goal has a place too, where it begins. `curves` are those of criteria and critics; `left_out` more
    have no room. `goal` says all goals in words.
    """

    description: str
    dots: tuple[Dot, ...]
    axes: tuple[tuple[float, str], ...]
    goals: tuple[tuple[float, str, float], ...]
    curves: tuple[Curve, ...] = ()
    left_out: int = 0
    goal: str = ""


def chart(
    points: Sequence[Point],
    goals: Sequence[Goal] = (),
    kept: int | None = None,
    parts: Mapping[str, Sequence[Point]] | None = None,
) -> Chart:
    """Returns the layout of the scores by draft, with a line at each goal and the `kept` draft marked.

    `parts` are further curves by name, as `scores_by_part` has them; those that a goal is of come first.
    """
    scale, named = _common_scale(points), {goal.of.rpartition(".")[2] for goal in goals if goal.of}
    shown = sorted((parts or {}).items(), key=lambda each: each[0].rpartition(": ")[2] not in named)
    dots = tuple(_dots(_sample(points, kept), kept, scale))
    return Chart(
        _describe(points, goals),
        dots,
        tuple((_y(value), short_number(on_scale(value, scale or UNIT))) for value in (0.0, 0.5, 1.0)),
        tuple(_goal_line(goal, scale, dots) for goal in goals[-LINES:]),
        tuple(_curves(_sample(points, kept), shown[:CURVES])),
        max(len(shown) - CURVES, 0),
        ", ".join(dict.fromkeys(goal.text for goal in goals)),
    )


def _goal_line(goal: Goal, scale: Scale | None, dots: Sequence[Dot]) -> tuple[float, str, float]:
    """Returns the height of a goal, its label, and where that begins; the share too where the axis has shares."""
    text = score_text(goal.share, goal.scale, beside=scale is None or goal.scale != scale)
    label = f"{plain(goal.of, _NAME)} {text}".lstrip()
    return _y(goal.share), label, _label_place(_y(goal.share), dots, len(f"goal {label}") * _LETTER)


def _curves(points: Sequence[Point], parts: Iterable[tuple[str, Sequence[Point]]]) -> Iterator[Curve]:
    places = {point.draft: _x(points, number) for number, point in enumerate(points)}
    for name, part in parts:
        yield Curve(name, tuple((places[each.draft], _y(each.score)) for each in part if each.draft in places))


def _common_scale(points: Sequence[Point]) -> Scale | None:
    """Returns the scale of all points; None if they have several, or none."""
    return points[0].scale if points and len({point.scale for point in points}) == 1 else None


def _dots(points: Sequence[Point], kept: int | None, scale: Scale | None) -> Iterator[Dot]:
    few, numbered = len(points) <= DOTS, _numbered_points(len(points))
    labels = [points_text(point.score, scale) for point in points]
    places = [_fitting(_x(points, number), label) for number, label in enumerate(labels)]
    valued = _free_labels(points, labels, places, kept) if len(points) <= VALUES else frozenset()
    for number, point in enumerate(points):
        x, y, is_kept = _x(points, number), _y(point.score), point.draft == kept
        shown = few or is_kept, number in valued, number in numbered
        text = score_text(point.score, point.scale, beside=scale is None)
        yield Dot(x, y, point.draft, text, labels[number], places[number], is_kept, *shown)


def _fitting(x: float, label: str) -> float:
    """Returns the middle of a label that is to stand at `x`, within the chart."""
    half = len(label) * _LETTER / 2
    return min(max(x, LEFT + half), WIDTH - half)


def _free_labels(
    points: Sequence[Point], labels: Sequence[str], places: Sequence[float], kept: int | None
) -> frozenset[int]:
    """Returns which points have room for their label: the kept one first, then the last, then from the first on."""
    last, chosen = len(points) - 1, list[int]()
    for at in sorted(range(len(points)), key=lambda at: (points[at].draft != kept, at != last, at)):
        if not any(
            abs(places[at] - places[other]) < (len(labels[at]) + len(labels[other])) * _LETTER / 2
            and abs(_y(points[at].score) - _y(points[other].score)) < _LABEL_HEIGHT / 2
            for other in chosen
        ):
            chosen.append(at)
    return frozenset(chosen)


def _x(points: Sequence[Point], number: int) -> float:
    left, right = LEFT + _INSET, RIGHT - _INSET
    return left + (right - left) * (number / (len(points) - 1) if len(points) > 1 else 0.5)


def _y(score: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * (0.0 if isnan(score) else min(max(score, 0.0), 1.0))


def _label_place(y: float, dots: Sequence[Dot], width: float) -> float:
    """Returns where the label of a line begins: at its left, or further right where it would cover a score."""
    scores = [dot.x for dot in dots if dot.valued and abs(dot.y - y) < _LABEL_HEIGHT]
    places = (LEFT + 4.0, max((LEFT + RIGHT - width) / 2, LEFT), max(RIGHT - width - 4.0, LEFT))
    free = (x for x in places if not any(x - _INSET < score < x + width + _INSET for score in scores))
    return next(free, places[0])


def _numbered_points(count: int) -> frozenset[int]:
    """Returns which of `count` points are labelled with their draft's number: all of a few, else nine."""
    if count <= VALUES:
        return frozenset(range(count))
    return frozenset(round(step * (count - 1) / 8) for step in range(9))


def _describe(points: Sequence[Point], goals: Sequence[Goal]) -> str:
    if not points:
        return "No draft has been judged."
    best = max(points, key=lambda point: point.score)
    first, last = points[0], points[-1]
    goal = f" The goal is {goals[-1].text}." if goals else ""
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
