"""Two callers begin a run with one key at the same moment, and each with a brief of its own: one of them is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

from redraft.actors import Critique, Draft, Workflow, critic, generator
from redraft.actors.workflow.workflow import repeat
from redraft.app import Result, read_settings, refine
from redraft.events.errors import InputError
from redraft.events.messages.content import Brief

TRIES = 12


@generator
async def write(brief: Brief) -> str:
    return f"on {brief.text}"


@critic
async def judge(draft: Draft) -> Critique:
    return Critique(1.0)


FLOW = Workflow("flow").start_with(write).then(repeat("Loop", until="score >= 0.9", max_iterations=1, body=[judge]))


async def test_a_key_gives_nobody_the_result_of_another_brief(tmp_path: Path):
    settings = read_settings(store=f"sqlite:///{tmp_path}/runs.db")

    async def refined(brief: str, key: str) -> Result | InputError:
        try:
            return await refine(FLOW, brief, key=key, settings=settings)
        except InputError as error:
            return error

    for number in range(TRIES):
        ends = await asyncio.gather(refined("one", f"k{number}"), refined("two", f"k{number}"))
        given = {brief: end for brief, end in zip(("one", "two"), ends, strict=True) if isinstance(end, Result)}
        assert [end.text for end in given.values()] == [f"on {brief}" for brief in given]
        assert len(given) == 1
        (refused,) = (str(end) for end in ends if isinstance(end, InputError))
        assert f"key 'k{number}' was used for another brief" in refused
