"""Flyte's report, in functions: a pydantic critique with `improvements` and `summary`, good from 8 of 10.

Each function stands where Flyte's example asks a model. Run it: `python examples/report.py`
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic import BaseModel, Field

from redraft.actors import Brief, Draft, Workflow, critic, generator, publisher, refiner, score
from redraft.actors import Critique as Said
from redraft.app import refine

MAX_ITERATIONS, QUALITY_THRESHOLD = 3, 8
FACTS = ("Water rises as vapour.", "It cools and forms drops.", "Drops that grow heavy fall.", "Rivers bring it back.")


class Critique(BaseModel):
    """A structured critique of a report."""

    score: int = Field(ge=1, le=10)
    strengths: list[str]
    improvements: list[str]
    summary: str


@generator
def generate_initial_draft(brief: Brief) -> str:
    return f"{brief.text}\n\n{FACTS[0]}"


@critic(scale=(1, 10), fields={"improvements": "suggestions"})
def critique_content(draft: Draft) -> Critique:
    missing = [each for each in FACTS if each not in draft.text]
    return Critique(
        score=10 - 2 * len(missing),
        strengths=["It is short."],
        improvements=missing[:1],
        summary=f"{len(missing)} of {len(FACTS)} steps are missing.",
    )


@refiner
def revise_content(draft: Draft, critique: Said) -> str:
    return "\n".join((draft.text, *critique.suggestions))


@publisher
def format_outputs(draft: Draft) -> Path:
    title, _, body = draft.text.partition("\n\n")
    page = Path("report.md")
    page.write_text(f"# {title}\n\n{body}\n")
    return page


report = (
    Workflow("report_pipeline")
    .start_with(generate_initial_draft)
    .repeat_until(
        score >= QUALITY_THRESHOLD,
        max_iterations=MAX_ITERATIONS,
        name="refinement",
        body=[critique_content, revise_content],
    )
    .finally_(format_outputs)
)


async def main() -> None:
    result = await refine(report, "Why it rains")
    for each in result.critiques:
        print(f"draft {each.draft.version}: {each.critique.shown_score}: {each.critique.details['summary']}")
    print(f"\n{result.text}\n\n{result.outcome} after {result.iterations} iterations: {result.reason}")


if __name__ == "__main__":
    asyncio.run(main())
