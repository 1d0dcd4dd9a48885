"""A run as lanes: each loop is a lane of iterations, each of which holds steps and further loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from redraft.app.record.auditing.audit_page import StepRow, leaf_row, loop_message
from redraft.events.messages.scales import Scale
from redraft.projections.run_views.chart import Point
from redraft.projections.run_views.tree_model import Branch, Group, Iteration, Leaf, Loop, look_name

SHOWN: Final = 40
"""The most iterations of a lane: half of them the first, half the last."""

State: TypeAlias = Literal["running", "failed", "done"]


class Cell(msgspec.Struct, frozen=True):
    """An iteration: its number, the last score and the newest draft of its own steps, and what happened in it."""

    id: str
    label: str
    state: State
    score: float | None
    scale: Scale | None
    draft: int | None
    seconds: float | None
    parts: tuple[Item, ...]


class Lane(msgspec.Struct, frozen=True, tag="lane"):
    """A loop: what it came to, and its iterations; `omitted` are left out after the first `cut`.

    `count` is how many iterations there are; `looks` names what is among the cells beside them.
    """

    id: str
    name: str
    message: str
    running: bool
    score: float | None
    scale: Scale | None
    count: int
    cells: tuple[Cell, ...]
    cut: int = 0
    omitted: int = 0
    looks: tuple[str, ...] = ()


class StepShown(msgspec.Struct, frozen=True, tag="step"):
    """A step, as a row; `path` names it on the command line. `run` is the run that works on it, of an item."""

    path: str
    row: StepRow
    state: State
    run: str = ""


Item: TypeAlias = Lane | StepShown
Joined: TypeAlias = Mapping[int, Point]


def lanes(branches: Sequence[Branch], joined: Joined = MappingProxyType({}), *, over: bool = False) -> tuple[Item, ...]:
    """Returns what a run did, in order; steps side by side follow each other. Nothing runs once it is `over`.

    `joined` are the scores of drafts, by number, that all critics gave together: that of an iteration is one of them.
    """
    return tuple(item for branch in branches for item in _items(branch, joined, over))


def _items(branch: Branch, joined: Joined, over: bool) -> Iterator[Item]:
    match branch:
        case Leaf():
            yield StepShown(branch.path, _row(branch), _state_of(branch, over), branch.run)
        case Group(children=children):
            yield from lanes(children, joined, over=over)
        case Loop():
            yield _lane(branch, joined, over)
        case _:
            assert_never(branch)


def _row(leaf: Leaf) -> StepRow:
    """Returns the row of a step, without the name of its actor where that is its own."""
    row, actor = leaf_row(leaf, 0), leaf.chosen or leaf.actor
    if actor != leaf.name:
        return row
    return msgspec.structs.replace(row, message=row.message.replace(f"{leaf.role} {actor}", leaf.role, 1))


def _lane(loop: Loop, joined: Joined, over: bool) -> Lane:
    looks = tuple(name for each in loop.iterations if (name := look_name(each.label)))
    half, count = SHOWN // 2, len(loop.iterations) - len(looks)
    omitted = max(0, len(loop.iterations) - SHOWN)
    kept = (*loop.iterations[:half], *loop.iterations[-half:]) if omitted else loop.iterations
    cells, is_running = tuple(_cell(each, joined, over) for each in kept), loop.outcome is None and not over
    message = "not finished" if loop.outcome is None and over else loop_message(loop)
    facts = message, is_running, loop.score, loop.scale
    return Lane(f"loop-{loop.path}", loop.name, *facts, count, cells, half if omitted else 0, omitted, looks)


def _cell(iteration: Iteration, joined: Joined, over: bool) -> Cell:
    items = lanes(iteration.children, joined, over=over)
    steps = [each.row for each in items if isinstance(each, StepShown)]
    ends = [(each.score, each.scale) for each in items if isinstance(each, Lane)]
    judged = [_score(each, joined) for each in steps if each.score is not None] or ends
    drafts = [each.draft for each in steps if each.draft is not None]
    score, scale = judged[-1] if judged else (None, None)
    state = _joined([each.state if isinstance(each, StepShown) else _lane_state(each) for each in items])
    label = look_name(iteration.label) or iteration.label
    identity = f"iteration-{iteration.path}"
    return Cell(identity, label, state, score, scale, max(drafts, default=None), iteration.seconds, items)


def _score(row: StepRow, joined: Joined) -> tuple[float | None, Scale | None]:
    """Returns the score of the draft that a critic judged, by all of them, or else the critic's own."""
    known = joined.get(row.draft or 0)
    return (row.score, row.scale) if known is None else (known.score, known.scale)


def _lane_state(lane: Lane) -> State:
    return "running" if lane.running else "done"


def _state_of(leaf: Leaf, over: bool) -> State:
    match leaf.status:
        case "open" | "waiting":
            return "done" if over else "running"
        case "failed":
            return "failed"
        case "done" | "dropped" | "skipped":
            return "done"
        case _:
            assert_never(leaf.status)


def _joined(states: Sequence[State]) -> State:
    """Returns the state of an iteration with parts in these."""
    return next((each for each in ("running", "failed") if each in states), "done")
