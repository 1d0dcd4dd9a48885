"""A run that kills its own process: `killed_run.py FOLDER before|after|never N`: at the Nth append to the log.

The test starts it again, with the same key, until the run has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

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
    step,
)
from redraft.app import open_local, read_settings
from redraft.events.backends import open_recorder
from redraft.events.store.event_store import EventStore

KEY = "the same run"


class Killer:
    """A recorder that kills the process before or after it has written for the Nth time."""

    def __init__(self, recorder, when: str, number: int) -> None:
        self._recorder = recorder
        self._when = when
        self._left = number

    def __getattr__(self, name: str):
        return getattr(self._recorder, name)

    def insert_events(self, *args, **kwargs):
        self._left -= 1
        if self._left == 0 and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        written = self._recorder.insert_events(*args, **kwargs)
        if self._left == 0 and self._when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return written


def workflow(folder: Path) -> Workflow:
    @generator
    async def write(brief: Brief) -> str:
        return brief.text

    @critic
    def judge(draft: Draft) -> Critique:
        return Critique(min(1.0, len(draft.text.split()) / 6), suggestions=(f"draft {draft.version} is short",))

    @refiner
    async def improve(draft: Draft, history: History) -> Revision:
        return Revision(f"{draft.text} more{len(history.rounds)}", changes=("one word",))

    @refiner
    async def lengthen(draft: Draft) -> Revision:
        return Revision(f"{draft.text} longer", changes=("another word",))

    @publisher
    async def save(draft: Draft) -> str:
        (folder / "published.txt").write_text(draft.text)
        return "published.txt"

    body = [judge, step(choose=[improve, lengthen])]
    loop = Workflow("killed").start_with(write)
    return loop.repeat_until(score >= 1.0, max_iterations=3, name="Refinement", body=body).finally_(save)


async def main(folder: Path, when: str, number: int) -> None:
    url = f"sqlite:///{folder / 'log.db'}"
    opened = open_recorder(url)
    log = EventStore(msgspec.structs.replace(opened, recorder=Killer(opened.recorder, when, number)))
    plan = workflow(folder)
    async with open_local(read_settings(store=url), plan.actors.values(), log=log) as runtime:
        run = await runtime.client.submit(plan, "three words here", key=KEY)
        await runtime.client.wait(run)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
