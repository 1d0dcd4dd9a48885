"""Redraft beside what else its users would pick: `python -m peers --home FOLDER [--bus URL --store URL]`.

To be run in `benchmarks/`. Each peer does the loop of `loop.py`, one at a time and 64 at once, in a process of its own,
in turn with the others and `--repeat` times; the medians are printed, with the lowest and the highest. What a peer
stores before its next step differs: see its file. CPU time is that of a peer's own process, of no server, and so left
out where there are several. `--home` has a virtual environment for each of them, by its name;
`--make` makes those that are missing. `--bus` and `--store` are needed for those that use a server; `--store` is a
PostgreSQL server's URL without a database: each run gets a database of its own, which is dropped after it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier

PACKAGES: Final[Mapping[str, Sequence[str]]] = {
    "langgraph": (
        "langgraph==1.2.22",
        "langgraph-checkpoint-sqlite==3.1.2",
        "langgraph-checkpoint-postgres==3.2.0",
        "psycopg[binary,pool]==3.3.9",
    ),
    "burr": ("burr==0.42.0", "aiosqlite==0.22.1"),
    "eventsource": ("eventsource-py==0.8.1", "aiosqlite==0.22.1"),
    "faststream": ("faststream[rabbit]==0.7.8",),
}
"""What is installed for each peer; Redraft and the loop by hand need this environment alone."""


class Row(NamedTuple):
    """A peer as it is measured: its name, its variant, and the servers that it needs."""

    peer: str
    variant: str
    servers: str = ""


ROWS: Final = (
    Row("by_hand", "sqlite"),
    Row("redraft", "sqlite"),
    Row("burr", "sqlite"),
    Row("eventsource", "sqlite"),
    Row("langgraph", "sqlite"),
    Row("redraft", "rabbit", "bus store"),
    Row("langgraph", "postgresql", "store"),
    Row("faststream", "quorum", "bus"),
)


def python_of(peer: str, home: Path, *, make: bool) -> str:
    """Returns the Python of a peer's environment. Raises SystemExit if it has none."""
    if peer not in PACKAGES:
        return sys.executable
    python = home / peer / "bin" / "python"
    if not python.exists():
        if not make:
            raise SystemExit(f"{home / peer} is no virtual environment; --make makes it")
        subprocess.run([sys.executable, "-m", "venv", home / peer], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES[peer]], check=True)
    return str(python)


@contextmanager
def _database(server: str) -> Iterator[str]:
    """Makes an empty database on a server, and drops it at the end."""
    name = f"peers_{uuid4().hex[:8]}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    try:
        yield f"{server}/{name}"
    finally:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def measure(row: Row, python: str, at_once: int, given: argparse.Namespace) -> dict[str, float]:
    command = [python, "-m", f"peers.{row.peer}_peer", row.variant, str(at_once), str(given.seconds)]
    surroundings = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "BUS": given.bus}
    if "store" not in row.servers:
        return _figures(command, surroundings)
    with _database(given.store.rstrip("/")) as store:
        return _figures(command, surroundings | {"STORE": store})


def _figures(command: Sequence[str], surroundings: Mapping[str, str]) -> dict[str, float]:
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(command, env=surroundings, stdout=subprocess.PIPE, stderr=said, text=True, check=False)
        if done.returncode == 0:
            figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
            return figures
        said.seek(0)
        raise SystemExit(f"{' '.join(command)} failed:\n{said.read()[-2000:]}")


def report(found: Mapping[Row, Mapping[int, Sequence[dict[str, float]]]]) -> None:
    print(f"{'':26}" + "".join(f"{f'{at_once} at once: loops/s':>24}{'CPU ms a loop':>16}" for at_once in (1, 64)))
    for row, measured in found.items():
        cells = []
        for each in measured.values():
            rates = [one["loops_per_s"] for one in each]
            spread = f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
            cpu = "-" if row.variant == "rabbit" else f"{statistics.median(one['cpu_ms_per_loop'] for one in each):.1f}"
            cells.append(f"{spread:>24}{cpu:>16}")
        print(f"{row.peer + ', ' + row.variant:26}" + "".join(cells))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--home", type=Path, default=Path("venvs"), help="where the environments are (default venvs)")
    options.add_argument("--make", action="store_true", help="make the environments that are missing")
    options.add_argument("--only", default="", help="these peers alone, by their names")
    options.add_argument("--bus", default="", help="amqp://...")
    options.add_argument("--store", default="", help="postgresql://user:password@host, a user who may make databases")
    options.add_argument("--seconds", type=float, default=4, help="how long each is measured (default 4)")
    options.add_argument("--repeat", type=int, default=5, help="how often each is measured (default 5)")
    options.add_argument("--json", action="store_true", help="print one JSON document")
    given = options.parse_args()
    known = {row.peer for row in ROWS}
    chosen = set(given.only.split(",")) if given.only else known
    if unknown := chosen - known:
        options.error(f"--only: no peer is named {min(unknown)!r}; there are {', '.join(sorted(known))}")
    servers = {name for name in ("bus", "store") if getattr(given, name)}
    rows = [row for row in ROWS if row.peer in chosen and set(row.servers.split()) <= servers]
    pythons = {row: python_of(row.peer, given.home, make=given.make) for row in rows}
    found: dict[Row, dict[int, list[dict[str, float]]]] = {row: {1: [], 64: []} for row in rows}
    for _ in range(given.repeat):
        for row in rows:
            for at_once in (1, 64):
                found[row][at_once].append(measure(row, pythons[row], at_once, given))
    if given.json:
        print(json.dumps({f"{row.peer}, {row.variant}": measured for row, measured in found.items()}))
    else:
        report(found)


if __name__ == "__main__":
    main()
