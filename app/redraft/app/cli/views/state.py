"""Prints the state of a run, with who changed each value last, and what differs between two states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from redraft.app.cli.shared.output import out, print_json, print_line
from redraft.app.cli.shared.tables import print_table
from redraft.app.cli.views.changes import change_lines
from redraft.app.record.changes import StateChanges
from redraft.events.messages.run_state import Value
from redraft.projections.display import MESSAGE_LENGTH, VALUE_LENGTH, counted, plain, value_text
from redraft.projections.run_views.diff import diff, fold_unchanged
from redraft.projections.run_views.state import StateAt, StateChange, ValueDifference, side_text

if TYPE_CHECKING:
    from rich.text import Text


def print_state(shown: StateAt, *, json: bool) -> None:
    """Prints the values of a state, each with its last change; as JSON with all changes."""
    if json:
        print_json(shown)
        return
    where = f"run {shown.run} after {counted(shown.version, 'event')}"
    if shown.erased:
        print_line(f"{where}: it was erased, and the values of its state can no longer be read")
    elif not shown.state:
        print_line(f"{where}: it has no state")
    else:
        print_line(where)
        rows = [
            (name, value_text(value, MESSAGE_LENGTH), author_text(change), change.version)
            for name, value, change in shown.rows
        ]
        print_table(("name", "value", "changed by", "event"), rows, right=("event",), longest=MESSAGE_LENGTH)


def author_text(change: StateChange) -> str:
    """Returns who changed values, with the path of the step: `step run_tests, Refinement[2]/run_tests`."""
    return f"{change.by}, {plain(change.path)}".strip(", ") if change.path else change.by


def print_state_changes(changes: StateChanges, *, json: bool) -> None:
    """Prints which values differ: short ones in a line, long ones as the lines that changed."""
    if json:
        print_json(changes)
        return
    for each in changes.values:
        for line in _difference_lines(each):
            out().print(line, markup=False, highlight=False, soft_wrap=True)
    if not changes.values:
        before, after = changes.before, changes.after
        runs = f"run {before.run}" if before.run == after.run else f"runs {before.run} and {after.run}"
        print_line(f"{runs}: the state is the same after event {before.version} and after event {after.version}")


def _difference_lines(each: ValueDifference) -> Iterator[str | Text]:
    name, was, now = plain(each.name), each.before, each.after
    if was is msgspec.UNSET or now is msgspec.UNSET or max(map(len, map(_compact, (was, now)))) <= VALUE_LENGTH:
        yield f"{name}: {side_text(was)} → {side_text(now)}"
        return
    yield f"{name}:"
    for line in fold_unchanged(diff(_whole(was), _whole(now))):
        yield from change_lines(line)


def _compact(value: Value) -> str:
    return msgspec.json.encode(value).decode()


def _whole(value: Value) -> str:
    """Returns a text as it is, and any other value as JSON in lines."""
    return value if isinstance(value, str) else msgspec.json.format(_compact(value), indent=2)
