"""The picture of a plan: boxes for steps and people, frames around loops, where each lies, and which are at work."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final, Literal, TypeAlias, assert_never

import msgspec

from redraft.actors.conditions.printing import print_condition
from redraft.events.messages.plan import Approve, Each, Node, Parallel, Plan, Repeat, Step, describe_endings, members
from redraft.projections.display import counted, plain
from redraft.projections.run_views.tree import steps
from redraft.projections.run_views.tree_model import Tree

WIDTH: Final = 176
HEIGHT: Final = 44
GAP: Final = 22
PAD: Final = 12
HEAD: Final = 38
EDGES: Final = 24
"""The part of a box's width that its text leaves free."""

LETTER: Final = {"title": 8.6, "note": 7.1}
"""The width of a letter, at most: widely set fonts need it."""

Kind: TypeAlias = Literal["step", "people", "loop", "parallel"]
_ITERATION: Final = re.compile(r"\[[^\]/]*\]")


class Box(msgspec.Struct, frozen=True):
    """A box or a frame: its place and size, its two lines, and whether it is at work now."""

    kind: Kind
    path: str
    x: float
    y: float
    width: float
    height: float
    title: str
    note: str
    lit: bool


class Picture(msgspec.Struct, frozen=True):
    """A picture: its size, boxes with the outer ones first, the arrows between them, and what it shows in words."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    arrows: tuple[tuple[float, float, float], ...]
    """Returns the left edges of these parts, side by side on one line, and the right edge of the last."""
    description: str


def picture(plan: Plan, run: Tree) -> Picture:
    """Returns the picture of a plan, with the steps of this run lit that are under way."""
    at_work = {_ITERATION.sub("", each.path) for each in steps(run.branches) if each.status in ("open", "waiting")}
    width, height = _size_of_row(plan.steps)
    lit = at_work if run.ended is None else set()
    boxes = tuple(_place_row(plan.steps, "", 0, 0, height, lit))
    names = " → ".join(node.name for node in plan.steps)
    working = ", ".join(each.title for each in boxes if each.lit and each.kind in ("step", "people"))
    told = f"{names}. {f'At work: {working}.' if working else 'Nothing is at work.'}"
    return Picture(width, height, boxes, tuple(_arrows(plan.steps, 0, 0, height)), told)


def _size(node: Node) -> tuple[float, float]:
    match node:
        case Step() | Approve():
            return WIDTH, HEIGHT
        case Repeat() | Each():
            width, height = _size_of_row(node.body)
            return width + 2 * PAD, height + PAD + HEAD
        case Parallel():
            count = len(members(node))
            return WIDTH + 2 * PAD, HEAD + count * HEIGHT + (count - 1) * PAD + PAD + (GAP if node.judge else 0)
        case _:
            assert_never(node)


def _size_of_row(nodes: Sequence[Node]) -> tuple[float, float]:
    sizes = [_size(node) for node in nodes]
    return sum(width for width, _ in sizes) + GAP * (len(sizes) - 1), max((height for _, height in sizes), default=0)


def _place_row(
    nodes: Sequence[Node], parent: str, x: float, y: float, height: float, lit: Collection[str]
) -> Iterator[Box]:
    """Yields the boxes of nodes from left to right, each in the middle of this height."""
    for node in nodes:
        width, own = _size(node)
        yield from _place(node, f"{parent}{node.name}", x, y + (height - own) / 2, lit)
        x += width + GAP


def _place(node: Node, path: str, x: float, y: float, lit: Collection[str]) -> Iterator[Box]:
    width, height = _size(node)
    is_lit = path in lit or any(each.startswith(f"{path}/") for each in lit)
    title, note = (plain(text, _letters(width, kind)) for kind, text in (("title", node.name), ("note", _note(node))))
    match node:
        case Step():
            yield Box("step", path, x, y, width, height, title, note, is_lit)
        case Approve():
            yield Box("people", path, x, y, width, height, title, note, is_lit)
        case Repeat() | Each():
            yield Box("loop", path, x, y, width, height, title, note, is_lit)
            row = height - PAD - HEAD
            yield from _place_row(node.body, f"{path}/", x + PAD, y + HEAD, row, lit)
        case Parallel():
            yield Box("parallel", path, x, y, width, height, title, note, is_lit)
            for number, step in enumerate(node.steps):
                yield from _place(step, f"{path}/{step.name}", x + PAD, y + HEAD + number * (HEIGHT + PAD), lit)
            if node.judge:
                (judge,) = _place(node.judge, f"{path}/{node.judge.name}", x + PAD, y + height - PAD - HEIGHT, lit)
                yield msgspec.structs.replace(judge, note="judges each of them")
        case _:
            assert_never(node)


def _arrows(nodes: Sequence[Node], x: float, y: float, height: float) -> Iterator[tuple[float, float, float]]:
    for number, node in enumerate(nodes):
        width, own = _size(node)
        if isinstance(node, Repeat | Each):
            yield from _arrows(node.body, x + PAD, y + (height - own) / 2 + HEAD, own - PAD - HEAD)
        if number + 1 < len(nodes):
            yield x + width, x + width + GAP, y + height / 2
        x += width + GAP


def _letters(width: float, kind: str) -> int:
    """Returns how many letters have room in a box."""
    return int((width - EDGES) / LETTER[kind])


def _note(node: Node) -> str:
    match node:
        case Step():
            actor = " or ".join(arm.name for arm in node.choose) if node.choose else node.actor
            role = "condition" if node.condition else node.role
            return role if actor == node.name else f"{role} {actor}"
        case Approve():
            return f"people: {', '.join(node.approvers) or 'anybody'}"
        case Repeat():
            ends = f"; {told}" if (told := describe_endings(node)) else ""
            return f"until {print_condition(node.until)}, at most {counted(node.max_iterations, 'time')}{ends}"
        case Each():
            return f"for each of state.{node.over}, {node.concurrency} at a time"
        case Parallel():
            return f"side by side, {node.wait if isinstance(node.wait, str) else f'{node.wait} of them'}"
        case _:
            assert_never(node)
