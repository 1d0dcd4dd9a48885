"""The end of a loop: the last look at its draft, by critics and free steps, and the question to people. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from redraft.actors.conditions.values import reads_state
from redraft.actors.deciding.run_values import has_looked
from redraft.actors.deciding.state import Frame, RunState, needs_judges, waits_for_own_critics, with_top
from redraft.actors.plans.endings import ending_of, is_question
from redraft.actors.plans.paths import closing_body, is_critic
from redraft.events.messages.domain_events import LoopClosing
from redraft.events.messages.plan import Approve, Node, Repeat


def nodes_to_close(state: RunState, top: Frame, loop: Repeat) -> tuple[Node, ...]:
    """Returns the nodes of a loop's body that look at its last draft before the loop ends; most often none.

    The critics do if they have not judged it. The free steps that have not looked at it do as well: if critics do, if
    the loop has none, or if its condition reads the run's state.
    """
    needed = needs_judges(state, loop)
    unjudged = needed and (
        state.current is None
        or state.current.judgement is None
        or state.current.judgement.failed
        or waits_for_own_critics(state, top, loop)
    )
    steps_look = unjudged or not needed or reads_state(loop.until)
    return tuple(
        node
        for node in closing_body(loop)
        if (unjudged if is_critic(node) else steps_look and not has_looked(state, top, node))
    )


def begin_closing(state: RunState, event: LoopClosing) -> RunState:
    """Returns the state in which a loop's last draft is looked at."""
    top = state.frames[-1]
    body = nodes_to_close(state, top, top.node) if top.node else ()
    left = top.exit and state.rules >= 3
    return with_top(
        state, replace(top, body=body, index=0, closing=(event.outcome, event.reason), due="nothing", exit=left)
    )


def question_due(top: Frame) -> Approve | None:
    """Returns the approval that people are asked for now, as the loop before it ended; None if there is none."""
    node = top.body[top.index] if 0 < top.index < len(top.body) else None
    loop = top.body[top.index - 1] if node is not None else None
    if not (isinstance(node, Approve) and is_question(node) and isinstance(loop, Repeat)) or top.ended is None:
        return None
    return node if ending_of(loop, top.ended) == "ask" else None
