"""How well coordinators divide the runs: `python benchmarks/coordinators.py --bus URL --store URL [--partitions 0]`.

For each number of coordinators: how often two met on a run, and the CPU time of a loop (that of `loop.py`), in all
processes of Redraft. Two meet in a conflict, when the log refuses a decision because another coordinator had worked on
the run, and where one has to read a run from the log because of that. `--partitions 0`
leaves the inbox whole: then every coordinator takes from it what comes next. `--takeover` kills one of two coordinators
instead, and prints after how many seconds the other has all partitions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec
from loop import lane, workflow
from place import QUEUES, Parts, open_deployment

from redraft.app.process.lifecycle import run
from redraft.events.backends import open_shares
from redraft.events.bus.port import PARTITIONS
from redraft.events.rabbit.topology import Kind


class Figures(msgspec.Struct):
    """Measured with so many coordinators: conflicts and reads of all loops, loops a second, and CPU time of a loop.

    `by_coordinator` is that part of it that each coordinator takes, the most, which the one that relays takes, first.
    """

    coordinators: int
    conflicts: int
    reads: int
    loops_per_s: float
    cpu_ms_per_loop: float
    by_coordinator: Sequence[float]


def cpu_seconds(process: int) -> float:
    """Returns the CPU time of a process so far (on Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sum_of(what: str, parts: Parts) -> int:
    """Returns the sum of what coordinators logged under this name when they ended."""
    counted = [int(each) for text in parts.said for each in re.findall(rf'"{what}": ?(\d+)', text)]
    if len(counted) != len(parts.coordinators):
        raise SystemExit(f"of {len(parts.coordinators)} coordinators {len(counted)} said how many {what} they had")
    return sum(counted)


async def measure(given: argparse.Namespace, coordinators: int) -> Figures:
    actors = list(workflow().actors.values())
    place = given.store, given.bus, Path(__file__).with_name("loop.py"), actors, given.queues
    async with open_deployment(*place, coordinators, given.partitions) as (client, parts):
        await asyncio.gather(*(lane(client, 1) for _ in range(16)))
        processes = [*(each.pid for each in parts.coordinators), parts.worker.pid, os.getpid()]
        before, begun = [cpu_seconds(each) for each in processes], time.perf_counter()
        loops = max(1, given.runs // given.at_once)
        await asyncio.gather(*(lane(client, loops) for _ in range(given.at_once)))
        taken = time.perf_counter() - begun
        worked = [cpu_seconds(each) - earlier for each, earlier in zip(processes, before, strict=True)]
    done = loops * given.at_once
    met = sum_of("conflicts", parts), sum_of("loads", parts)
    each_ms = [round(seconds * 1000 / done, 2) for seconds in worked]
    most_first = sorted(each_ms[:coordinators], reverse=True)
    return Figures(coordinators, *met, round(done / taken, 1), round(sum(each_ms), 2), most_first)


async def takeover(given: argparse.Namespace) -> float:
    """Returns the seconds from the death of one of two coordinators until the other holds every partition."""
    actors = list(workflow().actors.values())
    place = given.store, given.bus, Path(__file__).with_name("loop.py"), actors, given.queues
    async with (
        open_deployment(*place, 2, given.partitions, watched=False) as (client, parts),
        open_shares(given.store) as shares,
    ):
        await lane(client, 1)
        parts.coordinators[0].send_signal(signal.SIGKILL)
        begun = time.perf_counter()
        left = f"process {parts.coordinators[1].pid} "
        while not all(each.holder.startswith(left) for each in await shares.all()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        held = time.perf_counter() - begun
        await asyncio.gather(*(lane(client, 1) for _ in range(32)))
        return held


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--bus", required=True, help="amqp://...: the broker")
    options.add_argument("--store", required=True, help="postgresql://...: an empty database")
    options.add_argument("--coordinators", default="1,2,4", help="how many there are, one row each (default 1,2,4)")
    options.add_argument("--runs", type=int, default=1000, help="loops for each row (default 1000)")
    options.add_argument("--at-once", type=int, default=256, help="how many runs go at once (default 256)")
    options.add_argument("--partitions", type=int, default=PARTITIONS, help=f"of the inbox (default {PARTITIONS})")
    options.add_argument("--queues", choices=get_args(Kind), default=QUEUES, help="of the inbox (default classic)")
    options.add_argument("--takeover", action="store_true", help="measure how soon a dead one's share is taken over")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = options.parse_args()
    if given.takeover:
        print(f"{run(takeover(given)):.1f} s until the other coordinator held every partition")
        return
    figures = [run(measure(given, int(each))) for each in given.coordinators.split(",")]
    if given.json:
        print(json.dumps(msgspec.to_builtins(figures)))
        return
    print("coordinators  conflicts  reads  loops/s  CPU ms a loop  of it in each, the one that relays first")
    for each in figures:
        met = f"{each.conflicts:>11}{each.reads:>7}"
        shares = "  ".join(f"{share:.2f}" for share in each.by_coordinator)
        print(f"{each.coordinators:>12}{met}{each.loops_per_s:>9.0f}{each.cpu_ms_per_loop:>15.2f}  {shares}")


if __name__ == "__main__":
    main()
