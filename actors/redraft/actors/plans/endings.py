"""The ends of loops that no draft has satisfied: publish its draft, ask people about it, or end the run."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.plan import Approve, Ending, Node, Repeat

ENDS: Final = ("publish", "stop", "ask", "fail")
"""The values of `on_oscillation` by which a loop ends that repeats an earlier draft or undoes a change.

`stop`, which recorded plans have, means `publish`.
"""


ASK: Final = Approve("ask")
"""The approval that a loop asks for where its plan names nobody: of anybody, within a day."""


def ending_of(loop: Repeat, outcome: Outcome) -> Ending:
    """Returns what happens with the draft of a loop that ended with this outcome."""
    match outcome:
        case "exhausted" | "over_budget" | "timed_out":  # a limit: of iterations, or one that its condition names
            return loop.on_exhausted
        case "plateaued":
            return loop.on_plateau
        case "oscillating" if loop.on_oscillation == "ask" or loop.on_oscillation == "fail":
            return loop.on_oscillation
        case _:
            return "publish"


def may_ask(loop: Repeat) -> bool:
    """Returns whether people are asked about the draft of a loop by one of its endings."""
    return "ask" in (loop.on_exhausted, loop.on_plateau, loop.on_oscillation)


def with_questions(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Returns the nodes with an approval, `Refinement[ask]`, behind each loop that may ask people at its end."""
    if not any(isinstance(node, Repeat) and may_ask(node) for node in nodes):
        return nodes
    found: list[Node] = []
    for node in nodes:
        found.append(node)
        if isinstance(node, Repeat) and may_ask(node):
            asked = node.ask or ASK
            found.append(replace(asked, name=f"{node.name}[{asked.name}]"))
    return tuple(found)


def is_question(node: Node) -> bool:
    """Returns whether a node is the approval behind a loop, for which people are asked only as the loop's end says."""
    return type(node) is Approve and "[" in node.name
