"""The whole of Redraft on one page: four functions, one plan, one call. Run it: `python examples/article.py`

The four functions are plain rules, so that the example needs no model; in their place may stand any code that writes,
judges, improves and saves.
"""

from __future__ import annotations

import asyncio

from redraft.actors import Brief, Critique, Draft, Workflow, critic, generator, plateau, publisher, refiner, score
from redraft.app import refine

FACTS = {
    "moon": "The Moon pulls harder on the near side of the Earth than on its centre.",
    "far": "The far side bulges too, because the Earth is pulled away from its water.",
    "twice": "As the Earth turns, most coasts meet both bulges, twice a day.",
}


@generator
async def write(brief: Brief) -> str:
    return f"{brief.text}\n\n{FACTS['moon']}"


@critic
async def judge(draft: Draft) -> Critique:
    missing = [topic for topic, fact in FACTS.items() if fact not in draft.text]
    return Critique(1 - len(missing) / len(FACTS), suggestions=tuple(f"write about: {topic}" for topic in missing))


@refiner
async def improve(draft: Draft, critique: Critique) -> str:
    topic = critique.suggestions[0].removeprefix("write about: ")
    return f"{draft.text} {FACTS[topic]}"


@publisher
async def save(draft: Draft) -> str:
    return f"standard output, {len(draft.text.split())} words"


article = (
    Workflow("article")
    .start_with(write)
    .repeat_until((score >= 0.9) | plateau(), max_iterations=5, name="Refinement", body=[judge, improve])
    .finally_(save)
)

if __name__ == "__main__":
    result = asyncio.run(refine(article, "Why tides exist"))
    print(result.text)
    print(f"\n{result.outcome} after {result.iterations} iterations, score {result.score}: {result.reason}")
