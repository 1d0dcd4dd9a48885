"""A SQLite file with runs of every kind, and how it is audited in this process."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from tests.app.cli_calls import call
from tests.appending import append_to
from tests.streams import article_told

from redraft.events.backends import open_store
from redraft.events.encryption.keyring import Encryption
from redraft.events.messages.domain_events import RunErased
from redraft.events.messages.envelope import Origin
from redraft.events.store.event_store import EventStore, NewEvent

MASTER: Final = bytes(range(32))
"""The encryption key of its encrypted runs."""

SHORT: Final = ("Teh sea.", "The sea.", "The sea rises.")
LARGE: Final = ("Teh sea rises. " * 40, "The sea rises. " * 400, "The sea rises twice a day. " * 900)
TIME: Final = datetime(2026, 3, 1, tzinfo=UTC)

LONG: Final = [pytest.mark.check, pytest.mark.timeout(1_800)]
SIZES: Final = [pytest.param(1, 100), *(pytest.param(seed, 1_000, marks=LONG) for seed in (2, 3, 4))]
"""Seeds, and how many changes are tried with each."""


async def written(path: Path, runs: int, texts: Sequence[str]) -> None:
    """A log of runs that went on side by side: encrypted ones of which one was erased, imported ones, and others.

    With `LARGE` texts it has pages of every kind: rows that overflow, indexes of several levels, pages that are free.
    """
    names = [f"run-{number:04}-{'of-a-long-name' * 3}" for number in range(runs)]
    async with open_store(f"sqlite:///{path}", encryption=Encryption(MASTER)) as store:
        await side_by_side(store, [f"sealed-{number}" for number in range(3)], texts)
        await store.destroy_key("sealed-1")
        await append_to(store, "sealed-1", 22, [NewEvent(Origin("erased", "ada"), TIME, RunErased("ada"))])
    with closing(sqlite3.connect(path)) as connection:  # as in a store that began to encrypt later
        connection.execute("DELETE FROM redraft_keys WHERE run = ''")
        connection.commit()
    async with open_store(f"sqlite:///{path}") as store:
        await store.copying().note_imported(names[::3])
        await side_by_side(store, names, texts)
        await store.copying().put_key("", b"sealed")


async def side_by_side(store: EventStore, runs: Sequence[str], texts: Sequence[str]) -> None:
    left = {run: _events(run, texts) for run in runs}
    chance = random.Random(3)
    while left:
        run = chance.choice(list(left))
        count = chance.randrange(1, 4)
        await append_to(store, run, 22 - len(left[run]), left[run][:count])
        left[run] = left[run][count:]
        if not left[run]:
            del left[run]


def _events(run: str, texts: Sequence[str]) -> list[NewEvent]:
    told = article_told(texts)
    return [NewEvent(Origin(f"{run}/{n}", actor), TIME, data) for n, (actor, data) in enumerate(told)]


def audited(path: Path) -> int:
    """Returns the exit code of `redraft audit --all --verify`."""
    return call("audit", "--all", "--verify", "--store", f"sqlite:///{path}").code
