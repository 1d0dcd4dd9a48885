"""Looks for the first seed whose history shows each planted fault: `make faults`, or with `--most` fewer seeds.

With `--only` and a part of their names, it looks for some of them.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.app.testing.faults import Fault
from tests.app.testing.faults.every import EVERY

from redraft.app.testing.history import history


def first(fault: Fault, most: int) -> int | None:
    """The first seed that shows a fault."""
    with fault.planted():
        return next((seed for seed in range(most) if history(seed).wrong), None)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--most", type=int, default=500, help="seeds that are tried for each (default 500)")
    options.add_argument("--only", default="", help="a part of the names of those that are looked for")
    options.add_argument("--jobs", type=int, default=os.cpu_count(), help="in how many processes (default: all cores)")
    given = options.parse_args()
    wanted = [fault for fault in EVERY if given.only in fault.name]
    missed = 0
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for fault, seed in zip(wanted, pool.map(partial(first, most=given.most), wanted), strict=True):
            missed += seed is None
            print(f"{fault.name:50} {'not found' if seed is None else f'seed {seed}'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
