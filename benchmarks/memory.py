"""How much memory a coordinator takes: `python benchmarks/memory.py --bus URL --store URL [--open-runs N] [--json]`.

Two loads of large drafts, each on a deployment of its own: 30 runs of 9 drafts of 1 MB, and 50 runs whose drafts have
2 MiB, all submitted at once; and 10,000 runs that wait for their critic, with a draft of 2 KB each. The peak is what
the kernel says of the process (VmHWM), in MB of a million bytes; Linux alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from loop import improve, judge, save, workflow
from place import Parts, open_deployment

from redraft.actors import Critique, Draft, Workflow, critic, generator
from redraft.app.process.lifecycle import run
from redraft.events.messages.content import Brief

LINE = "Tides exist because gravity weakens with distance.\n"
SIZES = {"30 runs of 9 drafts of 1 MB": (30, 8, 1_000_000), "50 runs with drafts of 2 MiB": (50, 1, 2 * 1024 * 1024)}
"""A load: the number of runs, refinements in each, and bytes of a draft."""

OPEN_RUNS = 10_000
UNTIL_CRITIC = 5
"""The events of a run until it waits for its critic: its start, a request and its draft, an iteration, a request."""


@generator
async def write(brief: Brief) -> str:
    return (LINE * (int(brief.text) // len(LINE) + 1))[: int(brief.text)]


@critic
async def ponder(draft: Draft) -> Critique:
    """Never answers."""
    never: asyncio.Future[Critique] = asyncio.get_running_loop().create_future()
    return await never


async def open_peaks(store: str, bus: str, runs: int) -> dict[str, float]:
    """The peak memory of coordinator and worker, in MB, once so many runs wait for their critic."""
    plan = Workflow("open").start_with(write)
    plan = plan.repeat_until("score >= 0.9", max_iterations=3, name="Refinement", body=[ponder, improve])
    async with open_deployment(store, bus, Path(__file__), [write, ponder, improve]) as (client, parts):
        submitted = [await client.submit(plan, "2048") for _ in range(runs)]
        await client.wait(submitted[-1], "draft.generated")  # all have begun, as a coordinator takes them in order
        for each in submitted:
            while len(await client.history(each)) < UNTIL_CRITIC:  # noqa: ASYNC110 - another process records
                await asyncio.sleep(0.1)
        return peaks_of(parts)


async def peaks(store: str, bus: str, runs: int, refinements: int, size: int) -> dict[str, float]:
    """The peak memory of coordinator and worker, in MB, after so many runs at once."""
    plan = workflow(write, refinements)
    async with open_deployment(store, bus, Path(__file__), [write, judge, improve, save]) as (client, parts):
        submitted = [await client.submit(plan, str(size)) for _ in range(runs)]
        for each in submitted:
            result = await client.wait(each)
            if result.outcome != "exhausted" or len(result.attempts) != refinements:
                raise SystemExit(f"a run went wrong: {result.outcome}: {result.reason}")
        return peaks_of(parts)


def peaks_of(parts: Parts) -> dict[str, float]:
    """The peak memory of a deployment's processes so far, in MB."""
    (coordinator,) = parts.coordinators
    return {"coordinator": peak_of(coordinator.pid), "worker": peak_of(parts.worker.pid)}


def peak_of(process: int) -> float:
    """The most memory that a process of this machine ever had, in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (each for each in status.splitlines() if each.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1_000_000


def main(given: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--bus", required=True, help="amqp://…")
    options.add_argument("--store", required=True, help="postgresql://…, of an empty database")
    options.add_argument("--open-runs", type=int, default=0, metavar="N", help="only N runs that wait for their critic")
    options.add_argument("--json", action="store_true")
    asked = options.parse_args(given)
    loads = {} if asked.open_runs else SIZES
    found = {name: run(peaks(asked.store, asked.bus, *load)) for name, load in loads.items()}
    number = asked.open_runs or OPEN_RUNS
    found[f"{number:,} open runs"] = run(open_peaks(asked.store, asked.bus, number))
    if asked.json:
        print(json.dumps(found))
        return
    for name, parts in found.items():
        print(f"{name}: " + ", ".join(f"{part} {peak:.0f} MB" for part, peak in parts.items()))


if __name__ == "__main__":
    main()
