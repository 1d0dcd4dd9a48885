"""Whether a change costs anything: `python benchmarks/compare.py OTHER [--turns 7] [what loop.py takes]`.

OTHER is a checkout of another commit with a virtual environment of its own (`git worktree add OTHER COMMIT`, then
`make setup` there). The loop benchmarks of both checkouts, each with its own code, are run in turn, and the medians of
CPU time per loop and of loops a second are compared. A difference in CPU below 5 %, or within the spread of either,
counts as none. Each checkout has its own benchmark, because names in the code may differ.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parents[1]
LEAST = 0.05
"""The difference in CPU time, as a share of the other's, that counts."""

Turn = dict[str, dict[str, float]]
"""The figures of one run of the loop benchmark: by the number of loops at once, then by name."""


def measured(python: Path, checkout: Path, rest: Sequence[str]) -> Turn:
    """Runs the loop benchmark of a checkout once, with the Python that has its code installed."""
    loop = checkout / "benchmarks" / "loop.py"
    done = subprocess.run([python, loop, "--json", *rest], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} {loop} failed: {done.stderr[-1000:]}")
    found = json.loads(done.stdout)
    return {what: found[what] for what in ("cpu_ms_per_loop", "loops_per_s")}


def compared(other: Sequence[Turn], own: Sequence[Turn]) -> list[str]:
    """A line for each number of loops at once and each figure: medians, difference, spreads, and what it counts as."""
    lines = [f"{'at once':>8} {'figure':<16}{'other':>9}{'this':>9}{'change':>9}  lowest to highest"]
    for at_once in own[0]["loops_per_s"]:
        for what in own[0]:
            before, after = ([turn[what][at_once] for turn in turns] for turns in (other, own))
            old, new = statistics.median(before), statistics.median(after)
            apart = max(before) < min(after) or max(after) < min(before)
            counts = (
                "" if what != "cpu_ms_per_loop" else ", counts" if apart and abs(new / old - 1) >= LEAST else ", none"
            )
            spread = f"{min(before):.2f} to {max(before):.2f}, {min(after):.2f} to {max(after):.2f}"
            lines.append(f"{at_once:>8} {what:<16}{old:>9.2f}{new:>9.2f}{new / old - 1:>+9.1%}  {spread}{counts}")
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("other", type=Path, help="the other checkout")
    options.add_argument("--turns", type=int, default=7, help="how often each is run (default 7)")
    given, rest = options.parse_known_args()
    python = given.other / ".venv/bin/python"
    if not python.exists():
        raise SystemExit(f"{given.other} has no .venv/bin/python; run make setup there")
    own = Path(sys.executable)
    turns = [(measured(python, given.other, rest), measured(own, HERE, rest)) for _ in range(given.turns)]
    print("\n".join(compared([other for other, _ in turns], [own for _, own in turns])))


if __name__ == "__main__":
    main()
