"""The workflows of the campaign. It is copied into a folder, where what was worked on and delivered is kept.

What an actor answers follows from the run, the step and the draft; a draft names the call that made it, so that two
answers to one request differ. The publisher delivers once for each key, as one does that cannot take a delivery back.
"""

from __future__ import annotations

import asyncio
import os
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from redraft.actors import (
    Actor,
    Context,
    Critique,
    Draft,
    Workflow,
    approve,
    critic,
    generator,
    parallel,
    publisher,
    refiner,
    score,
    step,
)
from redraft.events.messages.plan import Retry

FOLDER = Path(__file__).parent
WORKED = FOLDER / "worked.txt"
DELIVERED = FOLDER / "delivered.txt"
SHELF = FOLDER / "shelf"
LONGEST = 0.2
"""Seconds that a piece of work takes at most."""

TIMEOUT = 45.0
"""Seconds that a step has: more than anything is away for, so that a deadline is for what was lost."""


def drawn(*given: object) -> float:
    """A number from 0 to 1 that follows from what is given."""
    return int.from_bytes(sha256(repr(given).encode()).digest()[:4], "big") / 2**32


def note(file: Path, line: str) -> None:
    """Adds a line at once, whoever else does."""
    place = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(place, f"{line}\n".encode())
    finally:
        os.close(place)


async def work(context: Context) -> str:
    """Takes its time; gives what tells this call from every other."""
    note(WORKED, f"{context.run} {context.path}#{context.attempt}")
    await asyncio.sleep(LONGEST * drawn(context.run, context.path, context.attempt))
    return f"{context.path}#{context.attempt} {uuid4()}"


@generator
async def write(context: Context) -> str:
    return f"a draft: {await work(context)}"


def _critic(name: str) -> Actor:
    async def judge(draft: Draft, context: Context) -> Critique:
        await work(context)
        return Critique(min(1.0, 0.3 + 0.15 * draft.version + 0.3 * drawn(name, context.run, draft.version)))

    judge.__name__ = name
    return critic(judge)


facts, prose, taste = map(_critic, ("facts", "prose", "taste"))


@refiner
async def improve(draft: Draft, context: Context) -> str:
    return f"{draft.text[:80]} refined: {await work(context)}"


@publisher
async def save(draft: Draft, context: Context) -> str:
    """Delivers a draft under a key that is the same for every try of the step."""
    await work(context)
    key = f"{context.run}/{context.path}"
    note(DELIVERED, f"{key} {draft.sha256}")
    put(SHELF / sha256(key.encode()).hexdigest(), f"{key} {draft.sha256}")
    return f"shelf of {key}"


def put(place: Path, text: str) -> None:
    """Makes a file, whole, unless it is there: whoever is killed meanwhile leaves no half of it."""
    place.parent.mkdir(exist_ok=True)
    mine = place.with_name(f".{uuid4()}")
    mine.write_text(text)
    try:
        os.link(mine, place)
    except FileExistsError:
        pass
    finally:
        mine.unlink()


AGAIN = Retry(6, 1.0)


def _steps(*actors: Actor) -> list[object]:
    return [step(each, timeout=TIMEOUT, retry=AGAIN) for each in actors]


def _loop(name: str, wait: object, *after: object) -> Workflow:
    panel = parallel("Panel", *_steps(facts, prose, taste), combine="mean", wait=wait)  # type: ignore[arg-type]
    begun = Workflow(name).start_with(*_steps(write))  # type: ignore[arg-type]
    body = [panel, *_steps(improve)]
    looped = begun.repeat_until(score >= 0.9, max_iterations=3, name="Loop", body=body)  # type: ignore[arg-type]
    return looped.finally_(*after, *_steps(save))  # type: ignore[arg-type]


all_of = _loop("all-of", "all")
two_of = _loop("two-of", 2)
asked = _loop("asked", "all", approve("Editor", deadline=300.0))
WORKFLOWS = (all_of, two_of, asked)
