"""A critic that tests and counts: one loop ends when all tests pass, one when little changes any more.

Run it: `python examples/measures.py`
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from redraft.actors import Brief, Draft, Workflow, change, critic, generator, measure, refiner
from redraft.app import refine

TESTS: dict[str, Callable[[str], bool]] = {
    "begins with the answer": lambda text: text.startswith("Tides"),
    "names the moon": lambda text: "moon" in text,
    "says how often": lambda text: "twice a day" in text,
}
DRAFTS = (
    "People have long wondered why the sea comes and goes.",
    "Tides come and go because the moon pulls at the sea.",
    "Tides come and go twice a day because the moon pulls at the sea.",
)


@generator
def write(brief: Brief) -> str:
    return DRAFTS[0]


@critic(measures=("words", "failing", "all_tests_passing"))
def check(draft: Draft) -> dict[str, object]:
    failing = [name for name, holds in TESTS.items() if not holds(draft.text)]
    counts = {"words": len(draft.text.split()), "failing": len(failing), "all_tests_passing": not failing}
    return {"errors": failing, "measures": counts}


@refiner
def improve(draft: Draft) -> str:
    return DRAFTS[DRAFTS.index(draft.text) + 1]


tested = (
    Workflow("tested")
    .start_with(write)
    .repeat_until("all_tests_passing and words < 20", max_iterations=5, body=[check, improve])
)
settled = (
    Workflow("settled")
    .start_with(write)
    .repeat_until((measure.failing <= 1) & (change(measure.words) <= 0.1), max_iterations=5, body=[check, improve])
)


async def main() -> None:
    for workflow in (tested, settled):
        result = await refine(workflow, "Why are there tides?")
        for each in result.critiques:
            print(f"draft {each.draft.version}: {each.critique.shown_measures}")
        print(f"{result.outcome}: {result.reason}")


if __name__ == "__main__":
    asyncio.run(main())
