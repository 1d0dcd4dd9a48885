"""Generate, critique with a score from 1 to 10, refine: until the score is 8, three iterations at most.

The loop of Flyte's examples of agents, as a plan. A model writes, judges and improves: that of REDRAFT_MODEL, or else
recorded answers. Run it: `python examples/flyte.py`
"""

from __future__ import annotations

import asyncio

from model_server import scripted

from redraft.actors import Workflow, score, step
from redraft.app import Settings, refine

LOW, HIGH, GOOD = 1, 10, 8

report = (
    Workflow("report")
    .start_with(step("llm", role="generator", name="generate"))
    .repeat_until(
        score >= GOOD,  # read on the scale that the critic declares
        max_iterations=3,
        body=[
            step("llm", role="critic", name="critique", options={"scale": [LOW, HIGH]}),
            step("llm", role="refiner", name="refine"),
        ],
    )
)


async def main(settings: Settings) -> None:
    result = await refine(report, "What is rain?", settings=settings)
    for each in result.critiques:
        print(f"draft {each.draft.version}: {each.critique.shown_score}: {'; '.join(each.critique.suggestions)}")
    print(f"\n{result.text}\n\n{result.outcome} after {result.iterations} iterations: {result.reason}")


if __name__ == "__main__":
    with scripted("flyte") as chosen:
        asyncio.run(main(chosen))
