"""Steps side by side: panels of critics, best of several drafts, several publishers."""

from __future__ import annotations

from redraft.events.content import DraftRef
from redraft.events.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftRefined,
    PanelClosed,
    StepFailed,
)
from redraft.events.envelope import Recorded
from redraft.events.plan import Parallel
from redraft.projections.record_check.asking import Answer, answer, ask, asks, heed
from redraft.projections.record_check.barred import barred, hear
from redraft.projections.record_check.findings import Deviates
from redraft.projections.record_check.ratings import Rating, joined, rating_of, wanted
from redraft.projections.record_check.walk import Asked, Broken, Frame, Walk


class Turns:
    """A parallel in progress: its steps are asked for in order, and answer in any."""

    def __init__(self, walk: Walk, frame: Frame, node: Parallel) -> None:
        self.walk, self.node = walk, node
        self.path = f"{frame.prefix}{node.name}{frame.review or ''}"
        self.asked = 0
        self.failed = 0
        self._ask()

    def next(self, most: int | None = None) -> tuple[Recorded, Asked, Answer] | None:
        """The next answer; None when something else went on. `most` is how many steps may be asked for yet.

        Raises Broken when too many have failed.
        """
        if self.asked < (len(self.node.steps) if most is None else most) and asks(self.walk, self._next_path()):
            self._ask()
            return None
        given = answer(self.walk)
        if given is None or not isinstance(given[2], StepFailed):
            return given
        if len(self.node.steps) - self.failed - 1 < wanted(self.node):
            raise Broken(publishing=given[1].step.role == "publisher")
        self.failed += 1
        return None

    def number(self, asked: Asked) -> int:
        """The place of a step among those of the parallel."""
        return [step.name for step in self.node.steps].index(asked.step.name)

    def _next_path(self) -> str:
        return f"{self.path}/{self.node.steps[self.asked].name}"

    def _ask(self) -> None:
        ask(self.walk, self.node.steps[self.asked], self._next_path())
        self.asked += 1


def panel(walk: Walk, frame: Frame, node: Parallel) -> Rating:
    """Goes through a panel of critics; returns their joined rating. Those that have not answered are late."""
    turns = Turns(walk, frame, node)
    heard: list[tuple[int, Rating]] = []
    gates = sum(step.gate for step in node.steps)
    while not _is_done(turns, heard, gates):
        event = walk.peek()
        if isinstance(event.data, PanelClosed):
            _closed(turns, event, event.data, len(heard))
            break
        given = turns.next(gates if gates > len(heard) else None)
        if given is not None and isinstance(given[2], DraftCritiqued):
            rating = rating_of(given[0].version, given[2].critique, gate=given[1].step.gate)
            hear(walk, given[2].draft, rating)
            heard.append((turns.number(given[1]), rating))
    walk.late |= walk.open
    walk.open = {}
    weights = [node.weights[number] for number, _ in heard] if node.weights else []
    return joined([rating for _, rating in heard], node.combine, weights)


def _is_done(turns: Turns, heard: list[tuple[int, Rating]], gates: int) -> bool:
    node = turns.node
    if not heard:
        return False
    if len(heard) == gates and any(rating.gate == "failed" for _, rating in heard):
        return True
    return len(heard) >= (wanted(node) if node.deadline is None else len(node.steps) - turns.failed)


def _closed(turns: Turns, event: Recorded, data: PanelClosed, heard: int) -> None:
    walk, node = turns.walk, turns.node
    if data.path != turns.path or node.deadline is None:
        raise Deviates("panel", event, f"{turns.path} is what goes on, and it has {node.deadline or 'no'} deadline")
    if data.answered != heard or heard < wanted(node):
        raise Deviates("panel", event, f"{heard} critics had answered, and {wanted(node)} are needed")
    if set(data.missing) != set(walk.open):
        raise Deviates("panel", event, f"missing were {', '.join(sorted(walk.open)) or 'none'}")
    if not walk.repeats(event) and any(event.time < each.request.due for each in walk.open.values() if _first(each)):
        raise Deviates("panel", event, "its time was not over")
    walk.take()


def _first(asked: Asked) -> bool:
    return asked.request.attempt == 1 and not asked.again


def candidates(walk: Walk, frame: Frame, node: Parallel) -> tuple[DraftRef, Rating]:
    """The best of several drafts, by the parallel's judge."""
    turns = Turns(walk, frame, node)
    made: list[DraftRef] = []
    while len(made) < wanted(node):
        given = turns.next()
        if given is not None and isinstance(given[2], DraftGenerated | DraftRefined):
            heed(walk, given[1])
            walk.drafts = given[2].draft.version
            made.append(given[2].draft.ref)
    walk.open = {}
    if node.judge is None:
        raise Deviates("step", walk.peek(), f"{turns.path} has nobody to judge its drafts")
    return _best_of(walk, node, turns.path, made)


def _best_of(walk: Walk, node: Parallel, path: str, made: list[DraftRef]) -> tuple[DraftRef, Rating]:
    assert node.judge is not None  # noqa: S101 - the caller saw to it
    asked = 0
    ratings: dict[int, Rating] = {}
    while len(ratings) < len(made):
        following = f"{path}/{node.judge.name}[{asked + 1}]"
        if asked < len(made) and (not asked or asks(walk, following)):
            ask(walk, node.judge, following, made[asked], made)
            asked += 1
            continue
        given = answer(walk)
        if given is None:
            continue
        if not isinstance(given[2], DraftCritiqued):
            raise Broken
        number = made.index(given[2].draft)
        ratings[number] = rating_of(given[0].version, given[2].critique, gate=given[1].step.gate)
        hear(walk, given[2].draft, ratings[number])
    best = max(ratings, key=lambda number: (not barred(walk, made[number]), ratings[number].score, -number))
    return made[best], ratings[best]


def publishers(walk: Walk, frame: Frame, node: Parallel) -> None:
    """Several publishers; as many as the parallel waits for have to answer."""
    turns = Turns(walk, frame, node)
    answered = 0
    while answered < wanted(node):
        answered += turns.next() is not None
    walk.open = {}
