"""`redraft pause`, `resume`, `cancel` and `quarantine` reach the runs of items also where nothing runs them."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.app.cli_calls import call, said, start, until
from tests.app.itemized import all_runs, write_book

from redraft.app.settings.settings import read_settings
from redraft.app.wiring.local import open_readonly
from redraft.events.messages.usage import Usage
from redraft.projections.read_models.runs_query import spent_on


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.check)])
def folder(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the workflow, two of whose three innermost items are held."""
    write_book(home)
    if request.param == "postgres":
        monkeypatch.setenv("REDRAFT_STORE", str(request.getfixturevalue("postgres_url")))
    for item in ("flood", "moon"):
        (home / f"hold-{item}").touch()
    return home


@pytest.fixture
def killed(folder: Path) -> str:
    """A run whose process was killed while one chapter had one of its sections, and both of them one under way."""
    with start("run", "book.py:book", "Tides", folder=folder, REDRAFT_STORE=os.environ["REDRAFT_STORE"]) as process:
        until(lambda: all((folder / f"at-{item}").exists() for item in ("flood", "moon")))
        until(lambda: Counter(line["status"] for line in all_runs().values())["ended"] == 1)
        process.kill()
    for item in ("flood", "moon"):
        (folder / f"hold-{item}").unlink()
    return next(run for run in all_runs() if "~" not in run)


def names(run: str) -> list[str]:
    return [json.loads(line)["name"] for line in said("events", "--run", run, "--json").splitlines()]


def statuses() -> Counter[str]:
    return Counter(line["status"] for line in all_runs().values())


def test_a_pause_and_its_end_reach_every_depth(killed: str) -> None:
    said("pause", killed, "--by", "ann")
    assert statuses() == {"paused": 5, "ended": 1}
    assert all("run.paused.v1" in names(run) for run, line in all_runs().items() if line["status"] == "paused")
    said("resume", killed)
    assert statuses() == {"running": 5, "ended": 1}
    assert call("run", "--resume", killed, "--quiet").code == 0
    assert {line["outcome"] for line in all_runs().values()} == {"accepted"}
    assert call("audit", "--all", "--verify").code == 0


def test_a_cancellation_reaches_every_depth(killed: str) -> None:
    said("cancel", killed, "--by", "ann")
    assert Counter(line["outcome"] for line in all_runs().values()) == {"cancelled": 5, "accepted": 1}
    assert all(names(run).count("run.ended.v1") == 1 for run in all_runs())
    assert call("audit", "--all", "--verify").code == 0


@pytest.mark.parametrize("verb", ["cancel", "quarantine"])
def test_what_was_spent_is_known_while_items_are_under_way_and_after_they_were_cut_off(killed: str, verb: str) -> None:
    assert spent() == Usage(15, 0.75, 2)
    said(verb, killed, "--reason", "no use")
    assert all_runs()[killed]["tokens"] == 5
    assert spent() == Usage(15, 0.75, 2)


def spent() -> Usage:
    async def read() -> Usage:
        async with open_readonly(read_settings()) as log:
            return await spent_on(log.views, "book", datetime.now(UTC))

    return asyncio.run(read())


def test_a_quarantine_reaches_the_runs_that_are_under_way(killed: str) -> None:
    said("quarantine", killed, "--reason", "it is wrong")
    assert statuses() == {"quarantined": 5, "ended": 1}
    assert {line["reason"] for line in all_runs().values() if line["status"] == "quarantined"} == {"it is wrong"}
    assert call("audit", "--all", "--verify").code == 0


@pytest.mark.parametrize(("verb", "status"), [("cancel", "ended"), ("quarantine", "quarantined")])
def test_the_run_of_an_item_that_ends_tells_the_run_around_it(killed: str, verb: str, status: str) -> None:
    inside = next(run for run, line in all_runs().items() if run.count("~") == 2 and line["status"] == "running")
    said(verb, inside, "--reason", "no use")
    lines = all_runs()
    assert lines[inside]["status"] == status
    for around in (inside.rpartition("~")[0], killed):
        assert (lines[around]["status"], lines[around]["outcome"]) == ("ended", "failed")
        assert names(around).count("step.failed.v1") == 1
    others = [line for run, line in lines.items() if run not in (inside, killed, inside.rpartition("~")[0])]
    assert Counter(line["outcome"] for line in others) == {"accepted": 1, "cancelled": 2}
    assert call("audit", "--all", "--verify").code == 0


def test_beside_a_process_that_works_on_the_run_each_is_told_once(folder: Path) -> None:
    with start("run", "book.py:book", "Tides", folder=folder, REDRAFT_STORE=os.environ["REDRAFT_STORE"]) as process:
        until(lambda: all((folder / f"at-{item}").exists() for item in ("flood", "moon")))
        until(lambda: statuses()["ended"] == 1)
        said("pause", "last")
        until(lambda: statuses()["paused"] == 5)
        said("resume", "last")
        until(lambda: statuses()["running"] == 5)
        for item in ("flood", "moon"):
            (folder / f"hold-{item}").unlink()
        assert process.wait(30) == 0
    assert {line["outcome"] for line in all_runs().values()} == {"accepted"}
    for run, line in all_runs().items():
        told = Counter(names(run))
        assert told["run.paused.v1"] == told["run.resumed.v1"] <= 1, run
        assert line["status"] == "ended"
    assert call("audit", "--all", "--verify").code == 0


def test_the_doctor_finds_nothing_wrong_with_items_under_way_nor_with_ones_that_failed(killed: str) -> None:
    assert "every open request can be built" in call("doctor").out
    said("cancel", next(run for run, line in all_runs().items() if "~" in run and line["status"] != "ended"))
    assert call("run", "--resume", killed, "--quiet").code == 1
    assert "every open request can be built" in call("doctor").out
