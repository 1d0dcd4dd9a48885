"""Strategos' loops of content and of code: to a quality, until little changes, until it is sure, until the tests pass.

Each function stands where a step of theirs asks a model. Run it: `python examples/strategos.py`
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from pydantic import BaseModel

from redraft.actors import (
    Brief,
    Critique,
    Draft,
    History,
    Revision,
    Workflow,
    change,
    confidence,
    critic,
    generator,
    measure,
    publisher,
    refiner,
    score,
    step,
)
from redraft.app import refine

POINTS = ("The moon pulls at the sea.", "The sun helps it.", "Twice a day the water rises.")


class CritiqueResult(BaseModel):
    score: float
    strengths: list[str] = []
    weaknesses: list[str] = []
    suggestions: list[str] = []
    confidence: float = 1.0


@generator(name="GenerateDraft")
def generate_draft(brief: Brief) -> str:
    return f"{brief.text}:"


@critic(name="Critique")
def critique_draft(draft: Draft) -> CritiqueResult:
    missing = [point for point in POINTS if point not in draft.text]
    return CritiqueResult(
        score=1 - len(missing) / len(POINTS),
        strengths=[f"{len(POINTS) - len(missing)} points are made"],
        weaknesses=["it leaves something out"] if missing else [],
        suggestions=missing[:1],
        confidence=0.5 + 0.1 * min(4, len(draft.text.split()) // 4),
    )


@critic(name="MeasureDelta", measures=("quality",))
def measure_delta(draft: Draft) -> dict[str, object]:
    """Counts one number: the loop itself compares it with that of the draft before."""
    return {"measures": {"quality": sum(point in draft.text for point in POINTS)}}


@refiner(name="Refine")
def refine_draft(draft: Draft, critique: Critique) -> Revision:
    return Revision(" ".join((draft.text, *critique.suggestions)), changes=critique.suggestions)


@refiner(name="Iterate")
def iterate(draft: Draft) -> Revision:
    missing = [point for point in POINTS if point not in draft.text][:1]
    return Revision(
        " ".join((draft.text, *missing)) if missing else f"{draft.text} That is all.", changes=tuple(missing)
    )


@publisher(name="Publish")
def publish(draft: Draft) -> str:
    return f"draft {draft.version}"


LEAP = "def is_leap(year):\n    return year % 4 == 0\n"
RIGHT = LEAP.replace("year % 4 == 0", "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)")
TESTS = """from leap import is_leap


def test_years():
    assert is_leap(2024)


def test_centuries():
    assert not is_leap(1900)
"""


@generator(name="GenerateCode")
def generate_code(brief: Brief, history: History) -> Draft:
    """Writes the code, in each iteration anew: later ones know what was said of those before."""
    return Draft(1, RIGHT if history.raised else LEAP, "", "text/x-python")


@critic(name="AnalyzeFailures", measures=("wrong_rules",))
def analyze_failures(draft: Draft) -> dict[str, object]:
    """Gives no verdict: whether all tests pass is what the critic before has counted."""
    found = [] if "100" in draft.text else ["a year that ends a century is no leap year"]
    return {"suggestions": found, "measures": {"wrong_rules": len(found)}}


@refiner(name="RefineCode")
def refine_code(draft: Draft, critique: Critique) -> Revision:
    return Revision(RIGHT, changes=critique.suggestions)


content = (
    Workflow("iterative-refinement")
    .start_with(generate_draft)
    .repeat_until(score >= 0.9, max_iterations=5, name="Refinement", body=[critique_draft, refine_draft])
    .finally_(publish)
)
settled = (
    Workflow("improvement-delta")
    .start_with(generate_draft)
    .repeat_until(change(measure.quality) < 0.01, max_iterations=20, body=[iterate, measure_delta])
)
sure = (
    Workflow("confidence-threshold")
    .start_with(generate_draft)
    .repeat_until((score >= 0.6) & (confidence >= 0.85), max_iterations=5, body=[critique_draft, refine_draft])
)
code = Workflow("all-tests-passing").repeat_until(
    measure.all_tests_passing >= 1,
    max_iterations=5,
    body=[
        generate_code,
        step("pytest", role="critic", name="RunTests", options={"tests": ["test_leap.py"], "module": "leap"}),
        analyze_failures,
        refine_code,
    ],
)


async def main() -> None:
    for workflow in (content, settled, sure, code):
        result = await refine(workflow, "Tides")
        for each in result.attempts:
            print(f"iteration {each.iteration}: {'; '.join(each.changes) or 'a new text'}")
        print(f"-- {workflow.name}: {result.outcome}, {len(result.critiques)} critiques: {result.reason}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # where the critic looks for the tests
        Path("test_leap.py").write_text(TESTS)
        asyncio.run(main())
