"""One changed byte of a run's id, wherever the database file holds it, is found: in the row and in the index alike."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from redraft.events.domain_events import IterationStarted
from redraft.events.envelope import Origin
from redraft.events.errors import NoSuchRun, StoreError
from redraft.events.store import NewEvent, open_store

RUN = "run-that-is-tampered-with"


async def recorded(path: Path) -> None:
    async with open_store(f"sqlite:///{path}") as store:
        for version in range(4):
            event = NewEvent(Origin(f"e{version}", "test"), datetime.now(UTC), IterationStarted("Loop", version + 1))
            await store.append(RUN, version, [event])


async def sound(path: Path) -> bool:
    """Whether every run that the log or the index knows is verified."""
    try:
        async with open_store(f"sqlite:///{path}") as store:
            runs = {RUN}
            async for batch in store.tail(0, follow=False):
                runs |= {event.run for event in batch}
            for run in runs:
                await store.verify(run)
    except (StoreError, NoSuchRun):
        return False
    return True


async def test_a_changed_byte_of_a_runs_id_is_found_in_rows_and_in_the_index(tmp_path: Path):
    original = tmp_path / "log.db"
    await recorded(original)
    assert await sound(original)
    whole = original.read_bytes()
    places = [at for at in range(len(whole)) if whole.startswith(RUN.encode(), at)]
    assert len(places) >= 8
    for number, place in enumerate(places):
        changed = tmp_path / f"changed{number}.db"
        shutil.copy(original, changed)
        with changed.open("r+b") as file:
            file.seek(place + 5)
            file.write(bytes([whole[place + 5] ^ 1]))
        assert not await sound(changed), f"byte {place + 5} was changed, and nobody noticed"
