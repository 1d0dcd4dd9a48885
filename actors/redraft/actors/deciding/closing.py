"""The look at a loop's last draft before the loop ends: by its critics, and by free steps. Pure."""

from __future__ import annotations

from redraft.actors.conditions.values import reads_state
from redraft.actors.deciding.run_values import has_looked
from redraft.actors.deciding.state import Frame, RunState, waits_for_own_critics
from redraft.actors.plans.paths import closing_body, is_critic, judges_itself
from redraft.events.messages.plan import Node, Repeat


def nodes_to_close(state: RunState, top: Frame, loop: Repeat) -> tuple[Node, ...]:
    """Returns the nodes of a loop's body that look at its last draft before the loop ends; most often none.

    The critics do if they have not judged it. The free steps that have not looked at it do as well: if critics do, if
    the loop has none, or if its condition reads the run's state.
    """
    unjudged = judges_itself(loop) and (
        state.current is None or state.current.judgement is None or waits_for_own_critics(state, top, loop)
    )
    steps_look = unjudged or not judges_itself(loop) or reads_state(loop.until)
    return tuple(
        node
        for node in closing_body(loop)
        if (unjudged if is_critic(node) else steps_look and not has_looked(state, top, node))
    )
