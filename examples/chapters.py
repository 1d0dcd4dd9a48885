"""Loops in loops: five chapters, each refined until it is long enough. Run it: `python examples/chapters.py`"""

from __future__ import annotations

import asyncio

from redraft.actors import Context, Critique, Workflow, critic, generator, outputs, publisher, refiner, repeat, score
from redraft.app import refine
from redraft.events.messages.content import Brief, Draft


@generator
async def write_chapter(brief: Brief, context: Context) -> str:
    return f"Chapter {len(context.outputs) + 1} of {brief.text}."


@critic
async def judge_chapter(draft: Draft) -> Critique:
    words = len(draft.text.split())
    return Critique(min(1.0, words / 12), suggestions=("say more",))


@refiner
async def extend_chapter(draft: Draft) -> str:
    return f"{draft.text} It goes on."


@publisher(name="bind")
async def bind_book(draft: Draft, context: Context) -> str:
    return f"a book of {len(context.outputs)} chapters, the last of {len(draft.text.split())} words"


book = (
    Workflow("book")
    .repeat_until(
        outputs >= 5,
        max_iterations=10,
        name="Chapters",
        body=[
            write_chapter,
            repeat("ChapterRefinement", until=score >= 0.8, max_iterations=3, body=[judge_chapter, extend_chapter]),
        ],
    )
    .finally_(bind_book)
)

if __name__ == "__main__":
    result = asyncio.run(refine(book, "the sea"))
    print(f"{result.publications[0].location}; {len(result.attempts)} refinements; {result.outcome}: {result.reason}")
