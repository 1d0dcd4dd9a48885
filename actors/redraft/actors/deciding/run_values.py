"""The values of a run's state: what they begin with, which changes are refused, and which a condition may see. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from msgspec.structs import replace

from redraft.actors.deciding.state import Frame, OpenStep, RunState, needs_judges, with_top
from redraft.actors.plans.check_state import values_misfit
from redraft.actors.plans.paths import is_about_run, role_of, step_key
from redraft.events.errors import suggest
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    StateChanged,
)
from redraft.events.messages.plan import Each, Node, Plan, Repeat, steps_of
from redraft.events.messages.run_state import Values, size_fault

Changing: TypeAlias = DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished | StateChanged
"""The events that may change the state."""

_DRAFTING: Final = frozenset({"generator", "refiner"})


def first_values(plan: Plan, brief: Brief) -> Values:
    """Returns the values with which a run begins: the plan's defaults, and in their place those of its brief."""
    return brief.state if plan.state is None else {**plan.state.defaults, **brief.state}


def may_change(state: RunState, event: Changing) -> bool:
    """Returns whether an answer has to do with the run's values: it changes some, or confirms them as they are."""
    if event.state or state.values or type(event) is StateChanged:
        return True
    asked = state.open.get(event.path)
    return asked is not None and bool(asked.step.writes)


def with_changes(state: RunState, event: Changing) -> RunState:
    """Returns the state with the values that an answer changed, by its step, and the draft that it is about."""
    writer = step_key(event.path)
    state = replace(state, looked={**state.looked, writer: _version_of(state, event)})
    if not event.state:
        return state
    writers = {**state.writers, **dict.fromkeys(event.state, writer)}
    state = replace(state, values={**state.values, **event.state}, writers=writers)
    top = state.frames[-1] if state.frames else None
    if top is None or top.parallel is None or not event.path:
        return state
    wrote = {**top.parallel.wrote, **dict.fromkeys(event.state, event.path)}
    return with_top(state, replace(top, parallel=replace(top.parallel, wrote=wrote)))


def _version_of(state: RunState, event: Changing) -> int:
    """Returns the version of the draft that an answer is about, or made; 0 for none."""
    if not isinstance(event, StateChanged):
        return event.draft.version
    asked = state.open.get(event.path)
    return asked.draft.version if asked is not None and asked.draft is not None else 0


def check_again(state: RunState) -> RunState:
    """Returns the state in which the loop in progress has to check its condition: its values may be others now."""
    top = state.frames[-1] if state.frames else None
    if top is None or top.node is None or top.due != "nothing":
        return state
    return with_top(state, replace(top, due="state"))


def why_refused(state: RunState, asked: OpenStep, path: str, changes: Values) -> str:
    """Returns why an answer may not change the state so; empty when it may."""
    if fault := values_misfit(state.plan.state, changes):
        return fault
    declared = asked.step.writes
    parallel = state.frames[-1].parallel
    for name in changes:
        if declared and name not in declared:
            return (
                f"changes the value {name}, which it does not declare; {suggest(name, declared)}, or add it to writes"
            )
        if parallel is not None and parallel.wrote.get(name, path) != path:
            return f"changes the value {name}, which {parallel.wrote[name]} changed at the same time; let one write it"
    return size_fault({**state.values, **changes})


def follow_loop(state: RunState, ended: Frame) -> RunState:
    """Returns the state after an inner loop: the values of whoever made its first draft are about the one that left."""
    outer = state.frames[-1]
    if outer.node is None or not state.looked:
        return state
    makers = (node for node in outer.body[: outer.index - 1] if role_of(node) in _DRAFTING)
    left = {each: current_version(state) for each, _ in _writers_among(outer, makers)}
    left = {each: version for each, version in left.items() if state.looked.get(each) == ended.began}
    return replace(state, looked={**state.looked, **left}) if left else state


def visible_values(state: RunState, top: Frame) -> Values:
    """Returns the values that the condition of a loop may see; outside of loops, all.

    Left out are those that a step of its body wrote last, or says that it writes, as long as this step has not answered
    about the current draft, or is still to be asked about it. Steps that look at no draft are not among these.
    """
    if not state.values or top.node is None:
        return state.values
    current, coming = current_version(state), dict(_writers_to_come(top))
    stale: set[str] = set()
    for writer, declared in _writers_among(top, top.node.body):
        if writer in coming or state.looked.get(writer) != current:
            stale.update(declared)
            stale.update(name for name, by in state.writers.items() if by == writer)
    return {name: value for name, value in state.values.items() if name not in stale} if stale else state.values


def is_unfinished(state: RunState, top: Frame, loop: Repeat) -> bool:
    """Returns whether a loop cannot end yet by values, nor (rules 9) after an inner loop: its draft is not finished.

    So it is while an inner loop is still to work on the draft; and after a step that looks at no draft, in a loop
    without critics, while the body is to make another one for an inner loop to work on.
    """
    coming = [node for node in top.body[top.index :] if type(node) is Repeat or role_of(node) in _DRAFTING]
    if not any(type(node) is Repeat for node in coming):
        return False
    if type(coming[0]) is Repeat:
        return True
    return top.index > 0 and is_about_run(top.body[top.index - 1]) and not needs_judges(state, loop)


def has_looked(state: RunState, top: Frame, node: Node) -> bool:
    """Returns whether a free step, or one of several in parallel, has answered about the current draft."""
    current = current_version(state)
    return any(state.looked.get(writer) == current for writer, _ in _writers_among(top, (node,)))


def current_version(state: RunState) -> int:
    return state.current.ref.version if state.current is not None else 0


def _writers_to_come(top: Frame) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the steps, with what they declare, that come before the next draft is made or the iteration ends."""
    for node in top.body[top.index :]:
        if role_of(node) in _DRAFTING:
            return
        yield from _writers_among(top, (node,))
        if type(node) is Repeat or type(node) is Each:
            return


def _writers_among(top: Frame, nodes: Iterable[Node]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the steps of these nodes that look at drafts, at every depth, with what they declare."""
    around = step_key(top.path)
    return ((f"{around}/{path}", each.writes) for path, each in steps_of(nodes, own=True) if not each.about_run)
