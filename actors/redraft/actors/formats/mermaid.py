"""Plans as Mermaid flowcharts: a box for each step, a frame around each loop and parallel.

An arrow that leaves a loop starts at the critics of its body, which its condition depends on, and shows the condition.
An arrow "again" begins the next iteration. After the last one, critics of the body judge a draft that is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, assert_never

from redraft.actors.conditions.printing import print_condition
from redraft.actors.conditions.reading import print_until
from redraft.actors.plans.paths import is_critic
from redraft.events.messages.plan import Approve, Each, Node, Parallel, Plan, Repeat, Step, describe_endings

_PLAIN: Final = frozenset(" _-.,:()=/")


@dataclass(frozen=True, slots=True)
class _Way:
    """A box that arrows leave, and their label."""

    box: str
    label: str = ""

    def saying(self, more: str) -> _Way:
        return _Way(self.box, f"{self.label}; {more}" if self.label else more)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A node as drawn: the box by which it is entered, and the ways out of it."""

    entry: str
    exits: tuple[_Way, ...]


@dataclass(slots=True)
class _Chart:
    """Boxes and frames first, arrows after them: an arrow in a frame would draw its boxes into that frame."""

    boxes: list[str] = field(default_factory=list)
    arrows: list[str] = field(default_factory=list)
    depth: int = 1

    def add(self, line: str) -> None:
        self.boxes.append("    " * self.depth + line)


def print_mermaid(plan: Plan) -> str:
    """Returns the flowchart of a plan that passes `check_plan`, as Mermaid text. Labels are escaped."""
    chart = _Chart()
    chart.add('start(["brief"])')
    drawn = _sequence(chart, plan.steps)
    chart.add('done(["end"])')
    _arrow(chart, _Way("start"), drawn[0].entry)
    for way in drawn[-1].exits:
        _arrow(chart, way, "done")
    return "\n".join([f'---\ntitle: "{plan.name}"\n---', "flowchart TD", *chart.boxes, *chart.arrows]) + "\n"


def _sequence(chart: _Chart, nodes: Sequence[Node]) -> list[_Drawn]:
    """Draws these nodes, each joined with the next."""
    drawn = [_node(chart, node) for node in nodes]
    for before, after in pairwise(drawn):
        for way in before.exits:
            _arrow(chart, way, after.entry)
    return drawn


def _node(chart: _Chart, node: Node) -> _Drawn:
    match node:
        case Step():
            box = _box(chart, f"{node.role}: {_label_of(node)}")
            return _Drawn(box, (_Way(box),))
        case Parallel():
            return _parallel(chart, node)
        case Repeat():
            return _repeat(chart, node)
        case Approve():
            box = _box(chart, f"people: {node.name}, {_label_approval(node)}")
            return _Drawn(box, (_Way(box),))
        case Each():
            return _each(chart, node)
        case _:
            assert_never(node)


def _label_approval(node: Approve) -> str:
    if not node.approvers:
        return "anybody" if node.quorum == 1 else f"{node.quorum} people"
    return f"{node.quorum} of {len(node.approvers)}" if len(node.approvers) > 1 else node.approvers[0]


def _label_of(step: Step) -> str:
    done_by = f"one of {', '.join(arm.name for arm in step.choose)}" if step.choose else step.actor
    named = step.name if step.name == done_by else f"{step.name} ({done_by})"
    late = f", when {print_condition(step.when)}" if step.when is not None else ""
    again = ", reusing verdicts" if step.reuse is not None else ""
    return f"{named}, a gate{again}" if step.gate else f"{named}{late}{again}"


def _repeat(chart: _Chart, loop: Repeat) -> _Drawn:
    ends = f"; {told}" if (told := describe_endings(loop)) else ""
    _open_frame(chart, f"{loop.name}: at most {loop.max_iterations} iteration{'s'[: loop.max_iterations > 1]}{ends}")
    drawn = _sequence(chart, loop.body)
    _close_frame(chart)
    judging = [each for index, each in enumerate(drawn) if _speaks_last(loop.body, index)] or drawn[-1:]
    for way in drawn[-1].exits if loop.max_iterations > 1 else ():
        _arrow(chart, way.saying("again"), drawn[0].entry)
    for way in drawn[-1].exits if loop.max_iterations == 1 and drawn[-1] not in judging else ():
        _arrow(chart, way.saying("judged once more"), judging[0].entry)
    until = print_until(loop)
    return _Drawn(drawn[0].entry, tuple(way.saying(until) for each in judging for way in each.exits))


def _each(chart: _Chart, each: Each) -> _Drawn:
    _open_frame(chart, f"{each.name}: for each of state.{each.over}, {each.concurrency} at a time")
    drawn = _sequence(chart, each.body)
    _close_frame(chart)
    return _Drawn(drawn[0].entry, drawn[-1].exits)


def _speaks_last(body: tuple[Node, ...], index: int) -> bool:
    """Returns whether this is the last of critics in a row, after which the condition is checked."""
    return _judges(body[index]) and not (index + 1 < len(body) and _judges(body[index + 1]))


def _judges(node: Node) -> bool:
    return is_critic(node) or isinstance(node, Approve)


def _parallel(chart: _Chart, parallel: Parallel) -> _Drawn:
    _open_frame(chart, parallel.name)
    wait = parallel.wait if isinstance(parallel.wait, str) else f"{parallel.wait} of {len(parallel.steps)}"
    others = f", for the others {parallel.deadline:g} s" if parallel.deadline else ""
    fork = _box(chart, f"at the same time, wait for {wait}{others}")
    ways = tuple(way for step in parallel.steps for way in _node(chart, step).exits)
    for way in ways:
        _arrow(chart, _Way(fork), way.box)
    join = _join(chart, parallel)
    _close_frame(chart)
    for way in ways if join else ():
        _arrow(chart, way, join)
    return _Drawn(fork, (_Way(join),) if join else ways)


def _join(chart: _Chart, parallel: Parallel) -> str:
    """Draws the box in which the steps' answers meet; none for publishers, whose answers need no joining."""
    if parallel.judge is not None:
        return _box(chart, f"critic: {_label_of(parallel.judge)}, the best draft goes on")
    if parallel.steps[0].role == "critic":
        weights = f" {', '.join(f'{each:g}' for each in parallel.weights)}" if parallel.weights else ""
        return _box(chart, f"scores joined by {parallel.combine}{weights}")
    return ""


def _box(chart: _Chart, label: str) -> str:
    name = f"n{len(chart.boxes)}"
    chart.add(f'{name}["{_escape(label)}"]')
    return name


def _open_frame(chart: _Chart, label: str) -> None:
    chart.add(f'subgraph f{len(chart.boxes)}["{_escape(label)}"]')
    chart.depth += 1


def _close_frame(chart: _Chart) -> None:
    chart.depth -= 1
    chart.add("end")


def _arrow(chart: _Chart, way: _Way, box: str) -> None:
    label = f'|"{_escape(way.label)}"|' if way.label else ""
    chart.arrows.append(f"    {way.box} -->{label} {box}")


def _escape(label: str) -> str:
    """Returns the label with most signs as Mermaid's `#60;`, the number of the character.

    Letters, digits and the plainest signs stay.
    """
    return "".join(each if each.isalnum() or each in _PLAIN else f"#{ord(each)};" for each in label)
