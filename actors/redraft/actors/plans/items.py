"""The items of an Each: the list that it goes through, and the runs that work on its items."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from redraft.events.messages.content import Brief
from redraft.events.messages.item_ids import INDEX, ITEM
from redraft.events.messages.plan import Each, Plan, StateField, StateSpec
from redraft.events.messages.run_state import Value, Values

MAX_ITEMS: Final = 100
"""The number of items that an Each may have."""


def list_name(written: str) -> str:
    """Returns the name of a list in a run's state as a plan has it: `chapters` for `state.chapters`.

    The whole state is no list: for `state` the name is empty.
    """
    return "" if written == "state" else written.removeprefix("state.")


def item_plan(plan: Plan, each: Each) -> Plan:
    """Returns the plan of the runs that work on the items of an Each, without a budget.

    Its name is the workflow's and the Each's: `book-Chapters`.
    """
    fields = plan.state.fields if plan.state is not None else ()
    kept = tuple(field for field in fields if field.name not in (ITEM, INDEX))
    state = StateSpec((*kept, StateField(ITEM), StateField(INDEX, "int"))) if fields else None
    return Plan(f"{plan.name}-{each.name}", each.body, plan.on_failure, state=state, lessons=plan.lessons)


def item_brief(brief: Brief, values: Values, item: Value, number: int) -> Brief:
    """Returns the brief of the run that works on an item: that of the run around it, with its state and the item."""
    return replace(brief, state={**values, ITEM: item, INDEX: number})


def items_in(values: Values, over: str) -> tuple[tuple[Value, ...], str]:
    """Returns the items of the list with this name in a run's state, and why there are none: empty where it is a list.

    A value of a mapping is named with dots: `item.sections`.
    """
    found: Value = values
    for name in over.split("."):
        if not isinstance(found, dict) or name not in found:
            return (), f"there is no value {over} in the run's state"
        found = found[name]
    if not isinstance(found, list):
        return (), f"the value {over} is no list"
    if len(found) > MAX_ITEMS:
        return (), f"the list {over} has {len(found):,} items; {MAX_ITEMS} are allowed"
    return tuple(found), ""
