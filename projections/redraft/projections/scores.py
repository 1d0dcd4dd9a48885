"""The scores of one run by draft, and the goal that its plan sets them: what the chart shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import msgspec

from redraft.events.conditions import AllOf, AnyOf, Approved, Compare, Condition, Not, Oscillating, Plateau
from redraft.events.domain_events import DomainEvent, DraftCritiqued, LoopEnded, RunEnded, RunStarted, StepRequested
from redraft.events.envelope import Recorded
from redraft.events.plan import loops_of


class Point(msgspec.Struct, frozen=True):
    """A judged draft by its version, and its score, 0..1."""

    draft: int
    score: float


class Heard(msgspec.Struct, frozen=True):
    """One critic's score of a draft, and the pass in which it was given."""

    draft: int
    within: str
    score: float


class Settled(msgspec.Struct, frozen=True):
    """The score of a draft that its run goes on with: that of all its critics together."""

    draft: int
    score: float


def scores(events: Iterable[Recorded]) -> tuple[Point, ...]:
    """The last joined score of each judged draft, by version.

    Where several critics judged a draft, it is the score that the run went on with; while that is not yet recorded, the
    lowest of theirs. A draft that was judged in several loops has the score of the last.
    """
    heard: dict[int, tuple[str, float]] = {}
    for event in events:
        match said(event.data):
            case Heard(draft, within, score):
                place, lowest = heard.get(draft, ("", 1.0))
                heard[draft] = within, min(lowest, score) if place == within else score
            case Settled(draft, score):
                if draft in heard:
                    heard[draft] = heard[draft][0], score
            case None:
                pass
    return tuple(Point(draft, score) for draft, (_, score) in sorted(heard.items()))


def said(event: DomainEvent) -> Heard | Settled | None:
    """What an event says of a draft's score; most say nothing."""
    match event:
        case DraftCritiqued(path=path, draft=ref, critique=critique):
            return Heard(ref.version, _pass_of(path), critique.score)
        case StepRequested(draft=ref, score=score) | LoopEnded(draft=ref, score=score):
            return Settled(ref.version, score) if ref and score is not None else None
        case _:
            return None


def goals(events: Iterable[Recorded]) -> tuple[float, ...]:
    """The scores (0..1) at which loops of the run's plan may end, lowest first; empty when none speaks of a score."""
    plan = next((event.data.plan for event in events if isinstance(event.data, RunStarted)), None)
    found = {value for _, loop in loops_of(plan.steps if plan else ()) for value in _score_limits(loop.until)}
    return tuple(sorted(found))


def kept(events: Sequence[Recorded]) -> int | None:
    """The version of the draft that a run ended with; None while it runs, or without a draft."""
    ended = next((event.data for event in reversed(events) if isinstance(event.data, RunEnded)), None)
    return ended.draft.version if ended and ended.draft else None


def _pass_of(path: str) -> str:
    """The pass of the innermost loop around a step: `A[2]/B[1]` of `A[2]/B[1]/critics/one`."""
    return path[: path.rfind("]/") + 1]


def _score_limits(condition: Condition) -> Iterator[float]:
    match condition:
        case Compare(quantity="score", operator=">=" | ">", value=value):
            yield value
        case AnyOf(conditions) | AllOf(conditions):
            for each in conditions:
                yield from _score_limits(each)
        case Compare() | Approved() | Plateau() | Oscillating() | Not():
            pass
        case _:
            assert_never(condition)
