"""`redraft run` on SQLite: killed at every stage of its life and resumed, two processes on one file, a full disk."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final

from tests.chaos.campaign import workflow
from tests.chaos.campaign.deployment import Skipped
from tests.chaos.campaign.parts import Outcome
from tests.chaos.campaign.people import Said
from tests.chaos.campaign.scene import delivered, of_log, rows_of, worked
from tests.chaos.campaign.servers import full, mount, unmount
from tests.chaos.campaign.verdict import Evidence, Verdict, judge
from tests.processes import plain, started

from redraft.events.backends import open_store
from redraft.events.errors import NoSuchRun, StoreError

WORKFLOWS: Final = ("all_of", "two_of")
ENDS: Final = 120.0
"""Seconds in which a process that nobody kills has to end."""

START: Final = 3.0
"""Seconds in which a process has begun to work, about."""

FURTHER: Final = 15
"""Events that a run comes further at most before it is killed again."""

KILLED: Final = -9
STUCK: Final = 137

AT_A_TIME: Final = 12
"""Kills for each pair of processes, so that a batch is not over before."""

BRIEFS: Final = 60
SMALL: Final = 32
"""MiB of the disk that is to be full: log and read models of all briefs fit, with their write-ahead logs."""


class House:
    """A folder with a SQLite file and the workflow; `redraft` processes work in it."""

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        self.folder = folder
        self.file = file or folder / "log.db"
        self.store = f"sqlite:///{self.file}"
        shutil.copy(workflow.__file__, folder / "workflow.py")
        self._environment = plain(REDRAFT_STORE=self.store)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A `redraft` process; what it says goes into the folder's log."""
        log = self.folder / "said.log"
        return started(*arguments, "--quiet", folder=self.folder, environment=self._environment, log=log)

    def batch(self, briefs: int, workflow: str) -> tuple[str, ...]:
        """What is to be started for so many briefs."""
        lines = [json.dumps({"id": f"b{number}", "text": f"brief {number}"}) for number in range(briefs)]
        (self.folder / "briefs.jsonl").write_text("\n".join(lines))
        return ("run", "--batch", "briefs.jsonl", "-w", f"workflow.py:{workflow}", "--concurrency", "4")

    def length(self, run: str) -> int:
        """How many events of a run are recorded by now."""
        try:
            with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True)) as log:
                asked = "SELECT count(*) FROM stored_events WHERE originator_id = ?"
                return int(log.execute(asked, (run,)).fetchone()[0])
        except sqlite3.OperationalError:  # it is not made yet, or held by somebody
            return 0

    async def last(self, run: str) -> str:
        """What was recorded last of a run: the name of the event; empty when nothing was."""
        if not self.file.exists():
            return ""
        try:
            async with await asyncio.to_thread(open_store, self.store) as store:
                rows = await store.raw(run)
        except (NoSuchRun, StoreError):
            return ""
        return rows[-1][1]

    async def evidence(self, runs: Iterable[str]) -> Evidence:
        """What is left, of these runs that were to be there."""
        async with await asyncio.to_thread(open_store, self.store) as store:
            log = await rows_of(store)
            beside = await of_log(store)
        said, now = Said(), datetime.now(UTC)
        said.runs = dict.fromkeys(runs, now)
        return Evidence(log, said, delivered(self.folder), now, worked(self.folder), tuple(beside))

    async def judged(self, faults: Mapping[str, int], briefs: int, notes: Counter[str]) -> Outcome:
        """What came of a batch of so many briefs."""
        evidence = await self.evidence(())
        if len(evidence.log) != briefs:
            notes[f"{len(evidence.log)} runs of {briefs} briefs"] += 1
        return Outcome(faults, judge(evidence), notes)


def run_of(key: str) -> str:
    """The id of the run that is begun with a key."""
    return f"k{sha256(key.encode()).hexdigest()[:25]}"


async def play_kills(scale: float, seed: int, folder: Path) -> Outcome:
    """Each run is killed again and again, at points spread over its life, and resumed until it ends."""
    house, chance = House(folder), Random(seed)
    stages: Counter[str] = Counter()
    runs: list[str] = []
    kills, wanted = 0, max(1, math.ceil(300 * scale))
    while kills < wanted:
        key = f"k{len(runs)}"
        runs.append(run_of(key))
        kills += await _through(house, key, chance, stages, wanted - kills)
    return Outcome({"redraft run killed": kills}, judge(await house.evidence(runs)), stages)


