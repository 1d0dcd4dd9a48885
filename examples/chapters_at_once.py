"""A book whose chapters are refined side by side: `for_each` gives each chapter a run of its own.

    python examples/chapters_at_once.py

The same workflow on RabbitMQ and PostgreSQL, on as many workers as you like:

    redraft coordinator
    redraft worker examples/chapters_at_once.py
    redraft submit examples/chapters_at_once.py:book "Why there are tides"
"""

import asyncio

from redraft.actors import Context, Critique, Draft, Workflow, critic, generator, refiner, repeat, score, state, step
from redraft.app import refine
from redraft.events import Brief


@step(writes=["chapters"])
async def outline(brief: Brief) -> dict[str, object]:
    subject = brief.text.split()[-1]
    about = ["The moon", "The sun", "Spring and neap", "Harbours", "Ships"]
    return {"chapters": [{"title": f"{each} and {subject}", "words": 6 + number} for number, each in enumerate(about)]}


@generator
async def write(context: Context) -> str:
    return f"{context.state.index}. {context.state.item['title']}"


@critic
async def long_enough(draft: Draft, context: Context) -> Critique:
    count, wanted = len(draft.text.split()), context.state.item["words"]
    return Critique(min(1.0, count / wanted), suggestions=() if count >= wanted else ("say more",))


@refiner
async def say_more(draft: Draft, critique: Critique) -> str:
    return f"{draft.text} more"


@generator
async def bind(context: Context) -> str:
    return "\n".join(chapter.text for chapter in context.outputs)


@critic
async def complete(draft: Draft, context: Context) -> Critique:
    return Critique(len(draft.text.splitlines()) / len(context.state.chapters))


chapter = repeat("Refinement", until=score >= 1, max_iterations=8, body=[long_enough, say_more])
book = (
    Workflow("book")
    .then(outline)
    .for_each(state.chapters, name="Chapters", concurrency=5, body=[write, chapter])
    .then(bind, complete)
)


async def main() -> None:
    result = await refine(book, "Why there are tides")
    print(result.text)
    print(f"{result.outcome}: a book of {len(result.text.splitlines())} chapters, each refined in a run of its own")


if __name__ == "__main__":
    asyncio.run(main())
