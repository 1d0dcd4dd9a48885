"""Runs with times that no clock shows: an archive with one is refused, and one in the store concerns itself alone."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.app.cli_calls import call, one_line, said
from tests.forged import first_events, put_rows, retold, write_archive

from redraft.app.settings.settings import read_settings
from redraft.app.wiring.coordinator_views import StepsAgenda
from redraft.app.wiring.stores import open_store_of, open_views_of
from redraft.events.store.raw_rows import RawRow
from redraft.projections.engine.projector import catch_up

LAST = "9999-12-31T23:59:59.999999Z"
STRANGE = [LAST, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"]
YEAR = timedelta(days=366)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.check)])
def events(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> list[RawRow]:
    """The events of the one run of the store that the environment names."""
    url = "sqlite:///store.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("REDRAFT_STORE", url)
    said("run", "The sea is calm.", "--quiet")
    return asyncio.run(first_events(url, 3))


def statuses() -> dict[str, str]:
    return {line["run"]: line["status"] for line in json.loads(said("list", "--json"))}


def stored(rows: list[RawRow]) -> None:
    asyncio.run(put_rows(read_settings().store, rows))


@pytest.mark.parametrize("time", STRANGE)
def test_a_run_at_the_end_of_the_calendar_is_listed_named_and_set_aside(events: list[RawRow], time: str) -> None:
    good = events[0].run
    stored(retold(events, "strange", time, at=time, due=time))
    assert statuses() == {good: "ended", "strange": "running"}
    said("list")
    said("show", "strange")
    said("events")
    checked = call("doctor")
    assert checked.code == 0, checked.out
    (warned,) = [line for line in checked.out.splitlines() if line.startswith("warn times")]
    assert "run strange has times that no clock shows" in warned
    assert "redraft quarantine strange --reason" in warned
    said("quarantine", "strange", "--reason", "its times")
    assert statuses() == {good: "ended", "strange": "quarantined"}
    assert "times that no clock shows" not in call("doctor").out
    said("rebuild")
    assert statuses() == {good: "ended", "strange": "quarantined"}


async def look_for_sound() -> None:
    """Asks what the timekeeper and the search for missing requests ask; a sound run must be among what is found."""
    now = datetime.now(UTC) + YEAR
    async with open_store_of(read_settings()) as store, open_views_of(read_settings()) as views:
        await catch_up(views, store)
        agenda = StepsAgenda(views, None)
        (actor,) = await agenda.actors()
        assert {step.run for step in await agenda.unanswered(actor, 1_000, 10)} == {"strange", "sound"}
        assert "sound" in {step.run for step in await agenda.due(now, 10)}
        assert "sound" in {step.run for step in await agenda.waited(actor, now, YEAR, timedelta(0), 10)}
        await agenda.next_due(now)
        before = await agenda.next_due(now - 2 * YEAR)
        assert before is not None
        assert before < now


@pytest.mark.parametrize("time", STRANGE)
def test_what_others_wait_for_is_looked_for_beside_a_request_that_is_never_due(events: list[RawRow], time: str) -> None:
    stored([*retold(events[:2], "strange", due=time), *retold(events[:2], "sound")])
    asyncio.run(look_for_sound())
    assert "run strange has times that no clock shows" in call("doctor").out


@pytest.mark.parametrize("time", [*STRANGE, "1969-12-31T23:59:59Z", "9000-01-01T00:00:00Z", "2026-01-01T00:00:00"])
@pytest.mark.parametrize("field", ["time", "at", "due"])
def test_an_archive_with_such_a_time_is_refused_whole(events: list[RawRow], time: str, field: str) -> None:
    sound = retold(events[:2], "sound")  # it waits for an answer, as a run that was exported on its way does
    write_archive(Path("archive"), [*sound, *retold(events, "strange", **{field: time})])
    refused = call("import", "archive")
    assert refused.code == 2
    line = one_line(refused)
    place = f"of run strange ({events[1 if field == 'due' else 0].name})"
    assert f"{place} has a time that no clock shows ({field} " in line
    assert "redraft export --without strange" in line
    assert list(statuses()) == [events[0].run]
    write_archive(Path("archive"), sound)
    said("import", "archive")
    assert "sound" in statuses()