async def _through(house: House, key: str, chance: Random, stages: Counter[str], most: int) -> int:
    """One run, until it has ended; returns how often it was killed meanwhile. `stages` says where it had come to."""
    run, killed = run_of(key), 0
    begins = ("run", f"brief {key}", "--text", "-w", f"workflow.py:{chance.choice(WORKFLOWS)}", "--key", key)
    resumes = ("run", "--resume", run, "--actors", "workflow.py")
    while True:
        there = house.length(run)
        process = house.start(*(resumes if there else begins))
        if killed == most or not await _comes_to(house, run, process, there, chance):
            code = await _ended(process, None)
            if code not in (0, 3):
                stages[f"ended with {code}"] += 1
            return killed
        await _ended(process, 0.0)
        killed += 1
        stages[f"at {await house.last(run) or 'nothing'}"] += 1


async def _comes_to(house: House, run: str, process: subprocess.Popen[bytes], there: int, chance: Random) -> bool:
    """Waits until a run has come to a length that is drawn, or, in one of five cases, for a moment of its start.

    Returns whether its process is still there.
    """
    if chance.random() < 0.2:
        await asyncio.sleep(chance.uniform(0, START))
        return process.poll() is None
    length = chance.randint(there + 1, there + FURTHER)
    while process.poll() is None and house.length(run) < length:  # noqa: ASYNC110  another process moves on
        await asyncio.sleep(0.002)
    await asyncio.sleep(chance.uniform(0, 0.05))
    return process.poll() is None


async def _ended(process: subprocess.Popen[bytes], kill_after: float | None) -> int:
    """The exit code: `KILLED` where it was killed before it ended, `STUCK` where nobody wanted that."""
    try:
        return await asyncio.to_thread(process.wait, ENDS if kill_after is None else kill_after)
    except subprocess.TimeoutExpired:
        process.kill()
        await asyncio.to_thread(process.wait)
        return STUCK if kill_after is None else KILLED


async def play_pairs(scale: float, seed: int, folder: Path) -> Outcome:
    """Two processes work on the same batch in one file; one after the other is killed, and started again."""
    left, rounds, outcome = max(1, math.ceil(100 * scale)), 0, None
    while left:
        kills = min(left, AT_A_TIME)
        left -= kills
        place = folder / f"pair-{rounds}"
        place.mkdir()
        rounds += 1
        found = await _pair(House(place), kills, Random(seed * 1000 + rounds))
        outcome = found if outcome is None else _added(outcome, found)
    assert outcome is not None
    return outcome


async def _pair(house: House, kills: int, chance: Random) -> Outcome:
    order = house.batch(BRIEFS, chance.choice(WORKFLOWS))
    both = [house.start(*order) for _ in range(2)]
    killed = 0
    notes: Counter[str] = Counter()
    while killed < kills and any(process.poll() is None for process in both):
        await asyncio.sleep(chance.uniform(0.3, 3.0))
        victim = chance.randrange(2)
        if both[victim].poll() is None:
            both[victim].kill()
            both[victim].wait()
            killed += 1
        both[victim] = house.start(*order)
    for process in both:
        code = await _ended(process, None)
        if code not in (0, 3):
            notes[f"ended with {code}"] += 1
    return await house.judged({"one of two killed": killed}, BRIEFS, notes)


async def play_disk(scale: float, seed: int, folder: Path) -> Outcome:
    """The disk fills while a batch goes on; with space again the same command goes on. Raises Skipped."""
    chance, times = Random(seed), max(1, math.ceil(5 * scale))
    disk = folder / "disk"
    disk.mkdir()
    try:
        mount(disk, SMALL)
    except OSError as error:
        raise Skipped(str(error)) from None
    notes: Counter[str] = Counter()
    try:
        house = House(folder, disk / "log.db")
        order = house.batch(10 * times, "all_of")
        for _ in range(times):
            process = house.start(*order)
            await asyncio.sleep(chance.uniform(2.0, 4.0))
            await _filled(disk, notes, process)
            process.kill()
            process.wait()
        notes[f"ended with {await _ended(house.start(*order), None)}"] += 1
        return await house.judged({"SQLite's disk full": times}, 10 * times, notes)
    finally:
        unmount(disk)


async def _filled(disk: Path, notes: Counter[str], process: subprocess.Popen[bytes]) -> None:
    with full(disk):
        await asyncio.sleep(5)
        code = process.poll()
        notes["went on waiting" if code is None else f"ended with {code} on the full disk"] += 1


def _added(one: Outcome, other: Outcome) -> Outcome:
    """Both together."""
    kinds = {*one.verdict.faults, *other.verdict.faults}
    faults = {kind: (*one.verdict.faults.get(kind, ()), *other.verdict.faults.get(kind, ())) for kind in kinds}
    counts = dict(Counter(one.verdict.counts) + Counter(other.verdict.counts))
    return Outcome(
        dict(Counter(one.faults) + Counter(other.faults)),
        Verdict(faults, counts),
        Counter(one.notes) + Counter(other.notes),
    )
