"""Validates an Each: the list that it goes through, and how many of its items are worked on at once."""

from __future__ import annotations

from typing import Final

from redraft.actors.plans.check_nodes import check_whole
from redraft.actors.values import shown
from redraft.events.errors import PlanError
from redraft.events.messages.plan import Each
from redraft.events.messages.run_state import is_value_name

MAX_AT_ONCE: Final = 100
"""The highest `concurrency` of an Each."""


def check_each(each: Each, path: str) -> None:
    """Raises PlanError unless an Each names a list and has a body, whose nodes are checked elsewhere."""
    over: object = each.over
    if not isinstance(over, str) or not all(map(is_value_name, over.split("."))):
        raise PlanError(path, f"over is {shown(over)}; name a list in the run's state, such as state.chapters")
    check_whole(path, "concurrency", each.concurrency, MAX_AT_ONCE)
    if not each.body:
        raise PlanError(path, "body is empty; begin it with a generator")
