"""`python -m redraft.app.testing --seeds 0-2000`: makes histories, and prints each that goes wrong."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from typing import Final, NoReturn

from redraft.app.testing.history import Setting, shortest
from redraft.app.testing.seeds import check_seeds
from redraft.events.errors import InputError

LAST = 12
"""How many events and faults of a failing history are shown, the last."""

PROGRAM: Final = "python -m redraft.app.testing"

_SEEDS: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


class _Options(argparse.ArgumentParser):
    """Options of which what is wrong is told in one line."""

    def error(self, message: str) -> NoReturn:
        """Raises InputError instead of printing how the program is called before the message."""
        raise InputError(f"{message}; see {PROGRAM} --help")


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 when nothing went wrong, 1 when something did, 2 for invalid options."""
    try:
        seeds, jobs = _read_options(arguments)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    began, wrong, events = time.monotonic(), 0, 0
    for checked in check_seeds(seeds, jobs):
        events += checked.events
        if checked.is_wrong:
            wrong += 1
            _print_failure(checked.seed)
    taken = time.monotonic() - began
    print(f"{len(seeds)} histories, {events} events, {wrong} wrong; {len(seeds) / max(taken, 1e-9):.1f} a second")
    return 1 if wrong else 0


def _read_options(arguments: list[str] | None) -> tuple[range, int]:
    """Returns the seeds, and the number of processes. Raises InputError."""
    options = _Options(prog=PROGRAM, description="Makes histories from seeds.")
    options.add_argument(
        "--seeds", default="0-200", metavar="FIRST-LAST", help="which (default 0-200), or a single one"
    )
    options.add_argument("--jobs", metavar="N", help="in how many processes, 1 to 9999 (default: all cores)")
    given = options.parse_args(arguments)
    found = _SEEDS.fullmatch(given.seeds)
    seeds = range(int(found[1]), int(found[2] or found[1]) + 1) if found else range(0)
    if not seeds:
        raise InputError(f"--seeds {given.seeds}: give two numbers, the smaller one first, as in 0-200, or one")
    if given.jobs is None:
        return seeds, os.cpu_count() or 1
    if not re.fullmatch("0*[1-9][0-9]{0,3}", given.jobs):
        raise InputError(f"--jobs {given.jobs}: give a number of processes, 1 to 9,999")
    return seeds, int(given.jobs)


def _print_failure(seed: int) -> None:
    """Prints what is wrong, with the fewest faults that cause it."""
    faults, fewest = shortest(seed, Setting())
    print(f"seed {seed}: replay it with {PROGRAM} --seeds {seed}")
    print("\n".join(f"  wrong: {each}" for each in fewest.wrong))
    print(f"  it takes the first {faults} faults, the last of them:")
    print("\n".join(f"    {each}" for each in fewest.planted[-LAST:]))
    print("  and ends with:")
    print("\n".join(f"    {line}" for line in fewest.lines()[-LAST:]))


if __name__ == "__main__":
    sys.exit(main())
