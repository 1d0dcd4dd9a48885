"""Looks for the first seed whose history shows each planted fault: `make faults`, or with `--most` fewer seeds."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.faults import Fault
from tests.simulation.faults.every import EVERY

from redraft.app.testing.history import history


def first(fault: Fault, most: int) -> int | None:
    """The first seed that shows a fault."""
    with fault.planted():
        return next((seed for seed in range(most) if history(seed).wrong), None)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--most", type=int, default=500, help="seeds that are tried for each (default 500)")
    most = options.parse_args().most
    missed = 0
    for fault in EVERY:
        seed = first(fault, most)
        missed += seed is None
        print(f"{fault.name:50} {'not found' if seed is None else f'seed {seed}'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
