"""Workflows whose actors read and change the state of their run."""

from __future__ import annotations

from typing import Final

STATEFUL: Final = """
from dataclasses import dataclass

from redraft.actors import Workflow, WithState, critic, generator, refiner, score, state, step


@dataclass
class Article:
    audience: str = "adults"
    limit: int = 3
    sources: list[str] | None = None
    tests_pass: bool = False
    notes: str = ""


@step
def research(context):
    return {"sources": ["tides.org"], "notes": "The moon pulls.\\nThe sun pulls too, with half the strength of it."}


@step(writes=["tests_pass"])
def run_tests(draft):
    return {"tests_pass": "moon" in draft.text}


@generator
def write(brief, context):
    return f"{brief.text} for {context.state.audience}"


@critic
def judge(draft):
    return WithState(0.9 if "moon" in draft.text else 0.4, {"limit": len(draft.text)})


@refiner
def improve(draft):
    return draft.text + " The moon."


judged = (
    Workflow("judged", state=Article)
    .start_with(research, write)
    .repeat_until(state.tests_pass & (score >= 0.8), max_iterations=4, name="Loop", body=[run_tests, judge, improve])
)
tested = (
    Workflow("tested", state=Article)
    .start_with(write)
    .repeat_until(state.tests_pass, max_iterations=4, name="Tests", body=[run_tests, improve])
)


@step
def count(context):
    return {"counted": len(context.state)}


@generator
def repeat(brief):
    return brief.text


free = Workflow("free").start_with(count, repeat)
"""
"""`judged` has a critic in its loop, `tested` has none; `free` has a state of any values."""
