"""Random issues with a place, and random edits, some of which do not apply, for the actors of a history."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from redraft.actors import Critique, Edit, Issue, Refusal, Revision
from redraft.actors.plans.paths import map_nodes
from redraft.events.messages.plan import Node, Plan, Step


def held_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan in which some refiners may only change what an issue names."""

    def changed(path: str, node: Node) -> Node:
        if isinstance(node, Step) and node.role == "refiner" and random.random() < 0.3:
            return replace(node, only_issues=True)
        return node

    return replace(plan, steps=map_nodes(plan.steps, changed))


def random_issues(random: Random, text: str) -> tuple[Issue, ...]:
    """Returns up to three issues of a text, one now and then without a place, or with one that is not there."""
    found = []
    for _ in range(random.randint(0, 3)):
        start = random.randrange(len(text))
        quote = text[start : start + random.randint(1, 6)]
        kind = random.random()
        quote = "nowhere" if kind < 0.02 else "" if kind < 0.1 else quote
        span = (start, start + len(quote)) if quote in text and quote and random.random() < 0.5 else None
        severity = random.choice(("error", "warning", "note"))
        found.append(Issue("say it otherwise", quote, span, severity=severity))  # type: ignore[arg-type]
    return tuple(found)


def random_revision(random: Random, said: Revision, text: str, critique: Critique | None) -> Revision:
    """Returns a revision as it was said, or edits of the text instead: of issues' places, or of others."""
    issues = critique.issues if critique else ()
    if random.random() < 0.3:
        return said
    refused = tuple(Refusal(each.id, "it is meant so") for each in issues if random.random() < 0.2)
    quotes = [each.quote for each in issues if each.quote and random.random() < 0.8]
    if random.random() < 0.2:
        start = random.randrange(len(text))
        quotes.append(text[start : start + random.randint(1, 8)])
    named = {each.quote: (each.id,) for each in issues if random.random() < 0.5}
    edits = tuple(Edit(each, f"{random.getrandbits(16)}", named.get(each, ())) for each in dict.fromkeys(quotes))
    if not edits:
        return replace(said, refusals=refused)
    return Revision(exit=said.exit, edits=edits, refusals=refused, saved_tokens=random.randint(0, 9))
