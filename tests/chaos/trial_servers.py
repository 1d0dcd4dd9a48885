"""Several coordinators on RabbitMQ and PostgreSQL, panels that wait for all and for some, submitted slowly and at once.

As large as they have been run (`docs/proof.md`):

    python -m tests.chaos.trial_servers --runs 400 --rate 4 --times 3
    python -m tests.chaos.trial_servers --runs 2000 --times 3

The servers are those of the tests: REDRAFT_TEST_RABBITMQ and REDRAFT_TEST_POSTGRES. Names and databases are deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg
from tests.chaos import panel
from tests.chaos.trials import PANEL, Found, examined, options, report
from tests.events.rabbit_server import URL, clear, new_prefix
from tests.processes import plain, started, stop
from tests.services import postgres_database

from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.deployment import open_client
from redraft.events.backends import open_store
from redraft.events.bus.port import INBOX, work_queue
from redraft.events.messages.domain_events import RunEnded

STILL: Final = 30.0
"""Seconds without a new event, after which what has not ended is stuck."""

BEGIN: Final = 180.0
"""Seconds in which the first event is there, on a machine that is busy with something else."""

WORKERS: Final = 2


async def trial(folder: Path, kind: str, runs: int, rate: float, coordinators: int, workflow: str) -> Found:
    """Submits so many runs, `rate` a second (0: at once), and waits until all have ended or nothing moves any more."""
    folder.mkdir(parents=True)
    prefix = new_prefix()
    plan = getattr(panel, workflow)
    queues = (INBOX, *(work_queue(actor.role, actor.name) for actor in plan.actors.values()))
    name = f"{coordinators} coordinators, {workflow}, {f'{rate:g} a second' if rate else 'at once'}"
    with _store(kind, folder) as store:
        settings = read_settings(store=store, bus=URL, broker_prefix=prefix, queue_type="classic")
        try:
            with _deployed(settings, folder, coordinators) as processes:
                begun = time.monotonic()
                waiting = asyncio.create_task(_until_still(store, runs))
                await _submit(settings, plan, runs, rate)
                await waiting
                died = sum(process.poll() is not None for process in processes)
            return await examined(name, store, runs, begun, died)
        finally:
            await clear(URL, prefix, queues)


async def _submit(settings: Settings, plan: object, runs: int, rate: float) -> None:
    async with open_client(settings, reads=False) as client:
        begun = time.monotonic()
        for number in range(runs):
            if rate:
                await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
            await client.submit(plan, f"brief {number}")  # type: ignore[arg-type]


async def _until_still(store: str, runs: int) -> None:
    """Returns when so many runs have ended, or nothing was recorded for `STILL` seconds."""
    seen, position, moved = 0, 0, time.monotonic()
    async with open_store(store) as opened:
        while seen < runs and time.monotonic() - moved < (STILL if position else BEGIN):
            async for batch in opened.tail(position, follow=False):
                seen += sum(isinstance(event.data, RunEnded) for event in batch)
                position, moved = batch[-1].position, time.monotonic()
            await asyncio.sleep(0.2)


@contextmanager
def _deployed(settings: Settings, folder: Path, coordinators: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Coordinators and workers, each a process, for as long as the block lasts."""
    names = ("store", "bus", "broker_prefix", "queue_type")
    environment = plain(**{f"REDRAFT_{name.upper()}": str(getattr(settings, name)) for name in names})
    parts = [("coordinator",)] * coordinators + [("worker", str(PANEL))] * WORKERS
    processes = [
        started(*part, folder=folder, environment=environment, log=folder / f"{number}-{part[0]}.log")
        for number, part in enumerate(parts)
    ]
    try:
        yield processes
    finally:
        stop(processes)


@contextmanager
def _store(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store: a file that stays in the folder, or a database that is dropped."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'log.db'}"
        return
    with postgres_database() as database:
        given = psycopg.conninfo.conninfo_to_dict(database)
        yield "postgresql://?" + "&".join(f"{key}={quote(str(value), safe='')}" for key, value in given.items())


async def trials(folder: Path, given: argparse.Namespace) -> list[Found]:
    found = []
    for turn in range(given.times):
        for coordinators in map(int, given.coordinators.split(",")):
            for workflow in given.workflows.split(","):
                place = folder / f"{turn}-{coordinators}-{workflow}"
                found.append(await trial(place, given.store, given.runs, given.rate, coordinators, workflow))
    return found


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--runs", type=int, default=40, help="runs of each trial (default 40)")
    parser.add_argument("--rate", type=float, default=0.0, help="how many are submitted a second (default: at once)")
    parser.add_argument("--coordinators", default="2,4", help="how many coordinators (default 2,4)")
    parser.add_argument("--store", choices=["postgresql", "sqlite"], default="postgresql", help="default: postgresql")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return report(asyncio.run(trials((given.folder or Path(folder)).resolve(), given)), as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
