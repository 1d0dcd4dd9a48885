"""Finds which values of a run's state a loop's condition may look at: none that is about another draft."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from redraft.events.messages.plan import Each, Node, Repeat, Step, nodes_of
from redraft.events.messages.run_state import Values
from redraft.projections.record_check.loop_conditions import looks_at_state
from redraft.projections.record_check.ratings import closing_nodes, is_critic, role_of
from redraft.projections.record_check.walk import Frame, Walk

_MAKE: Final = ("generator", "refiner")
"""The roles whose answers are new drafts."""


def is_to_be_made(walk: Walk, frame: Frame) -> bool:
    """Returns whether an iteration's draft is not finished, so that no value or inner loop's end can end the loop.

    A loop in its body comes before the next draft, or, where no critic judges, a step has answered that looks at none,
    and a draft and then such a loop come.
    """
    rest = [node for node in frame.body[frame.index :] if isinstance(node, Repeat) or role_of(node) in _MAKE]
    if not any(isinstance(node, Repeat) for node in rest):
        return False
    if isinstance(rest[0], Repeat):
        return True
    last = frame.body[frame.index - 1] if frame.index else None
    return (
        last is not None
        and role_of(last) == "step"
        and not list(_steps_among((last,), frame))
        and not walk.needs_rating(frame)
    )


def pass_on_values(walk: Walk, outer: Frame, first: int) -> None:
    """Notes that the values of the step that made draft `first` are about the draft that left the inner loop."""
    left = walk.current.ref.version if walk.current else 0
    for place in _makers(outer) if outer.loop is not None else ():
        if walk.state.about.get(place) == first:
            walk.state.about[place] = left


def _makers(frame: Frame) -> list[str]:
    """Returns the places of the steps before the next node of a body that make drafts."""
    nodes = [node for node in frame.body[: frame.index] if role_of(node) in _MAKE]
    return [place for place, _ in _steps_among(nodes, frame)]


def current_values(walk: Walk, frame: Frame) -> Values:
    """Returns the state without the values that steps of a loop have not written, or confirmed, for this draft yet."""
    if frame.loop is None:
        return walk.state.values
    coming = {place for place, _ in _coming_steps(frame)}
    missing = {
        place: step.writes
        for place, step in _steps_among(frame.loop.body, frame)
        if place in coming or not _is_about_current(walk, place)
    }
    announced = {name for writes in missing.values() for name in writes}
    writers = walk.state.writers
    return {
        name: value
        for name, value in walk.state.values.items()
        if name not in announced and writers.get(name) not in missing
    }


def last_lookers(walk: Walk, frame: Frame, loop: Repeat, *, critics: bool) -> tuple[Node, ...]:
    """Returns the critics, if they are to, and the free steps of a loop that look at its last draft before it ends."""
    steps = critics or not walk.needs_rating(frame) or looks_at_state(walk.until(frame))
    nodes = []
    for node in closing_nodes(loop):
        places = [place for place, _ in _steps_among((node,), frame)]
        if critics if is_critic(node) else steps and not any(_is_about_current(walk, place) for place in places):
            nodes.append(node)
    return tuple(nodes)


def _is_about_current(walk: Walk, place: str) -> bool:
    return walk.state.about.get(place) == (walk.current.ref.version if walk.current else 0)


def _steps_among(nodes: Iterable[Node], frame: Frame) -> Iterator[tuple[str, Step]]:
    """Yields the steps of these nodes that look at drafts, at every depth, by their places in the plan."""
    every = nodes_of(tuple(nodes), frame.place, own=True)
    return ((place, each) for place, each in every if isinstance(each, Step) and not each.about_run)


def _coming_steps(frame: Frame) -> Iterator[tuple[str, Step]]:
    """Yields the steps of the body that are yet to be asked about the current draft, as it is in this iteration."""
    for node in frame.body[frame.index :]:
        if role_of(node) in _MAKE:
            return
        yield from _steps_among((node,), frame)
        if isinstance(node, Repeat | Each):
            return
