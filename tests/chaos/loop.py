"""The workflow of the kill tests. It is copied into a folder, where each call of a function leaves a line in a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from redraft.actors import Brief, Context, Critique, Draft, Workflow, critic, generator, publisher, refiner, score

WORKED = Path(__file__).with_name("worked.txt")
DRAFTS = 4
"""The draft that is good enough."""


HOLD = WORKED.with_name("hold")
"""While this file is there, calls for the paths that begin with what it says take their time."""


async def work(context: Context) -> None:
    """Notes the call, as a model's provider would bill it, and takes a moment."""
    note(f"{context.run} {context.path}#{context.attempt}\n")
    await asyncio.sleep(0.005)
    while HOLD.exists() and context.path.startswith(HOLD.read_text()):  # noqa: ASYNC110
        await asyncio.sleep(0.02)  # it is another process that takes it away


def note(line: str) -> None:
    with WORKED.open("a") as file:
        file.write(line)


@generator
async def write(brief: Brief, context: Context) -> str:
    await work(context)
    return brief.text


@critic
async def judge(draft: Draft, context: Context) -> Critique:
    await work(context)
    return Critique(min(1.0, draft.version / DRAFTS))


@refiner
async def improve(draft: Draft, context: Context) -> str:
    await work(context)
    return f"{draft.text} more"


@publisher
async def save(draft: Draft, context: Context) -> str:
    await work(context)
    return "nowhere"


loop = (
    Workflow("chaos")
    .start_with(write)
    .repeat_until(score >= 1.0, max_iterations=5, name="Loop", body=[judge, improve])
    .finally_(save)
)
