"""How much memory a coordinator takes with large drafts: `python benchmarks/memory.py --bus URL --store URL [--json]`.

Two loads, each on a deployment of its own: 30 runs of 9 drafts of 1 MB, and 50 runs whose drafts have 2 MiB, all
submitted at once. The peak is what the kernel says of the process (VmHWM), in MB of a million bytes; Linux alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from loop import improve, judge, save, workflow
from place import open_deployment

from redraft.actors import generator
from redraft.app.process.lifecycle import run
from redraft.events.messages.content import Brief

LINE = "Tides exist because gravity weakens with distance.\n"
SIZES = {"30 runs of 9 drafts of 1 MB": (30, 8, 1_000_000), "50 runs with drafts of 2 MiB": (50, 1, 2 * 1024 * 1024)}
"""What is measured: how many runs, refinements in each, and bytes of a draft."""


@generator
async def write(brief: Brief) -> str:
    return (LINE * (int(brief.text) // len(LINE) + 1))[: int(brief.text)]


async def peaks(store: str, bus: str, runs: int, refinements: int, size: int) -> dict[str, float]:
    """The peak memory of coordinator and worker, in MB, after so many runs at once."""
    plan = workflow(write, refinements)
    async with open_deployment(store, bus, Path(__file__), [write, judge, improve, save]) as (client, parts):
        submitted = [await client.submit(plan, str(size)) for _ in range(runs)]
        for each in submitted:
            result = await client.wait(each)
            if result.outcome != "exhausted" or len(result.attempts) != refinements:
                raise SystemExit(f"a run went wrong: {result.outcome}: {result.reason}")
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
    options.add_argument("--json", action="store_true")
    asked = options.parse_args(given)
    found = {name: run(peaks(asked.store, asked.bus, *load)) for name, load in SIZES.items()}
    if asked.json:
        print(json.dumps(found))
        return
    for name, parts in found.items():
        print(f"{name}: " + ", ".join(f"{part} {peak:.0f} MB" for part, peak in parts.items()))


if __name__ == "__main__":
    main()
