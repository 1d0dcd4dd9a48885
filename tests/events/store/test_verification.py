"""Verifying a whole log: what is whole passes, and whatever is changed, taken out or put in is named."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import psycopg
import pytest
from hypothesis import settings
from tests.appending import append_to

from redraft.app.testing.storage import SimRecorder
from redraft.events.backends import open_store
from redraft.events.errors import StoreError
from redraft.events.messages.domain_events import StepFailed
from redraft.events.store.event_store import EventStore, NewEvent
from redraft.events.store.recorder import Inspection, MemoryRecorder, Opened
from redraft.events.store.verification import Report

Notes = Callable[..., list[NewEvent]]


class Log(Protocol):
    def opened(self) -> Opened: ...
    def store(self, opened: Opened | None = None, poll: float = 0.02) -> EventStore: ...


class Tampering(Protocol):
    """Does what nobody may: changes rows of a log, past its triggers."""

    def set(self, position: int, column: str, value: object) -> None: ...
    def take_out(self, *positions: int) -> None: ...


class SqliteTampering:
    def __init__(self, path: Path) -> None:
        self._path = path

    def set(self, position: int, column: str, value: object) -> None:
        self._do(f"UPDATE stored_events SET {column} = ? WHERE rowid = ?", value, position)  # noqa: S608

    def take_out(self, *positions: int) -> None:
        """As somebody does who knows of the table of ids."""
        own = 'substr(state, 82, instr(state, CAST(\'","time":\' AS BLOB)) - 82)'
        known = f"(SELECT {own} FROM stored_events WHERE rowid = ?)"  # noqa: S608
        for position in positions:
            self._do(f"DELETE FROM redraft_event_ids WHERE id = {known}", position)  # noqa: S608
            self._do("DELETE FROM stored_events WHERE rowid = ?", position)

    def _do(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(statement, values)
            for _, sql in triggers:
                connection.execute(sql)
            connection.commit()


class PostgresTampering:
    def __init__(self, url: str) -> None:
        self._url = url

    def set(self, position: int, column: str, value: object) -> None:
        self._do(f"UPDATE stored_events SET {column} = %s WHERE notification_id = %s", value, position)  # noqa: S608

    def take_out(self, *positions: int) -> None:
        self._do("DELETE FROM stored_events WHERE notification_id = ANY(%s)", list(positions))

    def _do(self, statement: str, *values: object) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("ALTER TABLE stored_events DISABLE TRIGGER redraft_refuse")
            connection.execute(statement, values)  # type: ignore[arg-type]
            connection.execute("ALTER TABLE stored_events ENABLE ALWAYS TRIGGER redraft_refuse")


class MemoryTampering:
    def __init__(self, recorder: MemoryRecorder) -> None:
        self._rows = recorder._stored_events

    def set(self, position: int, column: str, value: object) -> None:
        self._rows[position - 1] = replace(self._rows[position - 1], **{column: value})  # type: ignore[arg-type]

    def take_out(self, *positions: int) -> None:
        pytest.skip("rows in memory cannot be taken out without their neighbours moving")


@pytest.fixture
def tampering(log: Log, request: pytest.FixtureRequest, tmp_path: Path) -> Tampering:
    recorder = log.opened().recorder
    if isinstance(recorder, SimRecorder):
        return MemoryTampering(recorder._database.rows)
    if isinstance(recorder, MemoryRecorder):
        return MemoryTampering(recorder)
    path = tmp_path / "log.db"
    return SqliteTampering(path) if path.exists() else PostgresTampering(request.getfixturevalue("postgres_url"))


async def filled(log: Log, notes: Notes, runs: Sequence[str] = ("a", "b", "c")) -> Report:
    async with log.store() as store:
        for version in range(4):
            for run in runs:
                await append_to(store, run, version, notes(run, after=version))
        return await store.verify_all()


async def verified(log: Log, marks: Sequence[int] = ()) -> Report:
    async with log.store() as store:
        return await store.verify_all(marks)


async def test_a_whole_log_is_verified(log: Log, notes: Notes) -> None:
    report = await filled(log, notes)
    assert (report.runs, report.events, report.position, report.faults) == (3, 12, 12, ())
    assert await verified(log) == report


async def test_an_empty_log_is_verified(log: Log) -> None:
    report = await verified(log)
    assert (report.runs, report.events, report.position, report.faults) == (0, 0, 0, ())


async def test_more_events_than_one_look_takes_are_verified(log: Log, notes: Notes) -> None:
    async with log.store() as store:
        await append_to(store, "a", 0, notes("a", 700))
        await append_to(store, "b", 0, notes("b", 700))
        report = await store.verify_all()
    assert (report.runs, report.events, report.faults) == (2, 1400, ())


async def test_the_digest_at_a_position_is_that_of_the_log_when_it_ended_there(log: Log, notes: Notes) -> None:
    first = await filled(log, notes)
    async with log.store() as store:
        await append_to(store, "d", 0, notes("d", 3))
    second = await verified(log, [12, 14])
    assert second.marks[12] == first.digest
    assert second.digest not in (first.digest, second.marks[14])


@pytest.mark.parametrize("position", [1, 5, 12])
async def test_a_changed_row_is_named(log: Log, notes: Notes, tampering: Tampering, position: int) -> None:
    await filled(log, notes)
    (row,) = log.opened().recorder.select_notifications(position, 1)
    where = f"event {row.originator_version} of run {row.originator_id}"
    for column, value, told in (
        ("state", row.state.replace(b"note", b"nope"), f"{where} (step.failed.v1) is not what was recorded"),
        ("topic", "step.failed.v2", f"{where} (step.failed.v2) is not what was recorded"),
        ("state", b"", f"{where} (step.failed.v1) does not begin with its hash"),
    ):
        tampering.set(position, column, value)
        report = await verified(log)
        assert report.faults[0].message.startswith(told)
        assert report.faults[0].position == position
        tampering.set(position, "state", row.state)
        tampering.set(position, "topic", row.topic)
        assert (await verified(log)).faults == ()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "text"),
        ("state", 7),
        ("topic", 7),
        ("topic", b"x"),
        ("originator_version", "two"),
        ("originator_id", 7),
    ],
)
async def test_a_value_of_another_type_is_a_fault(
    log: Log, notes: Notes, tampering: Tampering, column: str, value: object
) -> None:
    if not isinstance(tampering, SqliteTampering):
        pytest.skip("only in SQLite can a column hold values of any type")
    await filled(log, notes)
    tampering.set(5, column, value)
    assert (await verified(log)).count


async def test_an_event_that_was_recorded_anew_breaks_the_chain(log: Log, notes: Notes, tampering: Tampering) -> None:
    from redraft.events.messages.codec import encode_event

    await filled(log, notes)
    async with log.store() as store:
        (old,) = await store.read("b", upto=2, after=1)
    forged = encode_event("b", 2, old.previous, old.time, notes("b")[0].origin, StepFailed("x", 1, "error", "forged"))
    tampering.set(5, "state", forged.state)
    report = await verified(log)
    assert [fault.message for fault in report.faults] == [
        "event 3 of run b (step.failed.v1) does not follow the event before it: one was changed or taken out"
    ]


async def test_rows_that_were_taken_out_are_named(log: Log, notes: Notes, tampering: Tampering) -> None:
    await filled(log, notes)
    tampering.take_out(5)
    told = [fault.message for fault in (await verified(log)).faults]
    assert "the event at position 5 of the log is missing: it was taken out" in told
    assert "event 2 of run b is missing: it was taken out" in told


async def test_a_run_that_was_taken_out_is_noticed(log: Log, notes: Notes, tampering: Tampering) -> None:
    await filled(log, notes)
    tampering.take_out(1, 4, 7, 10)
    report = await verified(log)
    assert report.runs == 2
    assert [fault.position for fault in report.faults if fault.position] == [1, 4, 7, 10]


async def test_a_row_of_another_place_is_noticed(log: Log, notes: Notes, tampering: Tampering) -> None:
    await filled(log, notes)
    tampering.set(12, "originator_version", 5)
    assert (await verified(log)).count
    tampering.set(12, "originator_version", 4)
    tampering.set(12, "originator_id", "d")
    assert (await verified(log)).count
    tampering.set(12, "originator_id", "c")
    assert not (await verified(log)).count


async def test_events_of_a_run_that_changed_places_are_named(log: Log, notes: Notes, tampering: Tampering) -> None:
    if isinstance(tampering, MemoryTampering):
        pytest.skip("the places of rows in memory are their positions")
    column = "rowid" if isinstance(tampering, SqliteTampering) else "notification_id"
    await filled(log, notes)
    for position, other in ((2, 99), (5, 2), (99, 5)):
        tampering.set(position, column, other)
    report = await verified(log)
    assert [(fault.message, fault.run, fault.position) for fault in report.faults] == [
        ("event 2 of run b was moved: in the log it stands before an event that it follows", "b", 2)
    ]


async def test_an_enormous_number_of_faults_is_counted_and_not_kept(log: Log, notes: Notes) -> None:
    from redraft.events.store import verification

    async with log.store() as store:
        check = verification.LogCheck(store._recorder, store._keyring, 2_000, place=lambda: Inspection(["x"] * 3_000))
        while check.step():
            pass
    report = check.report()
    assert (len(report.faults), report.count) == (1_000, 3_001)


async def test_random_changes_of_rows_are_each_reported(log: Log, notes: Notes, tampering: Tampering) -> None:
    """One byte of one column, at random: see `test_file_bytes` for the bytes of a file."""
    await filled(log, notes)
    rows = log.opened().recorder.select_notifications(1, 100)
    chance = random.Random(11)
    for _ in range(min(100, settings().max_examples)):
        row = chance.choice(rows)
        column = chance.choice(["state", "state", "topic", "originator_id"])
        old = getattr(row, column)
        raw = bytearray(old.encode() if isinstance(old, str) else old)
        at = chance.randrange(len(raw))
        raw[at] ^= chance.randrange(1, 128)
        new: object = raw.decode(errors="replace").replace("\0", "x") if isinstance(old, str) else bytes(raw)
        if new == old:
            continue
        tampering.set(row.id, column, new)
        assert (await verified(log)).count, f"{column} of event {row.id}: {old!r} became {new!r}"
        tampering.set(row.id, column, old)
    assert not (await verified(log)).count


async def test_what_protects_a_postgres_log_is_looked_at(postgres_url: str, notes: Notes) -> None:
    async with open_store(postgres_url) as store:
        await append_to(store, "a", 0, notes("a", 2))
        assert (await store.verify_all()).faults == ()
        for change, told in (
            ("ALTER TABLE stored_events DISABLE TRIGGER redraft_refuse", "trigger redraft_refuse is missing"),
            ("DROP TRIGGER redraft_refuse ON stored_events", "trigger redraft_refuse is missing"),
            (
                "ALTER TABLE stored_events DROP CONSTRAINT stored_events_pkey",
                "stored_events has no unique index on (originator_id",
            ),
        ):
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute(change)  # type: ignore[arg-type]
            assert any(told in fault.message for fault in (await store.verify_all()).faults)


async def test_a_file_that_is_not_ours_any_more_is_told(tmp_path: Path, notes: Notes) -> None:
    async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
        await append_to(store, "a", 0, notes("a", 2))
    for change, told in (
        ("DROP TRIGGER stored_events_never_updated", "stored_events_never_updated is missing"),
        ("CREATE TABLE other (x)", "other was not made by Redraft"),
    ):
        with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
            connection.execute(change)
        async with open_store(f"sqlite:///{tmp_path}/log.db") as store:
            assert any(told in fault.message for fault in (await store.verify_all()).faults)


async def test_a_store_that_goes_away_is_no_fault_of_its_events(tmp_path: Path, notes: Notes) -> None:
    store = open_store(f"sqlite:///{tmp_path}/log.db")
    await append_to(store, "a", 0, notes("a", 2))
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.verify_all()
