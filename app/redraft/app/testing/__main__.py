"""`python -m redraft.app.testing --seeds 0-2000`: makes histories, and tells of each that goes wrong."""

from __future__ import annotations

import argparse
import os
import sys
import time

from redraft.app.testing.batch import outcomes
from redraft.app.testing.history import Setting, shortest

LAST = 12
"""How many events and faults of a history that goes wrong are shown, the last."""


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 when nothing went wrong, 1 when something did, 2 for seeds that are none."""
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
    for made in outcomes(seeds, given.jobs or os.cpu_count() or 1):
        events += made.events
        if made.is_wrong:
            wrong += 1
            _tell(made.seed)
    taken = time.monotonic() - began
    print(f"{len(seeds)} histories, {events} events, {wrong} wrong; {len(seeds) / max(taken, 1e-9):.1f} a second")
    return 1 if wrong else 0


def _tell(seed: int) -> None:
    """Prints what is wrong, by the fewest faults that bring it about."""
    most, told = shortest(seed, Setting())
    print(f"seed {seed}: replay it with python -m redraft.app.testing --seeds {seed}")
    print("\n".join(f"  wrong: {each}" for each in told.wrong))
    print(f"  it takes the first {most} faults, the last of them:")
    print("\n".join(f"    {each}" for each in told.planted[-LAST:]))
    print("  and ends with:")
    print("\n".join(f"    {line}" for line in told.lines()[-LAST:]))


if __name__ == "__main__":
    sys.exit(main())
