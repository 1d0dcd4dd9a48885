"""The cost of another condition: recorded runs of a workflow with criteria, decided again by `redraft whatif`.

    python benchmarks/whatif.py                    # 1,000 runs, recorded in a new folder, then decided again
    python benchmarks/whatif.py --runs 100 --json

No actor is asked when runs are decided again. The times are those of the whole command, its start included: by the
clock, and of the processor, which another load on the machine changes less.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, Final

from redraft.actors import Brief, Draft, Workflow, criterion, critic, generator, refiner
from redraft.app import Settings
from redraft.app.wiring.local import open_local

UNTIL: Final = "accuracy >= 8"
TOGETHER: Final = 50
"""How many runs are recorded at the same time."""


@generator
def write(brief: Brief) -> str:
    return brief.text


@critic(scale=(1, 10), criteria={"accuracy": "every claim is right", "tone": "for children"}, weights={"accuracy": 2})
def judge(draft: Draft) -> dict[str, object]:
    """Each refinement adds a point of accuracy, and takes one of tone now and then."""
    begun, refined = len(draft.text.split("!")[0]) % 3, draft.text.count("!")
    return {"criteria": {"accuracy": min(10, 5 + begun + refined), "tone": 9 - refined // 2}}


@refiner
def improve(draft: Draft) -> str:
    return f"{draft.text}!"


kids = (
    Workflow("kids")
    .start_with(write)
    .repeat_until((criterion.accuracy >= 10) & (criterion.tone >= 6), max_iterations=5, body=[judge, improve])
)


async def record(store: str, runs: int) -> None:
    """Records so many runs."""
    async with open_local(Settings(store=store), tuple(kids.actors.values())) as runtime:
        for first in range(0, runs, TOGETHER):
            briefs = (f"Rain {'x' * number}" for number in range(first, min(first + TOGETHER, runs)))
            begun = [await runtime.client.submit(kids, brief) for brief in briefs]
            await asyncio.gather(*(runtime.client.wait(run) for run in begun))


def decide_again(store: str) -> tuple[float, float, list[dict[str, Any]]]:
    """Returns how many seconds the command takes, by the clock and of the processor, and the rows that it prints."""
    command = (sys.executable, "-m", "redraft", "whatif", "--workflow", "kids", "--until", UNTIL, "--store", store)
    began = time.perf_counter()
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    used = getrusage(RUSAGE_CHILDREN)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, json.loads(done.stdout)["rows"]


def main(arguments: Sequence[str]) -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=1_000, help="how many runs are recorded (default: 1000)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'log.db'}"
        asyncio.run(record(store, given.runs))
        seconds, worked, rows = decide_again(store)
    if given.json:
        print(
            json.dumps({"runs": given.runs, "seconds": round(seconds, 2), "processor": round(worked, 2), "rows": rows})
        )
        return
    for row in rows:
        print(f"{row['policy']}: {row['runs']:,} runs, {row['mean_steps']:.1f} steps, {row['accepted']:.0%} accepted")
    print(f"{seconds:.1f} s, of which {worked:.1f} s of the processor: {worked / given.runs * 1_000:.1f} ms a run")


if __name__ == "__main__":
    main(sys.argv[1:])
