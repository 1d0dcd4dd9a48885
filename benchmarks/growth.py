"""The growth of the cost of work: `python benchmarks/growth.py [--only recorded,iterations,critics,drafts] [--json]`.

CPU time of a step, of this process and all its threads, with everything on, on SQLite: in a log of 10, 1,000 and
100,000 recorded runs; in runs of 1, 10 and 100 iterations; in runs of panels of 1, 10 and 100 critics. Each is measured
several times, and the lowest counts, as other work on the machine only adds to it.

Then the MB of drafts that are recorded in a second, at 2 KB, 200 KB and 2 MB a draft and 8 runs at once, beside those
that a bare table takes in as large groups; with --bus amqp://... and --store postgresql://... on these servers, beside
the broker's too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Final, TypeAlias

import memory
from bare import commits, publishes
from loop import improve, save, workflow, write
from place import open_place
from stories import fill

from redraft.actors import Actor, Critique, Draft, Workflow, critic, parallel, score
from redraft.app import Client, read_settings
from redraft.app.process.lifecycle import run
from redraft.app.wiring.local import open_readonly
from redraft.events.backends import open_store

Figures: TypeAlias = dict[str, float]
"""Measurements, by size."""

HERE: Final = Path(__file__)
RECORDED: Final = (10, 1_000, 100_000)
COUNTS: Final = (1, 10, 100)
SIZES: Final = (2_048, 200 * 1024, 2 * 1024 * 1024)
STORY: Final = 31
"""The events of a recorded run, on average."""
STEPS: Final = 900
"""About how many steps are measured together: those of one run take too little CPU time."""
AT_ONCE: Final = 8
"""How many runs with large drafts go on at the same time."""
BYTES: Final = 32 * 1024 * 1024
"""The bytes of drafts that are recorded, at most, to measure how many there are in a second."""
MOST: Final = 50
"""How many runs with small drafts follow each other at most."""


async def by_recorded(folder: Path, repeat: int, recorded: Sequence[int]) -> Figures:
    """CPU milliseconds of a step, by how many runs the log has. The logs are kept, if the folder is."""
    plan = workflow()
    async with AsyncExitStack() as stack:
        clients = {}
        for runs in recorded:
            store = f"sqlite:///{folder / f'recorded-{runs}.db'}"
            async with open_store(store) as log:
                await fill(log, runs * STORY)
            async with open_readonly(read_settings(store=store)):
                pass  # its read models have caught up
            clients[runs] = await stack.enter_async_context(open_place(store, "", HERE, list(plan.actors.values())))
        return await steps_of({runs: (client, plan) for runs, client in clients.items()}, repeat)


async def by_plan(folder: Path, repeat: int, plans: dict[int, Workflow]) -> Figures:
    """CPU milliseconds of a step in runs of each of these plans."""
    actors = {actor.name: actor for plan in plans.values() for actor in plan.actors.values()}
    async with open_place(f"sqlite:///{folder / 'plans.db'}", "", HERE, list(actors.values())) as client:
        return await steps_of({size: (client, plan) for size, plan in plans.items()}, repeat)


async def steps_of(sizes: dict[int, tuple[Client, Workflow]], repeat: int) -> Figures:
    """CPU milliseconds of a step, one run after another; the sizes are measured in turn."""
    found: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(repeat + 1):
        for size, (client, plan) in sizes.items():
            begun, steps = time.process_time(), 0
            while steps < STEPS:
                steps += await steps_taken(client, plan, "Why tides exist")
            if turn:  # the first only warms up
                found[size].append((time.process_time() - begun) * 1000 / steps)
    return {str(size): min(taken) for size, taken in found.items()}


def panels() -> dict[int, Workflow]:
    """Workflows of four rounds of critics side by side, so that most steps are critiques."""

    async def say(draft: Draft) -> Critique:
        return Critique(0.5, suggestions=("say why the far side bulges too",))

    critics = [critic(name=f"judge_{number}")(say) for number in range(max(COUNTS))]
    return {size: panel(critics[:size]) for size in COUNTS}


def panel(critics: Sequence[Actor]) -> Workflow:
    judging = parallel("critics", *critics) if len(critics) > 1 else critics[0]
    plan = Workflow("panel").start_with(write)
    return plan.repeat_until(score >= 0.9, max_iterations=3, name="Refinement", body=[judging, improve]).finally_(save)


async def steps_taken(client: Client, plan: Workflow, brief: str) -> int:
    """How many steps a run of this brief took."""
    result = await client.wait(await client.submit(plan, brief))
    if result.outcome != "exhausted":
        raise SystemExit(f"a run went wrong: {result.outcome}: {result.reason}")
    return 2 + len(result.critiques) + len(result.attempts)


async def by_size(folder: Path, bus: str, store: str) -> dict[str, Figures]:
    """MB of drafts a second, by the bytes of a draft: recorded, and the limits of store and broker."""
    found: dict[str, Figures] = {"mb_per_s": {}, "limit_mb_per_s_store": {}}
    plan = workflow(memory.write)
    for size in SIZES:
        place = store or f"sqlite:///{folder}/{size}.db"
        async with open_place(place, bus, Path(memory.__file__), list(plan.actors.values())) as client:
            await steps_taken(client, plan, str(size))
            begun, runs = time.perf_counter(), min(MOST, max(1, BYTES // size // 4 // AT_ONCE))
            await asyncio.gather(*(lane(client, plan, size, runs) for _ in range(AT_ONCE)))
            found["mb_per_s"][str(size)] = size * 4 * runs * AT_ONCE / (time.perf_counter() - begun) / 1e6
        body = b"x" * size
        rows = await commits(store, AT_ONCE, body) if store else bare_rows(folder / f"bare{size}.db", body)
        found["limit_mb_per_s_store"][str(size)] = rows * size / 1e6
        if bus:
            found.setdefault("limit_mb_per_s_broker", {})[str(size)] = await publishes(bus, AT_ONCE, body) * size / 1e6
    return found


async def lane(client: Client, plan: Workflow, size: int, runs: int) -> None:
    for _ in range(runs):
        await steps_taken(client, plan, str(size))


def bare_rows(file: Path, body: bytes) -> float:
    """Rows of this content that a bare table takes in a second, committed in groups."""
    with closing(sqlite3.connect(file, isolation_level=None)) as table:
        table.execute("PRAGMA journal_mode=WAL")
        table.execute("PRAGMA synchronous=FULL")
        table.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, body BLOB)")
        groups = min(16 * MOST, max(1, BYTES // len(body) // AT_ONCE))
        begun = time.perf_counter()
        for _ in range(groups):
            table.execute("BEGIN")
            table.executemany("INSERT INTO log (body) VALUES (?)", [(body,)] * AT_ONCE)
            table.execute("COMMIT")
        return groups * AT_ONCE / (time.perf_counter() - begun)


def measure(folder: Path, given: argparse.Namespace) -> Iterator[tuple[str, Figures]]:
    """Yields each measurement with its name, as soon as it is there."""
    if "recorded" in given.only:
        logs = given.logs or folder
        yield "cpu_ms_per_step_by_recorded_runs", run(by_recorded(logs, given.repeat, given.recorded))
    if "iterations" in given.only:
        plans = {size: workflow(refinements=size) for size in COUNTS}
        yield "cpu_ms_per_step_by_iterations", run(by_plan(folder, given.repeat, plans))
    if "critics" in given.only:
        yield "cpu_ms_per_step_by_critics", run(by_plan(folder, given.repeat, panels()))
    if "drafts" in given.only:
        yield from run(by_size(folder, given.bus, given.store)).items()


def listed(text: str) -> list[str]:
    return text.split(",")


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    what = ["recorded", "iterations", "critics", "drafts"]
    options.add_argument("--only", type=listed, default=what, help=f"some of {','.join(what)} (default all)")
    options.add_argument("--recorded", type=lambda text: [int(each) for each in listed(text)], default=RECORDED)
    options.add_argument("--repeat", type=int, default=5, help="how often each is measured (default 5)")
    options.add_argument("--logs", type=Path, help="a folder for the logs of recorded runs, which are kept")
    options.add_argument("--bus", default="", help="amqp://...: drafts are sent over this broker, with --store")
    options.add_argument("--store", default="", help="postgresql://...: an empty database")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name, figures in measure(Path(folder), given):
            found[name] = figures
            if not given.json:
                print(f"{name:<36}" + "".join(f"{each:>10.3f} at {size:<8}" for size, each in figures.items()))
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
