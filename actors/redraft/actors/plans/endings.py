"""The ends of loops that no draft has satisfied: publish its draft, ask people about it, or end the run."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from redraft.events.messages.domain_events import Outcome
from redraft.events.messages.plan import Approve, Ending, Node, Repeat

ENDS: Final = ("stop", "ask", "fail")
"""The values of `on_oscillation` by which a loop ends that repeats an earlier draft or undoes a change."""


ASK: Final = Approve("ask")
"""Who is asked where a plan does not say: anybody, for a day."""


def ending_of(loop: Repeat, outcome: Outcome) -> Ending:
    """Returns what happens with the draft of a loop that ended with this outcome."""
    match outcome:
        case "exhausted":
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


def describe_endings(loop: Repeat) -> str:
    """Returns the ends of a loop at which its draft does not just go on: `exhausted: ask ann`; empty if none."""
    people = ", ".join(loop.ask.approvers) if loop.ask is not None else ""
    outcomes: tuple[Outcome, ...] = ("exhausted", "plateaued", "oscillating")
    endings = ((outcome, ending_of(loop, outcome)) for outcome in outcomes)
    told = ((outcome, f"ask {people}".rstrip() if ending == "ask" else ending) for outcome, ending in endings)
    return ", ".join(f"{outcome}: {ending}" for outcome, ending in told if ending != "publish")


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
