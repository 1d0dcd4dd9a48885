"""Finds which values of a run's state a loop's condition may look at: none that is about an earlier draft."""

from __future__ import annotations

from collections.abc import Iterator

from redraft.events.messages.plan import Repeat, Step, nodes_of
from redraft.events.messages.run_state import Values
from redraft.projections.record_check.ratings import role_of
from redraft.projections.record_check.walk import Frame, Walk


def current_values(walk: Walk, frame: Frame) -> Values:
    """Returns the state without the values that steps of a loop are still to write about the current draft."""
    if frame.loop is None:
        return walk.state.values
    coming = dict(_coming_steps(frame))
    announced = {name for step in coming.values() for name in step.writes}
    writers = walk.state.writers
    return {
        name: value
        for name, value in walk.state.values.items()
        if name not in announced and writers.get(name) not in coming
    }


def _coming_steps(frame: Frame) -> Iterator[tuple[str, Step]]:
    """Yields the steps of the body, by their places in the plan, that are yet to be asked about the current draft."""
    for node in frame.body[frame.index :]:
        if role_of(node) in ("generator", "refiner"):
            return
        yield from ((place, each) for place, each in nodes_of([node], frame.place) if isinstance(each, Step))
        if isinstance(node, Repeat):
            return
