"""The shipped read models of a long log are rebuilt in two processes, and in one where a second cannot be had."""

from __future__ import annotations

import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.projections.logs import busy_log, fill

from redraft.app.settings.settings import Settings, read_settings, views_path
from redraft.app.wiring import rebuilding
from redraft.app.wiring.rebuilding import BESIDE, Rebuilt, rebuild_shipped
from redraft.app.wiring.stores import open_store_of, open_views_of
from redraft.projections.backends import SHIPPED
from redraft.projections.engine.projector import catch_up

pytestmark = pytest.mark.check

LOG = busy_log(12)


@pytest.fixture(params=["sqlite", "postgresql"])
async def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Those of a store whose read models have a wrong row in each half; every log is long."""
    url = f"sqlite:///{tmp_path}/runs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    monkeypatch.setattr(rebuilding, "LONG", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    made = read_settings(store=url)
    async with open_store_of(made) as store, open_views_of(made, SHIPPED) as views:
        await fill(store, LOG)
        await catch_up(views, store)
    spoil(views_path(made.store))
    return made


def spoil(place: Path | str | None) -> None:
    for wrong in ("UPDATE tree_nodes SET actor = 'nobody'", "UPDATE runs SET workflow = 'none'"):
        if isinstance(place, Path):
            with closing(sqlite3.connect(place, isolation_level=None)) as connection:
                connection.execute(wrong)
        else:
            with psycopg.connect(str(place), autocommit=True) as server:
                server.execute(wrong.encode())


def check(done: Rebuilt) -> None:
    assert done.projections == tuple(each.name for each in SHIPPED)
    assert (done.events, done.same, done.stopped) == (len(LOG), False, {})
    assert {table for table, count in done.differ.items() if count} == {"runs", "tree_nodes"}
    assert done.rows.keys() == {table.name for each in SHIPPED for table in each.tables}


async def test_both_halves_are_rebuilt_and_compared(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[set[str]] = []
    rebuild_views = rebuilding.rebuild_views

    async def noted(*given: object) -> Rebuilt:
        here.append({each.name for each in given[1]})  # type: ignore[attr-defined]
        return await rebuild_views(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(rebuilding, "rebuild_views", noted)
    check(await rebuild_shipped(settings))
    assert here == [{each.name for each in SHIPPED} - set(BESIDE)]
    assert (await rebuild_shipped(settings)).same


async def test_what_the_second_process_does_not_rebuild_the_first_does(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    check(await rebuild_shipped(settings))


async def test_one_process_rebuilds_all_where_there_is_one_core(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(sys, "executable", "/nowhere")
    check(await rebuild_shipped(settings))
