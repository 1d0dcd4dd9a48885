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
        score >= (GOOD - LOW) / (HIGH - LOW),  # scores are recorded as shares, 0 to 1, of a critic's scale
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
        points = LOW + each.critique.score * (HIGH - LOW)
        print(f"draft {each.draft.version}: {points:g} of {HIGH}: {'; '.join(each.critique.suggestions)}")
    print(f"\n{result.text}\n\n{result.outcome} after {result.iterations} iterations: {result.reason}")


if __name__ == "__main__":
    with scripted("flyte") as chosen:
        asyncio.run(main(chosen))
