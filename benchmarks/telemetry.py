"""The cost of telemetry while it is off: `python benchmarks/telemetry.py [--pairs N] [--loops N]`.

Runs the loop benchmark in pairs, each in a process of its own: as it is, and with everything taken out that asks
whether somebody traces. Prints the CPU of a loop in both, pair by pair, the differences, and the
least of each, which other programs on the machine disturb least.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

LOOP = Path(__file__).with_name("loop.py")
TAKEN_OUT = f"""
import contextlib, runpy, sys
from redraft.app.telemetry import propagation, telemetry
telemetry.find_telemetry = lambda: None
propagation.current_traceparent = lambda: ""
propagation.client_span = lambda *_: contextlib.nullcontext()
sys.path.insert(0, {str(LOOP.parent)!r})
sys.argv[0] = {str(LOOP)!r}
runpy.run_path({str(LOOP)!r}, run_name="__main__")
"""


def cpu(program: list[str], loops: int) -> float:
    """Returns the milliseconds of CPU that a loop takes."""
    command = [sys.executable, *program, "--loops", str(loops), "--at-once", "1", "--json"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["cpu_ms_per_loop"]["1"])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=8)
    options.add_argument("--loops", type=int, default=300)
    given = options.parse_args()
    print(f"{'off':>8}{'taken out':>11}{'difference':>12}   ms of CPU for a loop")
    shares: list[float] = []
    least = [float("inf"), float("inf")]
    for number in range(given.pairs):
        programs = [[str(LOOP)], ["-c", TAKEN_OUT]]
        order = programs if number % 2 == 0 else programs[::-1]  # whoever is second finds a warmer machine
        found = {len(program): cpu(program, given.loops) for program in order}
        off, out = found[1], found[2]
        shares.append(off / out - 1)
        least = [min(least[0], off), min(least[1], out)]
        print(f"{off:>8.2f}{out:>11.2f}{shares[-1]:>12.1%}")
    print(f"the least of each: {least[0]:.2f} and {least[1]:.2f} ms, {least[0] / least[1] - 1:+.1%}")
    print(f"median difference {statistics.median(shares):+.1%}, from {min(shares):+.1%} to {max(shares):+.1%}")


if __name__ == "__main__":
    main()
