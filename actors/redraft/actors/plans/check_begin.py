"""Checks of the plans that new runs begin with. A run that began with another one, by earlier rules, goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from redraft.actors.conditions.text import terms
from redraft.actors.plans.check_flow import CHANGED
from redraft.actors.plans.endings import may_ask
from redraft.actors.plans.paths import asks_people, check_actor, path_of, role_of
from redraft.events.bus.port import LONGEST_ATTRIBUTE, LONGEST_QUEUE
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import Plateau
from redraft.events.messages.plan import Approve, Node, Repeat, Step, loops_of, nodes_of, steps_of

MAX_PATH: Final = 1_500
"""The maximum number of bytes of a node's path in UTF-8.

Read models have rows under run, path with iterations, and actor, and PostgreSQL's indexes take keys of 2,704 bytes:
https://www.postgresql.org/docs/current/btree.html (a third of a page).
"""


def check_names(nodes: Sequence[Node]) -> None:
    """Raises PlanError for a node whose name, with those of the nodes around it, or whose actor's or people's name is
    too long.
    """
    for path, node in nodes_of(nodes, own=True):
        if (size := len(path.encode())) > MAX_PATH:
            fault = f"its name and those around it have {size:,} bytes; shorten them to {MAX_PATH:,} together"
            raise PlanError(path, fault)
        if isinstance(node, Step):
            for actor in [each.actor for each in node.choose] or [node.actor]:
                check_actor(path, node.role, actor, LONGEST_QUEUE)
        asks = node.ask if isinstance(node, Repeat) else node
        for person in asks.approvers if isinstance(asks, Approve) else ():
            if (size := len(person.encode())) > LONGEST_ATTRIBUTE:
                fault = f"approvers: a name has {size:,} bytes; shorten it, {LONGEST_ATTRIBUTE:,} are allowed"
                raise PlanError(path, fault)


def check_gate_rows(nodes: Sequence[Node]) -> None:
    """Raises PlanError for a loop with gates whose critics stand in several rows.

    A later row could end the loop with a draft that no gate has seen.
    """
    for path, loop in loops_of(nodes):
        rows: list[list[tuple[str, Step]]] = [[]]
        for node in loop.body:
            if role_of(node) == "critic":
                rows[-1] += [(node.name, step) for _, step in steps_of((node,))]
            elif role_of(node) != "step":
                rows.append([])
        judging = [row for row in rows if row]
        gate = next((step.name for row in judging for _, step in row if step.gate), "")
        if gate and len(judging) > 1:
            fault = f"the loop may end with a draft that gate {gate} has not seen; put all critics in one row"
            raise PlanError(path_of(path, judging[1][0][0]), fault)


def check_questions(nodes: Sequence[Node], parent: str = "", *, asked: bool = False, changed: bool = False) -> None:
    """Raises PlanError where a draft is published that was changed after people were asked at a loop's end."""
    for node in nodes:
        path = path_of(parent, node.name)
        if role_of(node) == "publisher" and asked and changed:
            raise PlanError(path, CHANGED)
        if isinstance(node, Repeat):
            check_questions(node.body, path, asked=asked, changed=changed)
        if _always_asks(node):
            asked, changed = True, False
        else:
            changed = (asked and (changed or _changes(node))) or _changes_after_question(node)
            asked = asked or _may_ask_within(node)


def _always_asks(node: Node) -> bool:
    """Returns whether people approve whatever leaves a node, unless it meets the node's own condition."""
    if not isinstance(node, Repeat):
        return isinstance(node, Approve)
    if asks_people(node):
        return True
    plateaus = any(isinstance(term, Plateau) for term in terms(node.until))
    ends = (node.on_exhausted, *((node.on_plateau,) if plateaus else ()))
    return set(ends) <= {"ask", "fail"} and "ask" in ends and node.on_oscillation not in ("publish", "stop")


def _may_ask_within(node: Node) -> bool:
    return any(may_ask(loop) for _, loop in loops_of((node,)))


def _changes(node: Node) -> bool:
    """Returns whether drafts are made in a node, or by runs of items."""
    return any(step.role in ("generator", "refiner") for _, step in steps_of((node,)))


def _changes_after_question(node: Node) -> bool:
    """Returns whether a loop changes drafts after people were asked about one at the end of a loop inside it."""
    if not isinstance(node, Repeat):
        return False
    asked = False
    for inner in node.body:
        if (asked and _changes(inner)) or _changes_after_question(inner):
            return True
        asked = asked or (isinstance(inner, Repeat) and may_ask(inner))
    return False
