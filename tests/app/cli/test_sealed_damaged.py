"""Encrypted runs of which an event, or the key, is damaged: what is said of them, and that they are erased."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
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


def damage_key(run: str) -> None:
    with tampering() as connection:
        (kept,) = connection.execute("SELECT wrapped FROM redraft_keys WHERE run = ?", (run,)).fetchone()
        changed = bytes([kept[0] ^ 1]) + kept[1:]
        connection.execute("UPDATE redraft_keys SET wrapped = ? WHERE run = ?", (changed, run))


def replace_state(run: str, version: int, state: object) -> None:
    with tampering() as connection:
        connection.execute(WRITE, (state, run, version))


def end_after(run: str, version: int) -> None:
    with tampering() as connection:
        connection.execute(
            "DELETE FROM stored_events WHERE originator_id = ? AND originator_version > ?", (run, version)
        )


def last_of(run: str) -> int:
    with closing(sqlite3.connect("store.db")) as connection:
        (version,) = connection.execute(
            "SELECT max(originator_version) FROM stored_events WHERE originator_id = ?", (run,)
        ).fetchone()
    return int(version)


def key_is_gone(run: str) -> bool:
    with closing(sqlite3.connect("store.db")) as connection:
        return not connection.execute("SELECT 1 FROM redraft_keys WHERE run = ?", (run,)).fetchall()


DAMAGES = {
    "its key": damage_key,
    "texts": lambda run: damage_text(run, 3),
    "an event": lambda run: replace_state(run, 3, b'{"hash":"junk'),
    "the first event": lambda run: replace_state(run, 1, b"junk"),
    "a row without bytes": lambda run: replace_state(run, 1, "no bytes"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_run_that_cannot_be_read_and_has_ended_is_erased(damage: Callable[[str], None]) -> None:
    name = run("Only Ada knows")
    damage(name)
    said = call("erase", name, "--by", "ada", "--reason", "asked for")
    assert (said.code, said.err) == (0, "")
    assert key_is_gone(name)
    again = json.loads(call("erase", name, "--by", "somebody", "--json").out)
    assert (again["by"], again["reason"]) == ("ada", "asked for")
    assert "Only Ada knows" not in call("list", "--json").out
    assert call("run", "loud.py:loud", "Another.", "--quiet").code == 0


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_one_that_goes_on_is_to_be_set_aside_first_and_then_it_is_erased(damage: Callable[[str], None]) -> None:
    name = run("Only Ada knows")
    end_after(name, 8)
    damage(name)
    assert one_line(call("erase", name)) == (
        f"run {name} has not ended, and cannot be read; set it aside first: redraft quarantine {name} --reason …"
    )
    assert not key_is_gone(name)
    assert call("quarantine", name, "--reason", "damaged").code == 0
    assert call("erase", name).code == 0
    assert key_is_gone(name)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_run_whose_last_row_is_no_event_loses_its_key_and_that_it_cannot_be_recorded_is_said(goes_on: bool) -> None:
    name = run("Only Ada knows")
    if goes_on:
        end_after(name, 8)
    last = last_of(name)
    replace_state(name, last, b'{"hash":"junk')
    said = call("erase", name)
    assert (said.code, key_is_gone(name)) == (2, True)
    assert one_line(said) == (
        f"the texts of run {name} can no longer be read, but that cannot be recorded: its last row, {last}, is not an "
        "event, and the database accepts no event after it"
    )
