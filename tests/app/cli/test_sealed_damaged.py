"""Encrypted runs of which an event, or the key, is damaged: what is said of them, and that they are erased."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.app.cli.test_reading import LOUD
from tests.app.cli_calls import call, one_line


@pytest.fixture(autouse=True)
def place(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workflow, a key, and a store that is encrypted with it and has a run of its own."""
    (home / "loud.py").write_text(LOUD)
    assert call("key", "encryption", "key").code == 0
    monkeypatch.setenv("REDRAFT_ENCRYPT_NEW_RUNS", "1")
    monkeypatch.setenv("REDRAFT_ENCRYPT_KEY_FILE", "key")
    run("Another")
    return home


def run(text: str) -> str:
    said = call("run", "loud.py:loud", f"{text}.", "--json", "--quiet")
    assert said.code == 0, said.err
    return str(json.loads(said.out)["run"])


@contextmanager
def tampering() -> Iterator[sqlite3.Connection]:
    """A connection to the store without what guards its rows; that is back afterwards."""
    with closing(sqlite3.connect("store.db")) as connection, connection:
        guards = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in guards:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, sql in guards:
            connection.execute(sql)


PLACE = "WHERE originator_id = ? AND originator_version = ?"
READ = f"SELECT rowid, state FROM stored_events {PLACE}"  # noqa: S608 - both are fixed
WRITE = f"UPDATE stored_events SET state = ? {PLACE}"  # noqa: S608 - both are fixed


def damage_text(run: str, version: int) -> None:
    """Changes the first letter of the encrypted texts of an event."""
    with tampering() as connection:
        _, state = connection.execute(READ, (run, version)).fetchone()
        at = state.index(b'"sealed":"') + 10
        other = b"B" if state[at : at + 1] == b"A" else b"A"
        changed = state[:at] + other + state[at + 1 :]
        connection.execute(WRITE, (changed, run, version))


def test_the_reason_why_an_encrypted_event_cannot_be_read_is_said() -> None:
    name = run("Only Ada knows")
    damage_text(name, 3)
    why = (
        f"event 3 of run {name} (draft.generated.v1) is not what was recorded: its texts cannot be opened with the "
        "run's key"
    )
    assert one_line(call("show", name)) == (
        f"run {name}: it cannot be read from event 3 on (position {_position(name, 3)}): {why}; see redraft doctor"
    )
    assert f"event 3 of its run cannot be read: {why}" in call("events", "--run", name).out


def _position(run: str, version: int) -> int:
    with closing(sqlite3.connect("store.db")) as connection:
        position, _ = connection.execute(READ, (run, version)).fetchone()
    return int(position)
