"""How fast the bare loop is: `python benchmarks/loop.py [--loops N] [--at-once 1,64] [--bus URL --store URL] [--json]`.

One loop is: generate, 3 x (critique, refine), a closing critique, publish; drafts of 2 KB; trivial actors; every step
durable before the next, on SQLite with synchronous=FULL; every event, the hash chain, relay and read models on.

Beside it stands the machine's own limit, measured in the same run: the same loop written by hand, each step one row of
as many bytes in a bare SQLite table, committed one by one, and for many at once one commit for a step of all of them.

With --bus amqp://... and --store postgresql://... it runs on these servers, coordinator and worker each a process of
its own, up to 16 requests for one actor in a message, with a classic inbox (--queues quorum for the other kind), and
prints what each server does alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import get_args

import msgspec
from bare import Rates, rates
from place import QUEUES, open_place

from redraft.actors import Actor, Critique, Draft, Receipt, Workflow, critic, generator, publisher, refiner, score
from redraft.app import Client
from redraft.app.process.lifecycle import run
from redraft.events.messages.content import new_draft
from redraft.events.messages.domain_events import DraftCritiqued, DraftGenerated, DraftPublished, DraftRefined
from redraft.events.rabbit.topology import Kind

STEPS = 9
LIMIT_LOOPS = {False: 500, True: 6400}
"""How many loops the limit is measured over at least, one at a time and many at once: about a second of each."""

TEXT = ("Tides exist because gravity weakens with distance. " * 41)[:2048]


@generator
async def write() -> str:
    return TEXT


@critic
async def judge(draft: Draft) -> Critique:
    return Critique(0.5, suggestions=("say why the far side bulges too",))


@refiner
async def improve(draft: Draft) -> str:
    return draft.text[1:] + draft.text[0]


@publisher
async def save(draft: Draft) -> Receipt:
    return Receipt("nowhere")


def workflow(write: Actor = write, refinements: int = 3) -> Workflow:
    loop = Workflow("loop").start_with(write)
    loop = loop.repeat_until(score >= 0.9, max_iterations=refinements, name="Refinement", body=[judge, improve])
    return loop.finally_(save)


class Figures(msgspec.Struct):
    """Measured: whole loops a second, their latency, CPU time of a loop, and the machine's own limit in loops a second.

    Times are in milliseconds. The CPU time is that of Redraft's processes, their start among it, and of no server.
    """

    loops_per_s: float
    cpu_ms_per_loop: float
    p50_ms: float
    p99_ms: float
    limit_loops_per_s: float
    bytes_per_loop: int


async def redraft(store: str, bus: str, queues: Kind, loops: int, at_once: int) -> tuple[float, list[float], list[int]]:
    """Seconds for all loops, seconds for each, and the bytes that each step of a loop wrote."""
    async with open_place(store, bus, Path(__file__), list(workflow().actors.values()), queues) as client:
        await lane(client, 3)
        begun = time.perf_counter()
        lanes = await asyncio.gather(*(lane(client, loops // at_once) for _ in range(at_once)))
        taken = time.perf_counter() - begun
        written = await bytes_of_a_loop(client)
    return taken, [each for done in lanes for each in done], written


async def lane(client: Client, loops: int) -> list[float]:
    taken = []
    plan = workflow().plan
    for _ in range(loops):
        begun = time.perf_counter()
        result = await client.wait(await client.submit(plan, "Why tides exist"))
        taken.append(time.perf_counter() - begun)
        if result.outcome != "exhausted" or len(result.critiques) != 4 or len(result.attempts) != 3:
            raise SystemExit(f"a loop went wrong: {result.outcome}: {result.reason}")
    return taken


async def bytes_of_a_loop(client: Client) -> list[int]:
    run = await client.submit(workflow(), "Why tides exist")
    await client.wait(run)
    sizes = [0]
    for event in await client.history(run):
        if isinstance(event.data, DraftGenerated | DraftCritiqued | DraftRefined | DraftPublished):
            sizes.append(0)
        sizes[-1] += len(msgspec.json.encode(event))
    return [sizes[0] + sizes[1], *sizes[2:]]


async def by_hand(folder: Path, loops: int, at_once: int, sizes: Sequence[int]) -> float:
    """Loops a second of the same steps on a bare table: call the function, encode the row, write it, commit."""
    if len(sizes) != STEPS:
        raise SystemExit(f"a loop has {STEPS} steps, but {len(sizes)} were found")
    with closing(sqlite3.connect(folder / "hand.db", isolation_level=None)) as table:
        table.execute("PRAGMA journal_mode=WAL")
        table.execute("PRAGMA synchronous=FULL")
        table.execute("CREATE TABLE log (run INTEGER, step INTEGER, body BLOB, PRIMARY KEY (run, step))")
        begun = time.perf_counter()
        for first in range(0, loops, at_once):
            drafts: dict[int, Draft] = {}
            for step, size in enumerate(sizes):
                rows = [(run, step, await row(drafts, run, step, size)) for run in range(first, first + at_once)]
                table.execute("BEGIN")
                table.executemany("INSERT INTO log VALUES (?, ?, ?)", rows)
                table.execute("COMMIT")
        return loops / (time.perf_counter() - begun)


async def row(drafts: dict[int, Draft], run: int, step: int, size: int) -> bytes:
    """One step done by hand; its row has as many bytes as Redraft's events of that step, a draft's hash among them."""
    said: Draft | Critique | Receipt
    if step == 0:
        said = drafts[run] = new_draft(1, await write.function())
    elif step == STEPS - 1:
        said = await save.function(drafts[run])
    elif step % 2:
        said = await judge.function(drafts[run])
    else:
        said = drafts[run] = new_draft(drafts[run].version + 1, await improve.function(drafts[run]))
    return msgspec.json.encode({"run": run, "step": step, "said": said}).ljust(size)


def cpu_seconds() -> float:
    """Of this process, and of those that it started and that have ended."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(folder: Path, store: str, bus: str, queues: Kind, loops: int, at_once: int) -> Figures:
    folder.mkdir()
    loops = max(1, loops // at_once) * at_once
    before = cpu_seconds()
    taken, each, sizes = run(redraft(store or f"sqlite:///{folder / 'log.db'}", bus, queues, loops, at_once))
    worked = cpu_seconds() - before
    stored = sum(path.stat().st_size for path in folder.iterdir())
    cuts = statistics.quantiles(each, n=100) if len(each) > 1 else each * 100
    return Figures(
        loops / taken,
        worked * 1000 / (loops + 4),
        cuts[49] * 1000,
        cuts[98] * 1000,
        run(by_hand(folder, max(loops, LIMIT_LOOPS[at_once > 1] // at_once * at_once), at_once, sizes)),
        stored // (loops + 4),
    )


def report(figures: dict[int, Figures], peak_mb: float, bare: Rates | None, *, as_json: bool) -> None:
    if as_json:
        document: dict[str, object] = {
            "loops_per_s": {str(n): round(each.loops_per_s, 1) for n, each in figures.items()},
            "cpu_ms_per_loop": {str(n): round(each.cpu_ms_per_loop, 3) for n, each in figures.items()},
            "limit_loops_per_s": {str(n): round(each.limit_loops_per_s, 1) for n, each in figures.items()},
            "p50_ms": {str(n): round(each.p50_ms, 2) for n, each in figures.items()},
            "p99_ms": {str(n): round(each.p99_ms, 2) for n, each in figures.items()},
            "bytes_per_loop": max(each.bytes_per_loop for each in figures.values()),
            "peak_rss_mb": round(peak_mb, 1),
        }
        if bare is not None:
            document["bare"] = msgspec.to_builtins(bare)
        print(json.dumps(document))
        return
    names = ("at once", "loops/s", "steps/s", "CPU ms", "p50 ms", "p99 ms", "limit", "of limit")
    print("".join(f"{name:>10}" for name in names))
    for at_once, each in figures.items():
        print(
            f"{at_once:>10}{each.loops_per_s:>10.0f}{each.loops_per_s * STEPS:>10.0f}{each.cpu_ms_per_loop:>10.2f}"
            f"{each.p50_ms:>10.2f}{each.p99_ms:>10.2f}{each.limit_loops_per_s:>10.0f}"
            f"{each.loops_per_s / each.limit_loops_per_s:>10.0%}"
        )
    largest = max(each.bytes_per_loop for each in figures.values())
    disk = f"{largest:,} bytes on disk a loop, read models included; " if largest else ""
    print(f"{disk}peak memory of a process {peak_mb:.0f} MB")
    if bare is not None:
        print(
            f"RabbitMQ alone: {bare.publishes_per_s:,.0f} confirmed publishes/s one by one, "
            f"{bare.publishes_128_per_s:,.0f} with 128 in flight; PostgreSQL alone: "
            f"{bare.commits_per_s:,.0f} commits/s of one row, {bare.rows_grouped_64_per_s:,.0f} rows/s grouped by 64"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--loops", type=int, default=1000, help="loops for each row (default 1000)")
    options.add_argument("--at-once", default="1,64", help="how many runs go at once, one row each (default 1,64)")
    options.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    options.add_argument("--store", default="", help="postgresql://...: an empty database, with --bus")
    options.add_argument("--bus", default="", help="amqp://...: coordinator and worker as processes on this broker")
    options.add_argument("--queues", choices=get_args(Kind), default=QUEUES, help="of the inbox (default classic)")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        figures = {
            int(n): measure(Path(folder) / n, given.store, given.bus, given.queues, given.loops, int(n))
            for n in given.at_once.split(",")
        }
    bare = run(rates(given.bus, given.store)) if given.bus and given.store else None
    largest = max(resource.getrusage(whose).ru_maxrss for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    peak = largest / (1024 * 1024 if sys.platform == "darwin" else 1024)
    report(figures, peak, bare, as_json=given.json)


if __name__ == "__main__":
    main()
