"""How much processor time commands take that people wait for: the median of several calls, each a process of its own.

    .venv/bin/python benchmarks/startup.py

It counts the user and system time of the child processes, which other programs on the machine change less than it
changes the time on the clock. `list` reads a store with a few runs. `--json` gives the figures as one line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

COMMANDS = (("--version",), ("--help",), ("run", "--help"), ("list",), ("show", "last"))
RUNS = 5


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=11, help="how often each command is called (11)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "REDRAFT_STORE": f"sqlite:///{Path(folder) / 'store.db'}"}
        for number in range(RUNS):
            call(("run", "--quiet", "--text", f"Text {number} is is short."), environment)
        figures = {" ".join(words): measure(words, environment, given.calls) for words in COMMANDS}
    if given.json:
        sys.stdout.write(json.dumps(figures) + "\n")
        return
    for command, (middle, most) in figures.items():
        sys.stdout.write(f"redraft {command:<12} {middle:.3f} s of processor time, at most {most:.3f} s\n")


def measure(words: Sequence[str], environment: dict[str, str], calls: int) -> tuple[float, float]:
    """Returns the median and the largest processor time of several calls, in seconds; one more before warms up."""
    call(words, environment)
    taken = [call(words, environment) for _ in range(calls)]
    return round(statistics.median(taken), 3), round(max(taken), 3)


def call(words: Sequence[str], environment: dict[str, str]) -> float:
    """Calls the command and returns the processor time that it took. Raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "redraft", *words]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    main()
