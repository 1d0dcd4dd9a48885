"""Whatever is changed in the rows of a log is reported: by the log itself, or against a signed checkpoint.

The changes are made from outside, by sqlite3, and judged by what `redraft audit --all` uses.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.events import forging
from tests.events.filled_file import MASTER, SHORT, SIZES, audited, side_by_side, written

from redraft.app.record.auditing.checkpoint import (
    Checkpoint,
    find_differences,
    marks_for,
    positions_of,
    read_checkpoint,
    write_checkpoint,
)
from redraft.events.backends import open_store
from redraft.events.encryption.keyring import Encryption


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a few short runs."""
    path = tmp_path_factory.mktemp("small") / "log.db"
    asyncio.run(written(path, 5, SHORT))
    return path


async def faults_of(path: Path, held: Checkpoint | None = None) -> int:
    """How many faults `redraft audit --all` finds in a log, and what of it is not as it was signed."""
    async with open_store(f"sqlite:///{path}") as store:
        report = await store.verify_all(positions_of(held) if held else ())
        return report.count + len(list(find_differences(held, report)) if held else ())


async def signed(path: Path, folder: Path) -> Checkpoint:
    """A checkpoint of a log, written and read again."""
    key = Ed25519PrivateKey.generate()
    async with open_store(f"sqlite:///{path}") as store:
        report = await store.verify_all(marks_for(await store.head()))
    (folder / "signed.json").write_bytes(write_checkpoint(report, key))
    return read_checkpoint(folder / "signed.json", key.public_key())


async def unnoticed(
    original: Path, copy: Path, changes: Sequence[forging.Change], count: int, seed: int, held: Checkpoint | None = None
) -> list[str]:
    """Makes so many changes, each in a fresh copy of a log, and returns those in which no fault is found."""
    rows, chance, silent = forging.read_rows(original), random.Random(seed), []
    forging.write_rows(shutil.copy(original, copy), rows)
    assert not await faults_of(copy, held), "rows that are written as they were are no fault"
    for number in range(count):
        change = changes[number % len(changes)]
        changed = change(rows, chance)
        assert changed != rows
        forging.write_rows(shutil.copy(original, copy), changed)
        if not await faults_of(copy, held):
            silent.append(f"{number}: {change.__name__}")
    return silent


@pytest.mark.parametrize(("seed", "count"), SIZES)
async def test_the_log_itself_shows_what_was_changed_in_it(small: Path, tmp_path: Path, seed: int, count: int):
    """Content, the order within a run, any but a run's last events, and positions that leave a gap."""
    assert await unnoticed(small, tmp_path / "copy.db", forging.SHOWN_BY_THE_LOG, count, seed) == []


@pytest.mark.check
@pytest.mark.parametrize(("seed", "count"), SIZES)
async def test_against_a_signed_checkpoint_every_change_shows(small: Path, tmp_path: Path, seed: int, count: int):
    """Also an end that was cut off, a run that was taken out as a whole, and events that changed places."""
    changes = (*forging.SHOWN_BY_THE_LOG, *forging.SHOWN_BY_A_CHECKPOINT)
    held = await signed(small, tmp_path)
    assert await unnoticed(small, tmp_path / "copy.db", changes, count, seed, held) == []


@pytest.mark.parametrize("change", forging.SHOWN_BY_A_CHECKPOINT)
async def test_what_needs_a_checkpoint_leaves_a_log_in_which_all_fits(tmp_path: Path, change: forging.Change):
    """So nobody can promise that the log itself shows it."""
    path = tmp_path / "log.db"
    async with open_store(f"sqlite:///{path}") as store:
        await side_by_side(store, ["a", "b", "c"], SHORT)
    held = await signed(path, tmp_path)
    forging.write_rows(path, change(forging.read_rows(path), random.Random(5)))
    assert not await faults_of(path)
    assert await faults_of(path, held)


def exchanged_keys(connection: sqlite3.Connection) -> None:
    wrapped = "(SELECT wrapped FROM redraft_keys k WHERE k.run <> redraft_keys.run AND k.run <> '')"
    connection.execute(f"UPDATE redraft_keys SET wrapped = {wrapped} WHERE run <> ''")  # noqa: S608


def changed_key(connection: sqlite3.Connection) -> None:
    ((wrapped,),) = connection.execute("SELECT wrapped FROM redraft_keys WHERE run = 'sealed-0'").fetchall()
    changed = bytes([wrapped[0] ^ 1]) + wrapped[1:]
    connection.execute("UPDATE redraft_keys SET wrapped = ? WHERE run = 'sealed-0'", (changed,))


def key_of_an_erased_run(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO redraft_keys SELECT 'sealed-1', wrapped FROM redraft_keys WHERE run = 'sealed-0'")


def key_taken_away(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM redraft_keys WHERE run = 'sealed-0'")


KeyChange: TypeAlias = Callable[[sqlite3.Connection], None]
KEYS: Final[Sequence[tuple[KeyChange, bool]]] = (
    (exchanged_keys, False),
    (changed_key, False),
    (key_of_an_erased_run, True),
    (key_taken_away, True),
)
"""Changes to the keys of encrypted runs, and whether the log itself shows them without the encryption key."""


@pytest.mark.parametrize(("change", "shown"), KEYS)
async def test_a_changed_key_shows_against_a_checkpoint_or_with_the_encryption_key(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: KeyChange, shown: bool
):
    held, copy = await signed(small, tmp_path), shutil.copy(small, tmp_path / "copy.db")
    with closing(sqlite3.connect(copy)) as connection:
        change(connection)
        connection.commit()
    assert bool(await faults_of(copy)) is shown
    assert await faults_of(copy, held)
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY", b64encode(MASTER).decode())
    assert (await asyncio.to_thread(audited, small)) == 0
    assert (await asyncio.to_thread(audited, copy)) == 1


async def test_the_only_key_of_a_log_shows_that_it_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No other key tells that the encryption key is the right one."""
    path = tmp_path / "log.db"
    async with open_store(f"sqlite:///{path}", encryption=Encryption(MASTER)) as store:
        await side_by_side(store, ["sealed-0"], SHORT)
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY", b64encode(MASTER).decode())
    assert (await asyncio.to_thread(audited, path)) == 0
    with closing(sqlite3.connect(path)) as connection:
        changed_key(connection)
        connection.commit()
    assert (await asyncio.to_thread(audited, path)) == 1
