"""Verifies, exports and imports a log of many events, and says how fast and with how much memory.

python benchmarks/audit.py --events 1000000
python benchmarks/audit.py --events 200000 --store postgresql://127.0.0.1/empty
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final

from redraft.app.record.copying.transfer import RunSelection, export_log, import_archive
from redraft.events.backends import open_store
from redraft.events.messages.codec import GENESIS, encode_event
from redraft.events.messages.content import Critique, DraftRef
from redraft.events.messages.domain_events import DomainEvent, DraftCritiqued, IterationStarted
from redraft.events.messages.envelope import Origin
from redraft.events.store.event_store import EventStore
from redraft.events.store.raw_rows import RawRow

RUN: Final = 22
"""Events of one run."""
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
SAID: Final = DraftCritiqued("Loop[1]/judge", 1, DraftRef(1, "0" * 64), Critique(0.5, suggestions=("say more " * 40,)))


def rows(events: int) -> Iterator[RawRow]:
    """A log of runs that go on side by side, eight at a time."""
    for first in range(0, events // RUN + 1, 8):
        hashes = [GENESIS] * 8
        for version in range(1, RUN + 1):
            for number in range(8):
                run = f"run-{first + number:08}"
                data: DomainEvent = SAID if version % 2 else IterationStarted("Loop", version)
                origin = Origin(f"{run}.{version}", "judge", f"{run}.{version - 1}", run)
                at = START + timedelta(seconds=first + version)
                stored = encode_event(run, version, hashes[number], at, origin, data)
                hashes[number] = stored.hash
                yield RawRow(0, run, version, stored.name, stored.state)


async def fill(store: EventStore, events: int) -> None:
    made, putting = rows(events), store.copying()
    while batch := list(islice(made, 2_000)):
        await putting.put(batch)


def memory() -> float:
    """The most memory that this process ever had, in MiB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


async def measure(url: str, events: int, folder: Path) -> dict[str, object]:
    """Events/s of each, and the most memory (MiB) up to its end."""
    found: dict[str, object] = {}
    archive = folder / "archive"
    async with open_store(url) as store:
        await fill(store, events)
        count = await store.head()
        found |= {"events": count, "filled_mb": memory()}
        began = time.monotonic()
        report = await store.verify_all()
        found |= {"faults": report.count, "verify_per_s": round(count / (time.monotonic() - began))}
        found["verify_mb"] = memory()
        began = time.monotonic()
        with archive.open("wb") as file:
            await export_log(store, RunSelection(), file, datetime.now(UTC))
        found |= {"export_per_s": round(count / (time.monotonic() - began)), "export_mb": memory()}
    async with open_store(f"sqlite:///{folder}/copy.db") as copy:
        began = time.monotonic()
        done = await import_archive(copy, archive)
        found |= {"import_per_s": round(done.added / (time.monotonic() - began)), "import_mb": memory()}
    return found | {"archive_mb": round(archive.stat().st_size / 2**20, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--store", default="", help="an empty store (default: a SQLite file)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.store or f"sqlite:///{folder}/log.db"
        print(json.dumps(asyncio.run(measure(url, asked.events, Path(folder)))))


if __name__ == "__main__":
    main()
