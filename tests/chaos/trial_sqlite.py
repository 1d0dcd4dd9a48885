"""Several processes on one SQLite file: two batches of the same briefs, and a run that is steered all the time.

As it has been run (`docs/proof.md`): `python -m tests.chaos.trial_sqlite --briefs 500 --steered 25 --times 5`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.chaos.trials import PANEL, Found, examined, options, report
from tests.processes import plain, started, stop

from redraft.app.runs.steering import steer
from redraft.app.settings.settings import Settings, read_settings
from redraft.events.backends import open_store
from redraft.events.errors import InputError, NoSuchRun, StoreError
from redraft.events.messages.commands import GuideRun, SteeringMessage
from redraft.events.messages.envelope import Recorded

SPEAKERS = 4
"""How many speak in turn: a word takes longer than the time between two."""

PATIENCE = 60.0
"""Seconds beyond what the work takes, after which a run counts as stuck."""


async def batches(folder: Path, briefs: int, processes: int, workflow: str) -> Found:
    """The same batch by several processes at once: all of them work on every run."""
    begun = time.monotonic()
    folder.mkdir(parents=True)
    store = f"sqlite:///{folder / 'log.db'}"
    lines = [json.dumps({"id": f"b{number}", "text": f"brief {number}"}) for number in range(briefs)]
    (folder / "briefs.jsonl").write_text("\n".join(lines))
    order = ["run", "--batch", str(folder / "briefs.jsonl"), "-w", f"{PANEL}:{workflow}", "--store", store, "--quiet"]
    begun_all = [_started(folder, number, order) for number in range(processes)]
    codes = await _ended(begun_all, PATIENCE + briefs)
    return await examined(f"{processes} batches, {workflow}", store, briefs, begun, sum(code != 3 for code in codes))


async def steered(folder: Path, runs: int, every: float, workflow: str) -> Found:
    """Runs, one after the other, each given a word every so many seconds by another process than its own."""
    begun = time.monotonic()
    folder.mkdir(parents=True)
    settings = read_settings(store=f"sqlite:///{folder / 'log.db'}")
    early = 0
    for number in range(runs):
        order = ["run", f"brief {number}", "--text", "-w", f"{PANEL}:{workflow}", "--key", str(number)]
        process = _started(folder, number, [*order, "--store", settings.store, "--quiet"])
        talking = asyncio.create_task(_talk(settings, number, every))
        (code,) = await _ended([process], PATIENCE)
        early += code != 3
        talking.cancel()
        await asyncio.wait([talking])
    return await examined(f"a word every {every * 1000:g} ms, {workflow}", settings.store, runs, begun, early)


async def _talk(settings: Settings, number: int, every: float) -> None:
    """Guides the newest run for ever, as `redraft guide` does."""
    while not (run := await _newest(settings.store, number)):  # noqa: ASYNC110  another process begins it
        await asyncio.sleep(every)

    def word(_: Sequence[Recorded]) -> SteeringMessage:
        return GuideRun(run, "shorter", by="trial")

    async def speak() -> None:
        while True:
            with suppress(InputError, NoSuchRun, StoreError):  # it has ended, or its process was away
                await steer(settings, run, word)
            await asyncio.sleep(every * SPEAKERS)

    async with asyncio.TaskGroup() as group:
        for _ in range(SPEAKERS):
            group.create_task(speak())


async def _newest(store: str, number: int) -> str:
    """The run that was begun after so many others, once it is there."""
    try:
        async with open_store(store) as opened:
            begun = [event.run async for batch in opened.tail(0, follow=False) for event in batch if event.version == 1]
    except StoreError:
        return ""
    return begun[number] if len(begun) > number else ""


def _started(folder: Path, number: int, order: Sequence[str]) -> subprocess.Popen[bytes]:
    return started(*order, folder=folder, environment=plain(), log=folder / f"{number}.log")


async def _ended(processes: Sequence[subprocess.Popen[bytes]], within: float) -> list[int]:
    """The exit codes, once all have ended; those that have not in time are stopped."""
    end = time.monotonic() + within
    while any(process.poll() is None for process in processes) and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await asyncio.to_thread(stop, processes)
    return [process.wait() for process in processes]


async def trials(folder: Path, given: argparse.Namespace) -> list[Found]:
    found = []
    for turn in range(given.times):
        for workflow in given.workflows.split(","):
            place = folder / f"{turn}-{workflow}"
            if given.briefs:
                found.append(await batches(place / "batches", given.briefs, given.processes, workflow))
            if given.steered:
                found.append(
                    await steered(place / "steered", given.steered, given.every, workflow.replace("wait", "long"))
                )
    return found


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--briefs", type=int, default=40, help="briefs of each batch (default 40; 0: no batches)")
    parser.add_argument("--processes", type=int, default=2, help="batches at once (default 2)")
    parser.add_argument("--steered", type=int, default=5, help="runs that are steered (default 5; 0: none)")
    parser.add_argument("--every", type=float, default=0.01, help="seconds between two words (default 0.01)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return report(asyncio.run(trials((given.folder or Path(folder)).resolve(), given)), as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
