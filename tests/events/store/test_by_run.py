"""Reading a log run by run, past ids of runs that no release of today records."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.appending import append_to

from redraft.events.backends import open_recorder, open_store
from redraft.events.store.event_store import NewEvent
from redraft.events.store.recorder import Place

STRANGE = ("x'fffe'", "CAST(x'ff41' AS TEXT)", "CAST(x'80' AS TEXT)", "'a' || char(0)")
VERSIONS = ("1", "'first'", "CAST(x'ff41' AS TEXT)", "x'ff'", "NULL", "9e999", "2.5")


async def filled(path: Path, notes: Callable[..., list[NewEvent]], run: str, versions: tuple[str, ...] = ("1",)) -> str:
    """Makes a store with the runs `a` and `z`, and with rows of a run that were put past the rules; returns its URL."""
    url = f"sqlite:///{path}"
    async with open_store(url) as store:
        for name in ("a", "z"):
            await append_to(store, name, 0, notes(name, 2))
    with closing(sqlite3.connect(path)) as file, file:
        ((rules, statement),) = file.execute("SELECT name, sql FROM sqlite_master WHERE name = 'redraft_event_rules'")
        file.execute(f"DROP TRIGGER {rules}")
        for version in versions:
            file.execute(f"INSERT INTO stored_events VALUES ({run}, {version}, 'x', x'7b7d')")  # noqa: S608
        file.execute(statement)
    return url


@pytest.mark.parametrize("limit", [1, 2, 500])
@pytest.mark.parametrize("run", STRANGE)
async def test_every_row_is_read_once_whatever_the_id_of_its_run(
    tmp_path: Path, notes: Callable[..., list[NewEvent]], run: str, limit: int
) -> None:
    opened = open_recorder(await filled(tmp_path / "log.db", notes, run, VERSIONS[:2]))
    found, place = [], Place()
    for _ in range(20):
        page, place = opened.recorder.select_by_run(place, limit)
        found += [row.id for row in page]
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    opened.release()


@pytest.mark.parametrize("version", VERSIONS)
async def test_reading_by_runs_ends_whatever_the_version(
    tmp_path: Path, notes: Callable[..., list[NewEvent]], version: str
) -> None:
    opened = open_recorder(await filled(tmp_path / "log.db", notes, "'b'", (version,)))
    place, pages = Place(), []
    for _ in range(7):
        page, place = opened.recorder.select_by_run(place, 1)
        pages.append([row.id for row in page])
    assert pages == [[1], [2], [5], [3], [4], [], []]
    opened.release()


async def test_rows_beside_one_without_a_version_are_read(tmp_path: Path, notes: Callable[..., list[NewEvent]]) -> None:
    opened = open_recorder(await filled(tmp_path / "log.db", notes, "'b'", ("1", "NULL", "-9223372036854775808")))
    place, found = Place(), []
    for _ in range(7):
        page, place = opened.recorder.select_by_run(place, 1)
        found += [row.id for row in page]
    assert found == [1, 2, 6, 7, 5, 3, 4]
    opened.release()


@pytest.mark.parametrize("run", [*STRANGE, "NULL"])
async def test_a_row_of_no_run_is_told_of(tmp_path: Path, notes: Callable[..., list[NewEvent]], run: str) -> None:
    async with open_store(await filled(tmp_path / "log.db", notes, run)) as store:
        report = await store.verify_all()
    assert any("1 rows of stored_events name a run by what is no text" in each.message for each in report.faults)
