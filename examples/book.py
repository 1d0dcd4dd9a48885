"""A book: five chapters, each refined until it is good, then published as one. Run it: `python examples/book.py`"""

from __future__ import annotations

import asyncio
from pathlib import Path

from redraft.actors import (
    Context,
    Critique,
    Workflow,
    critic,
    generator,
    outputs,
    parallel,
    refiner,
    repeat,
    score,
    step,
)
from redraft.app import refine
from redraft.app.builtin.publishers.files import file_publisher
from redraft.app.builtin.publishers.web import html_publisher
from redraft.events.messages.content import Brief, Draft, History

CHAPTERS = ("The moon", "The sun", "The coast", "The wind", "The tables")


@generator
async def write_chapter(brief: Brief, context: Context) -> str:
    number = len(context.outputs)
    return f"## {number + 1}. {CHAPTERS[number]}\n\n{CHAPTERS[number]} and {brief.text}.\n"


@critic
async def judge_chapter(draft: Draft) -> Critique:
    missing = [word for word in ("because", "for example", "therefore") if word not in draft.text]
    return Critique(1 - len(missing) / 3, suggestions=tuple(f"say a sentence with {word!r}" for word in missing))


@refiner
async def improve_chapter(draft: Draft, critique: Critique, history: History) -> str:
    word = critique.suggestions[0].split("'")[1]
    return f"{draft.text.rstrip()} {word.capitalize()}, it goes on.\n".replace(f" {word.capitalize()}", f" And {word}")


def book(folder: Path) -> Workflow:
    """The workflow, with publishers that write below this folder: the same book as a page and as Markdown."""
    whole = {"whole": True}
    publish = parallel(
        "Publish",
        step(html_publisher(folder), options={**whole, "path": "book.html", "title": "Tides", "lang": "en"}),
        step(file_publisher(folder), options={**whole, "path": "book.md"}),
    )
    chapter = repeat("Refinement", until=score >= 1, max_iterations=5, body=[judge_chapter, improve_chapter])
    return (
        Workflow("book")
        .repeat_until(outputs >= 5, max_iterations=5, name="Chapters", body=[write_chapter, chapter])
        .finally_(publish)
    )


if __name__ == "__main__":
    result = asyncio.run(refine(book(Path.cwd()), "the tides"))
    for publication in result.publications:
        print(f"{publication.path}: {Path(publication.location).name}")
    print(f"{len(result.attempts)} refinements; {result.outcome}: {result.reason}")
