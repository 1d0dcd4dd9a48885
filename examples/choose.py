"""Learns from the ends of runs which of two refiners is the better one. Run it: `python examples/choose.py`

`cut` takes out words that say nothing; `swap` puts others in their place, which helps now and then. The critic is not
chosen, so its word on what they made is that of somebody else. `redraft stats choices` shows what was learnt.
"""

from __future__ import annotations

import asyncio

from redraft.actors import Critique, Revision, Workflow, critic, generator, publisher, refiner, score, step
from redraft.app import open_readonly, read_settings, refine
from redraft.events.messages.content import Brief, Draft
from redraft.projections import CHOICES, arms

SAYS_NOTHING = {"very", "really", "quite"}
BRIEFS = ("The sea is very deep", "Tides are really high", "The moon is quite far", "Waves are truly loud")


@generator
async def write(brief: Brief) -> str:
    return brief.text


@critic
async def plain(draft: Draft) -> Critique:
    found = [word for word in draft.text.split() if word in SAYS_NOTHING]
    return Critique(0.5 if found else 1.0, suggestions=tuple(f"leave out {word!r}" for word in found))


@refiner
async def cut(draft: Draft) -> Revision:
    kept = " ".join(word for word in draft.text.split() if word not in SAYS_NOTHING)
    return Revision(kept, changes=("took out what says nothing",))


@refiner
async def swap(draft: Draft) -> Revision:
    return Revision(draft.text.replace("very", "really").replace("quite", "most"), changes=("said it otherwise",))


@publisher
async def show(draft: Draft) -> str:
    return f"draft {draft.version}"


plainly = (
    Workflow("plainly")
    .start_with(write)
    .repeat_until(score >= 1, max_iterations=1, name="Refinement", body=[plain, step(choose=[cut, swap])])
    .finally_(show)
)


async def main() -> None:
    for number in range(40):
        await refine(plainly, BRIEFS[number % len(BRIEFS)], key=f"plainly-{number}")
    async with open_readonly(read_settings()) as log:
        for each in await arms(await log.models.of(CHOICES)):
            print(f"{each.arm}: accepted in {each.successes} of {each.runs} runs")


if __name__ == "__main__":
    asyncio.run(main())
