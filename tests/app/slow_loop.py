"""A workflow whose steps take a moment, so that a run of it can be killed in the middle."""

from __future__ import annotations

import asyncio

from redraft.actors import (
    Brief,
    Critique,
    Draft,
    History,
    Revision,
    Workflow,
    critic,
    generator,
    publisher,
    refiner,
    score,
)


async def a_moment() -> None:
    await asyncio.sleep(0.01)


@generator
async def write(brief: Brief) -> str:
    await a_moment()
    return brief.text


@critic
async def judge(draft: Draft) -> Critique:
    await a_moment()
    return Critique(min(1.0, len(draft.text.split()) / 30), suggestions=(f"draft {draft.version} is short",))


@refiner
async def improve(draft: Draft, history: History) -> Revision:
    await a_moment()
    return Revision(f"{draft.text} more{len(history.rounds)}", changes=("one word",))


@publisher
async def save(draft: Draft) -> str:
    await a_moment()
    return f"{len(draft.text)} characters"


loop = (
    Workflow("slow")
    .start_with(write)
    .repeat_until(score >= 1.0, max_iterations=15, name="Refinement", body=[judge, improve])
    .finally_(save)
)
