"""`redraft run`, killed with -9 at random moments, then resumed: the same history as a run that nobody killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from subprocess import PIPE

import pytest
from tests.forked import Forked, fork

from redraft.app import open_readonly, read_settings
from redraft.events.messages.domain_events import DraftCritiqued, DraftRefined, RunStarted, StepRequested

pytestmark = pytest.mark.check

LONGEST = 0.7
"""Seconds from the first sign of life after which a run is killed at the latest: about as long as it takes."""

WORKFLOW = f"{Path(__file__).parents[1] / 'app' / 'slow_loop.py'}:loop"


class Command:
    """The command line, on a store of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.store = f"sqlite:///{folder / 'log.db'}"

    def start(self, *arguments: str) -> Forked:
        environment = {**os.environ, "REDRAFT_STORE": self.store}
        return fork("redraft", *arguments, folder=self.folder, environment=environment, stdout=PIPE, stderr=PIPE)

    async def __call__(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            out, err = await asyncio.to_thread(process.communicate, timeout=60)
            return process.wait(), out, err

    async def killed_after(self, delay: float) -> bool:
        """Starts a run and kills it this long after it first said something; False if it had ended by then."""
        with self.start("run", "--workflow", WORKFLOW, "--text", "one two three") as process:
            assert process.stderr
            await asyncio.wait_for(asyncio.to_thread(process.stderr.readline), 60)
            await asyncio.sleep(delay)  # the random moment itself, not a wait for something
            process.kill()
            await asyncio.to_thread(process.communicate, timeout=60)
            return process.wait() == -signal.SIGKILL

    async def story(self) -> list[tuple[str, object]]:
        """What happened, without times; every hash verified."""
        async with open_readonly(read_settings(store=self.store)) as runtime:
            events = [event async for event in runtime.client.subscribe(follow=False)]
            assert await runtime.store.verify(events[0].run) == len(events)
        return [(event.name, _timeless(event.data)) for event in events]


def _timeless(event):
    match event:
        case RunStarted(brief=brief):
            return brief
        case StepRequested(path=path, attempt=attempt, draft=draft, critiques=critiques):
            return path, attempt, draft, critiques
        case _:
            return event


@pytest.mark.parametrize(
    "least",
    [pytest.param(5, marks=pytest.mark.check), pytest.param(50, marks=[pytest.mark.chaos, pytest.mark.timeout(600)])],
)
async def test_a_run_that_is_killed_at_a_random_moment_is_resumed_to_the_same_history(tmp_path: Path, least: int):
    seed = int.from_bytes(os.urandom(4))
    moments = random.Random(seed)
    calm = Command(tmp_path / "calm")
    code, out, err = await calm("run", "--workflow", WORKFLOW, "--text", "one two three", "--json")
    assert code == 3, err
    assert json.loads(out)["outcome"] == "exhausted"
    expected = await calm.story()
    kills = 0
    for trial in range(least * 4):
        if kills >= least:
            break
        pair = [Command(tmp_path / f"{trial}-{each}") for each in range(4)]
        killed = await asyncio.gather(*(each.killed_after(moments.uniform(0, LONGEST)) for each in pair))
        kills += sum(killed)
        for command, code, out, err in await asyncio.gather(*(_resumed(each) for each in pair)):
            assert code == 3, f"seed {seed}: {err}"
            assert json.loads(out)["iterations"] == 15
            told = await command.story()
            assert told == expected, f"seed {seed}, trial {trial}"
            worked = Counter(event.path for _, event in told if isinstance(event, DraftCritiqued | DraftRefined))
            assert set(worked.values()) == {1}
    assert kills >= least


async def _resumed(command: Command) -> tuple[Command, int | None, str, str]:
    return command, *await command("run", "--resume", "last", "--workflow", WORKFLOW, "--json")
