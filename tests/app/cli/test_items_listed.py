"""Runs of items in lists and figures: shown when they are asked for, and counted once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.app.cli_calls import call, document, one_line, said
from tests.app.itemized import all_runs, items_of, run_book, write_book

from redraft.app.settings.settings import read_settings
from redraft.app.wiring.local import open_readonly
from redraft.events.messages.usage import Usage
from redraft.projections.read_models.runs_query import spent_on


@pytest.fixture(params=["sqlite", "postgres"])
def book(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run with runs of items at two depths, in a store of its own."""
    write_book(home)
    url = "sqlite:///store.db" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))
    monkeypatch.setenv("REDRAFT_STORE", url)
    return run_book()


def listed(*options: str) -> set[str]:
    return {each["run"] for each in document("list", *options)}


def test_runs_of_items_are_listed_when_they_are_asked_for(book: str) -> None:
    assert listed() == {book}
    assert document("list", "--count") == {"runs": 1}
    every = all_runs()
    assert len(every) == 6
    chapters = {run for run, line in every.items() if line["workflow"] == "book-Chapters"}
    assert listed("--of", book) == listed("--of", "last") == listed("--workflow", "book-Chapters") == chapters
    assert len(chapters) == 2
    for chapter in chapters:
        inside = listed("--of", chapter)
        assert inside
        assert all(every[each]["item_of"] == chapter for each in inside)
    assert every[book]["item_of"] is None


def test_a_run_is_meant_rather_than_those_of_its_items(book: str) -> None:
    for text in ("last", book[:12], book):
        assert said("show", text, "--text") == "Tides on moon"
    (inside, *_) = items_of(book)
    assert call("show", inside[-21:], "--text").code == 0


def test_usage_is_counted_once(book: str) -> None:
    every = all_runs()
    assert every[book]["tokens"] == 35
    (day,) = document("stats", "costs", "--by", "day")
    assert (day["attempts"], day["calls"], day["tokens"], day["cost"]) == (4, 4, 35, 1.75)
    assert {each["name"]: each["tokens"] for each in document("stats", "costs", "--by", "actor")} == {
        "generator sum_up": 5,
        "generator write": 30,
    }
    assert {(each["role"], each["actor"]) for each in document("stats", "actors")} == {
        ("generator", "sum_up"),
        ("generator", "write"),
    }


async def test_what_a_day_has_spent_includes_items_once(book: str) -> None:
    async with open_readonly(read_settings()) as log:
        now = datetime.now(UTC)
        assert await spent_on(log.views, "book", now) == Usage(35, 1.75, 4)
        assert await spent_on(log.views, "book", now, book) == Usage()
        assert await spent_on(log.views, "book-Chapters", now) == Usage()


@pytest.mark.parametrize("book", ["sqlite"], indirect=True)
def test_who_asks_what_an_item_was_given_is_told_of_the_run_that_works_on_it(book: str) -> None:
    refused = call("show", book, "--step", "Chapters[1]")
    (chapter,) = [each for each in items_of(book) if document("show", each)["of"]["path"] == "Chapters[1]"]
    assert refused.code == 2
    assert one_line(refused) == (
        f"--step: Chapters[1] is an item, which run {chapter} works on; see redraft show {chapter}, "
        f"or what a step of it was given: redraft show {chapter} --step PATH"
    )
    (section,) = [each for each in items_of(chapter) if document("show", each)["of"]["path"] == "Sections[2]"]
    assert document("show", section, "--step", "write")["command"]["request"]["run"] == section
