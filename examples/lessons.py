"""A second run that needs fewer iterations than the first, as it is given the lessons of that.

The writer and the refiner stand where a model would be asked: both heed the lessons that they are given. Run it:
`python examples/lessons.py`. See what was learnt: `redraft stats lessons`
"""

from __future__ import annotations

import asyncio

from redraft.actors import (
    Brief,
    Context,
    Critique,
    Draft,
    Revision,
    Workflow,
    critic,
    generator,
    publisher,
    refiner,
    score,
)
from redraft.app import refine

WISHES = {
    "Name the moon.": "The moon pulls.",
    "Give a date.": "Seen in 1687.",
    "Cite a source.": "See Newton's Principia.",
}


@generator
def write(brief: Brief, context: Context) -> str:
    """Writes about the brief, and does at once what critics of earlier runs asked for most."""
    known = [WISHES[lesson.text] for lesson in context.lessons if lesson.text in WISHES]
    return " ".join([brief.text, *known])


@critic
def judge(draft: Draft) -> Critique:
    """Asks for the first thing that is missing."""
    missing = [wish for wish, words in WISHES.items() if words not in draft.text]
    return Critique(score=1 - len(missing) / len(WISHES), suggestions=tuple(missing[:1]))


@refiner
def improve(draft: Draft, critique: Critique) -> Revision:
    words = [WISHES[wish] for wish in critique.suggestions]
    return Revision(" ".join([draft.text, *words]), changes=tuple(f"added: {each}" for each in words))


@publisher
def save(draft: Draft) -> str:
    return "done"


article = (
    Workflow("article", lessons=True)
    .start_with(write)
    .repeat_until(score >= 1, max_iterations=6, body=[judge, improve])
    .finally_(save)
)


async def main() -> None:
    """Refines two briefs one after the other, in one store, and prints how many iterations each took."""
    for brief in ("Why tides exist.", "Why there are eclipses."):
        result = await refine(article, brief)
        print(f"{result.outcome}, {result.iterations} iterations: {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
