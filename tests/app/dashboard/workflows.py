"""Workflows for the pages: one with criteria, issues and people, and one with loops nested as deep as a plan may."""

ASKED = """
import asyncio
from pathlib import Path
from redraft.actors import Critique, Issue, Workflow, approve, critic, generator, publisher, refiner, repeat, score

HERE = Path(__file__).parent
CRITERIA = {"clarity": "it is clear", "brevity": "it is short"}

@generator
def begin(brief):
    return "# Tides\\n\\nIt is very very big.\\n\\nIn order to see it, go to *the beach*.\\n"

@critic(criteria=CRITERIA)
async def weigh(draft):
    while (HERE / "hold").exists():
        await asyncio.sleep(0.01)
    quoted = {"very very": "very", "In order to": "To"}
    there = {old: new for old, new in quoted.items() if old in draft.text}
    issues = tuple(Issue(f"shorter: {new}", quote=old, replacement=new) for old, new in there.items())
    padded = {"score": 0.5, "reason": "<b>padding", "quote": "go to" if "go to" in draft.text else ""}
    by_criterion = {"clarity": min(1, draft.version / 3), "brevity": padded}
    return Critique(min(1, draft.version / 3), criteria=by_criterion, issues=issues)

@refiner
def shorten(draft, history):
    old, new = ("very very", "very") if "very very" in draft.text else ("In order to", "To")
    return draft.text.replace(old, new) + "".join(history.advice)

@publisher
def keep(draft):
    return "kept"

BODY = [weigh, shorten]
asked = Workflow("asked").start_with(begin).repeat_until(score >= 0.9, max_iterations=5, name="Polish", body=BODY)
asked = asked.then(approve("Sign", approvers=["somebody", "ann"])).finally_(keep)

def nested(depth):
    inner = BODY if depth == 1 else [nested(depth - 1)]
    return repeat(f"Loop{depth}", until="score >= 0.6", max_iterations=2, body=inner)

deep = Workflow("deep").start_with(begin).then(nested(8)).finally_(keep)
"""
