"""The scores at which the loops of a run may end: of all critics together, or of a criterion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    State,
)
from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Node, loops_of, scale_of_critics, steps_of
from redraft.events.messages.scales import Scale, score_text, to_share
from redraft.projections.display import NAME_LENGTH, plain

_LEAST: Final = "min(criteria)"


class Goal(msgspec.Struct, frozen=True):
    """A score, 0..1, shown on `scale`, at which a loop may end; `of` is the criterion that it is of, if of one."""

    share: float
    scale: Scale | None = None
    of: str = ""

    @property
    def text(self) -> str:
        """Returns the goal in words: `90 of 100`, or `accuracy 9 of 10`."""
        return f"{plain(self.of, NAME_LENGTH)} {score_text(self.share, self.scale)}".lstrip()


def goals(events: Iterable[Recorded]) -> tuple[Goal, ...]:
    """Returns the scores at which loops of the run's plan may end, lowest first."""
    plan = next((event.data.plan for event in events if isinstance(event.data, RunStarted)), None)
    found = {goal for _, loop in loops_of(plan.steps if plan else ()) for goal in _goals(loop.until, loop.body)}
    return tuple(sorted(found, key=lambda goal: (goal.share, goal.of)))


def _goals(condition: Condition, body: Sequence[Node]) -> Iterator[Goal]:
    match condition:
        case Compare(quantity="score", operator=">=" | ">", value=value, top=top):
            scale = scale_of_critics(body)
            yield Goal(_share_of_limit(value, top, scale), scale)
        case Compare(quantity="criterion", operator=">=" | ">", value=value, of=of, top=top):
            if scales := _scales_of(of, body):
                scale = scales.pop() if len(scales) == 1 else None
                yield Goal(_share_of_limit(value, top, scale), scale, of)
        case AnyOf(conditions) | AllOf(conditions):
            for each in conditions:
                yield from _goals(each, body)
        case Compare() | Approved() | Plateau() | Oscillating() | Exit() | State() | Not():
            pass
        case _:
            assert_never(condition)


def _scales_of(of: str, body: Sequence[Node]) -> set[Scale | None]:
    """Returns the scales of the scores that critics of these nodes give by this name; empty for what is no score."""
    owner, _, name = of.rpartition(".")
    critics = [step for _, step in steps_of(body) if step.role == "critic" and owner in ("", step.name)]
    if owner and name == "score":
        return {step.scale for step in critics}
    named = [step for step in critics if name != _LEAST or not step.gate] or critics
    return {each.scale or step.scale for step in named for each in step.criteria if name in (each.name, _LEAST)}


def _share_of_limit(value: float, top: float | None, scale: Scale | None) -> float:
    if scale is not None and top in (None, scale[1]) and scale[0] <= value <= scale[1]:
        return to_share(value, scale)
    return value / (top or 1.0)
