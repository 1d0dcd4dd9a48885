"""The workflows of the trials: a panel in a loop that waits for all, or for three of six; the long ones are steered.

No two answers to one request are alike: where an answer is counted twice, or another one than was recorded, it shows.
"""

from __future__ import annotations

import asyncio
import random
from typing import Literal
from uuid import uuid4

from redraft.actors import (
    Actor,
    Context,
    Critique,
    Draft,
    Workflow,
    critic,
    generator,
    parallel,
    publisher,
    refiner,
    score,
)

LONGEST = 0.005
"""Seconds that a piece of work takes at most."""


async def work(context: Context) -> float:
    await asyncio.sleep(random.uniform(0, LONGEST))
    return random.random()


@generator
async def write(context: Context) -> str:
    await work(context)
    return f"a first draft, {uuid4()}"


def _critic(name: str) -> Actor:
    async def judge(draft: Draft, context: Context) -> Critique:
        return Critique(await work(context))

    judge.__name__ = name
    return critic(judge)


facts, prose, taste, tone, order, length = map(_critic, ("facts", "prose", "taste", "tone", "order", "length"))


@refiner
async def improve(draft: Draft, context: Context) -> str:
    await work(context)
    return f"{draft.text[:40]} refined, {uuid4()}"


@publisher
async def save(draft: Draft, context: Context) -> str:
    await work(context)
    return f"nowhere/{draft.version}"


def _loop(name: str, wait: int | Literal["all"], passes: int) -> Workflow:
    panel = parallel("Panel", facts, prose, taste, tone, order, length, combine="mean", wait=wait)
    loop = Workflow(name).start_with(write)
    return loop.repeat_until(score >= 0.99, max_iterations=passes, name="Loop", body=[panel, improve]).finally_(save)


wait_all = _loop("wait-all", "all", 8)
wait_some = _loop("wait-some", 3, 8)
long_all = _loop("long-all", "all", 60)
long_some = _loop("long-some", 3, 60)
