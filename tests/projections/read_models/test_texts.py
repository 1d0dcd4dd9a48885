"""Briefs and drafts are found by their words, in SQLite and PostgreSQL alike; encrypted and erased ones are not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.projections.logs import ListLog, view_of
from tests.streams import START, Told, recorded

from redraft.events.errors import InputError
from redraft.events.messages.content import Brief, new_draft
from redraft.events.messages.domain_events import DraftGenerated, RunErased, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan, Step
from redraft.projections.backends import SHIPPED, open_views
from redraft.projections.engine.projector import catch_up, rebuild
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.views import Views
from redraft.projections.read_models.runs_query import RunFilter, count_runs, page_of_runs
from redraft.projections.read_models.texts import (
    LONGEST_TEXT,
    LONGEST_WORD,
    MOST_PHRASES,
    MOST_WORDS,
    TEXTS,
    matches,
    read_search,
)

PLAN = Plan("plan", (Step("generator", "write", "write"),))


def run(name: str, brief: str, *drafts: str) -> Sequence[Recorded]:
    told: list[Told] = [("ann", RunStarted(PLAN, Brief(brief), START))]
    told += [("write", DraftGenerated("write", 1, new_draft(at, text))) for at, text in enumerate(drafts, 1)]
    return recorded(name, told)


def log_of(*runs: Sequence[Recorded]) -> list[Recorded]:
    return [replace(each, position=at) for at, each in enumerate((e for run in runs for e in run), 1)]


TIDES = run(
    "tides", "Why tides exist", "The Moon pulls.", "The moon\u2019s pull makes spring tides, in Z\u00fcrich too."
)
WAVES = run(
    "waves",
    "Waves: a well-known tale",
    "Wind makes waves; see https://example.com/spring_break.html and 2nd-hand \u6f6e.",
)
STONES = run("stones", "Stones", "STRASSE tidewater, spring and tides")


async def found(views: Views, search: str) -> dict[str, list[int]]:
    """The drafts (0: the brief) of each run in which a search finds its words."""
    lists: dict[str, list[int]] = {}
    for each in await matches(views, read_search(search), ["tides", "waves", "stones", "secret"]):
        lists.setdefault(each.run, []).append(each.draft)
    runs = {line.run for line in await page_of_runs(views, RunFilter(search=search), 10)}
    assert runs == set(lists)
    assert await count_runs(views, RunFilter(search=search)) == len(runs)
    return lists


@pytest.mark.parametrize(
    ("search", "places"),
    [
        ("tides", {"tides": [0, 2], "stones": [1]}),
        ("TIDES moon", {"tides": [2]}),
        ('"spring tides"', {"tides": [2]}),
        ('"spring tid*"', {"tides": [2]}),
        ("spring tides", {"tides": [2], "stones": [1]}),
        ("tid*", {"tides": [0, 2], "stones": [1]}),
        ("tid", {}),
        ("moon\u2019s", {"tides": [2]}),
        ("well-known", {"waves": [0]}),
        ("known well", {"waves": [0]}),
        ("example.com", {"waves": [1]}),
        ("break", {"waves": [1]}),
        ("html", {"waves": [1]}),
        ("2nd", {"waves": [1]}),
        ("\u6f6e", {"waves": [1]}),
        ("z\u00fcrich", {"tides": [2]}),
        ("zu\u0308rich", {"tides": [2]}),
        ("zurich", {}),
        ("stra\u00dfe", {"stones": [1]}),
        ("the NOT tides OR", {}),
    ],
)
async def test_words_are_found_in_briefs_and_drafts(
    anywhere: StorageLocation, search: str, places: dict[str, list[int]]
) -> None:
    async with view_of(log_of(TIDES, WAVES, STONES), anywhere) as views:
        assert await found(views, search) == places


async def test_encrypted_and_erased_texts_are_not_found(anywhere: StorageLocation) -> None:
    secret = [replace(each, encrypted=True) for each in run("secret", "Secret tides", "more tides")]
    gone = [*STONES, *recorded("stones", [("ann", RunErased("asked to", "ann"))])]
    gone[-1] = replace(gone[-1], version=len(gone))
    async with view_of(log_of(TIDES, secret, gone), anywhere) as views:
        assert await found(views, "tides") == {"tides": [0, 2]}
        assert await views.query("SELECT count(*) FROM texts WHERE run <> 'tides'") == [(0,)]


async def test_a_search_works_after_rebuilding_twice_and_dropping(place: StorageLocation) -> None:
    log = log_of(TIDES, WAVES, STONES)
    async with open_views(place, SHIPPED) as views:
        await catch_up(views, ListLog(log))
        for _ in range(2):
            await rebuild(views, ListLog(log), "texts")
            assert await found(views, "tides") == {"tides": [0, 2], "stones": [1]}
        await views.reset(["texts"])
        assert await found(views, "tides") == {}
        await catch_up(views, ListLog(log))
        assert await found(views, "moon") == {"tides": [1, 2]}
        await views.drop("texts")
    async with open_views(place, SHIPPED) as views:
        await catch_up(views, ListLog(log))
        assert await found(views, "moon") == {"tides": [1, 2]}


async def test_a_long_text_is_searched_in_its_beginning(anywhere: StorageLocation) -> None:
    many = " ".join(f"\U00010330{number:05}" for number in range(LONGEST_TEXT))
    log = log_of(run("tides", f"first {many} last", "x" * 3_000))
    async with view_of(log, anywhere) as views:
        assert await found(views, "first") == {"tides": [0]}
        assert await found(views, "last") == {}
        assert await found(views, "x" * 200) == {"tides": [1]}
        (state,) = [each for each in await views.states() if each.name == TEXTS.name]
        assert (state.position, state.failed) == (len(log), 0)


async def test_a_search_reads_only_what_has_its_words() -> None:
    async with open_views(None, SHIPPED) as views:
        conditions, given = RunFilter(search="absent").condition(views)
        condition = " AND ".join(conditions)
        plan = await views.query(f"EXPLAIN QUERY PLAN SELECT run FROM runs WHERE {condition}", given)  # noqa: S608
    assert [line for *_, line in plan if "texts USING COVERING INDEX" in str(line)]
    assert not [line for *_, line in plan if str(line).startswith("SCAN texts")]


async def test_postgres_keeps_the_words_that_it_compares_with_a_phrase(postgres_url: str) -> None:
    async with view_of(log_of(run("tides", "the moon pulls harder")), postgres_url) as views:
        matching, _ = views.matching(TEXTS.tables[0], read_search('"moon pulls"'))
        assert "to_tsvector" not in matching  # it would take apart each text that has the words
        assert await found(views, '"moon pulls"') == {"tides": [0]}
        assert await found(views, '"pulls moon"') == {}


@pytest.mark.parametrize("search", ["", " ", "*", '""', "\u2026", "a " * 21])
def test_a_search_without_a_word_or_with_too_many_is_refused(search: str) -> None:
    with pytest.raises(InputError, match="search"):
        read_search(search)


def test_a_phrase_of_too_many_words_is_refused() -> None:
    (phrase,) = read_search('"' + "a " * MOST_WORDS + '"')
    assert len(phrase.words) == MOST_WORDS
    for search in ('"' + "a " * (MOST_WORDS + 1) + '"', "a_" * 16_000):
        with pytest.raises(InputError, match=r"a phrase of the search has [0-9,]+ words; give 100 at most"):
            read_search(search)


async def test_a_search_for_the_longest_phrases_is_answered(anywhere: StorageLocation) -> None:
    async with open_views(anywhere, SHIPPED) as views:
        phrase = " ".join(["\N{CUNEIFORM SIGN A}" * LONGEST_WORD] * MOST_WORDS)
        longest = " ".join([f'"{phrase}"'] * MOST_PHRASES)
        assert await found(views, longest) == {}
