"""The CPU time of processes of a deployment: `python benchmarks/processes.py --bus URL --store URL [--at-once 1,64]`.

The loop of `loop.py` on `redraft coordinator` and `redraft worker`, and the CPU time of a loop in each process: the
coordinator, the worker, the client, the broker and the database server. These two must run on this machine, which is
Linux, and nobody else may use them meanwhile: all that they do counts. Each row is measured `--repeat` times, and the
one of least CPU time is printed, as other work on a machine only adds to it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import msgspec
from loop import lane, workflow
from place import QUEUES, Parts, open_deployment

from redraft.app import Client
from redraft.app.process.lifecycle import run
from redraft.events.bus.port import PARTITIONS
from redraft.events.rabbit.topology import Kind

_LISTENS = "0A"
_PORTS = {"amqp": 5672, "amqps": 5671}
_TICKS = os.sysconf("SC_CLK_TCK")


class Figures(msgspec.Struct):
    """Measured with so many runs at once: loops a second, and the CPU time of a loop, in all processes and in each."""

    at_once: int
    loops_per_s: float
    cpu_ms_per_loop: float
    by_process: Mapping[str, float]


def listening(port: int) -> int:
    """Returns the process that listens on a port of this machine."""
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    sockets = {f"socket:[{line[9]}]" for line in lines if line[3] == _LISTENS and line[1].endswith(f":{port:04X}")}
    for process in sorted(int(each.name) for each in Path("/proc").glob("[0-9]*")):
        try:
            held = {str(each.readlink()) for each in Path(f"/proc/{process}/fd").iterdir()}
        except OSError:
            continue
        if held & sockets:
            return process
    raise SystemExit(f"no process that this user may look at listens on port {port} of this machine")


def cpu_seconds(process: int) -> float:
    """Returns the CPU time so far of a process and of those that it started."""
    by_parent: dict[int, list[tuple[int, int]]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number, ticks = int(stat.parent.name), sum(map(int, fields[11:15]))
        by_parent.setdefault(int(fields[1]), []).append((number, ticks))
        if number == process:
            by_parent.setdefault(-1, []).append((number, ticks))
    waiting, used = list(by_parent.get(-1, ())), 0
    while waiting:
        number, ticks = waiting.pop()
        used += ticks
        waiting += by_parent.get(number, ())
    return used / _TICKS


def processes(given: argparse.Namespace, parts: Parts) -> Mapping[str, int]:
    return {
        "coordinator": parts.coordinators[0].pid,
        "worker": parts.worker.pid,
        "broker": listening(urlsplit(given.bus).port or _PORTS[urlsplit(given.bus).scheme]),
        "database": listening(urlsplit(given.store).port or 5432),
    }


async def measure(client: Client, numbers: Mapping[str, int], loops: int, at_once: int) -> Figures:
    own, before = time.process_time(), {name: cpu_seconds(number) for name, number in numbers.items()}
    begun = time.perf_counter()
    await asyncio.gather(*(lane(client, loops // at_once) for _ in range(at_once)))
    taken = time.perf_counter() - begun
    used = {name: cpu_seconds(number) - before[name] for name, number in numbers.items()}
    used["client"] = time.process_time() - own
    done = loops // at_once * at_once
    by_process = {name: round(seconds * 1000 / done, 2) for name, seconds in used.items()}
    return Figures(at_once, round(done / taken, 1), round(sum(by_process.values()), 2), by_process)


async def measure_all(given: argparse.Namespace) -> list[Figures]:
    actors = list(workflow().actors.values())
    place = given.store, given.bus, Path(__file__).with_name("loop.py"), actors, given.queues
    best: list[Figures] = []
    async with open_deployment(*place, partitions=given.partitions) as (client, parts):
        numbers = processes(given, parts)
        await asyncio.gather(*(lane(client, 4) for _ in range(16)))
        for at_once in map(int, given.at_once.split(",")):
            rows = [await measure(client, numbers, max(given.loops, at_once), at_once) for _ in range(given.repeat)]
            best.append(min(rows, key=lambda row: row.cpu_ms_per_loop))
    return best


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--bus", required=True, help="amqp://...: a broker on this machine")
    options.add_argument("--store", required=True, help="postgresql://...: an empty database on this machine")
    options.add_argument("--loops", type=int, default=640, help="loops for each row (default 640)")
    options.add_argument("--repeat", type=int, default=3, help="how often each row is measured (default 3)")
    options.add_argument("--at-once", default="1,64", help="how many runs go at once, one row each (default 1,64)")
    options.add_argument("--partitions", type=int, default=PARTITIONS, help=f"of the inbox (default {PARTITIONS})")
    options.add_argument("--queues", choices=get_args(Kind), default=QUEUES, help="of the inbox (default classic)")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = options.parse_args()
    figures = run(measure_all(given))
    if given.json:
        print(json.dumps(msgspec.to_builtins(figures)))
        return
    names = list(figures[0].by_process)
    print("at once  loops/s  CPU ms a loop" + "".join(f"{name:>13}" for name in names))
    for each in figures:
        rest = "".join(f"{each.by_process[name]:>13.2f}" for name in names)
        print(f"{each.at_once:>7}{each.loops_per_s:>9.0f}{each.cpu_ms_per_loop:>15.2f}{rest}")


if __name__ == "__main__":
    main()
