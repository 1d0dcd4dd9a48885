"""Rows of critics: those that judge one draft together, with free steps between them. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.deciding.candidates import better_of, remember, with_judgement
from redraft.actors.deciding.judgement import join, join_row
from redraft.actors.deciding.state import Frame, RunState, failed_a_gate, with_top
from redraft.actors.plans.paths import critics_in_row, is_critic, is_gate, role_of


def row_goes_on(top: Frame) -> bool:
    """Returns whether another critic of the row in progress is to be asked: after a failed gate, only another gate."""
    failed = bool(top.verdicts) and join(top.verdicts).gate == "failed"
    for node in top.body[top.index :]:
        if is_critic(node):
            if not failed or is_gate(node):
                return True
        elif role_of(node) != "step":
            return False
    return False


def settle_judgement(state: RunState) -> RunState:
    """Joins the critiques of the current draft into its judgement, once the last critic in a row has answered."""
    top = state.frames[-1]
    if state.current is None or row_goes_on(top):
        return state
    heard = join_row(top.verdicts, critics_in_row(top.body, top.index), state.rules)
    judged = with_judgement(state, state.current.ref, heard)
    state = replace(state, current=judged, best=better_of(state, state.best, judged))
    if top.review is not None:
        outer = remember(state, state.frames[-2], judged)
        return leave_review(replace(state, frames=(*state.frames[:-2], outer, replace(top, verdicts=()))))
    return with_top(state, replace(remember(state, top, judged), verdicts=(), due="judged"))


def leave_review(state: RunState) -> RunState:
    """Returns the state without the look at a person's draft, once everything in it has answered."""
    top = state.frames[-1]
    over = top.review is not None and top.index >= len(top.body)
    return replace(state, frames=state.frames[:-1]) if over else state


def pass_step(state: RunState) -> RunState:
    """Returns the state after a free step, or several in parallel, answered: its loop checks its condition.

    Critics that follow it in its row are passed over if a gate of that row failed.
    """
    top = state.frames[-1]
    index = top.index + 1
    if any(critic.gate for critic in critics_in_row(top.body, index)) and _failed(state, top):
        while index < len(top.body) and is_critic(top.body[index]) and not is_gate(top.body[index]):
            index += 1
    due = top.due if top.node is None else "state"
    return leave_review(with_top(state, replace(top, index=index, parallel=None, due=due)))


def _failed(state: RunState, top: Frame) -> bool:
    return join(top.verdicts).gate == "failed" if top.verdicts else failed_a_gate(state.current)
