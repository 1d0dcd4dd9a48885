"""`python -m redraft.app.testing --seeds 0-2000`: makes histories, and prints each that goes wrong."""

from __future__ import annotations

import argparse
import os
import sys
import time

from redraft.app.testing.history import Setting, shortest
from redraft.app.testing.seeds import check_seeds

LAST = 12
"""How many events and faults of a failing history are shown, the last."""


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 when nothing went wrong, 1 when something did, 2 for invalid seeds."""
    options = argparse.ArgumentParser(prog="python -m redraft.app.testing", description="Makes histories from seeds.")
    options.add_argument(
        "--seeds", default="0-200", metavar="FIRST-LAST", help="which (default 0-200), or a single one"
    )
    options.add_argument("--jobs", type=int, default=0, metavar="N", help="in how many processes (default: all cores)")
    given = options.parse_args(arguments)
    first, _, last = given.seeds.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        print(f"--seeds {given.seeds}: give two numbers, as in 0-200, or one", file=sys.stderr)
        return 2
    began, wrong, events = time.monotonic(), 0, 0
    seeds = range(int(first), int(last or first) + 1)
    for checked in check_seeds(seeds, given.jobs or os.cpu_count() or 1):
        events += checked.events
        if checked.is_wrong:
            wrong += 1
            _print_failure(checked.seed)
    taken = time.monotonic() - began
    print(f"{len(seeds)} histories, {events} events, {wrong} wrong; {len(seeds) / max(taken, 1e-9):.1f} a second")
    return 1 if wrong else 0


def _print_failure(seed: int) -> None:
    """Prints what is wrong, with the fewest faults that cause it."""
    faults, fewest = shortest(seed, Setting())
    print(f"seed {seed}: replay it with python -m redraft.app.testing --seeds {seed}")
    print("\n".join(f"  wrong: {each}" for each in fewest.wrong))
    print(f"  it takes the first {faults} faults, the last of them:")
    print("\n".join(f"    {each}" for each in fewest.planted[-LAST:]))
    print("  and ends with:")
    print("\n".join(f"    {line}" for line in fewest.lines()[-LAST:]))


if __name__ == "__main__":
    sys.exit(main())
