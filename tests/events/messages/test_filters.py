"""Which events a filter lets through: every field alone, together, and what a run is when its start did not come by."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.streams import START, article_told, book_told, recorded

from redraft.events.errors import InputError
from redraft.events.messages.domain_events import LoopEnded, RunEnded, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import EventFilter, RunFacts, Sieve, about, event_filter, matches

ARTICLE = [replace(each, position=each.version) for each in recorded("a", article_told())]
BOOK = [replace(each, position=100 + each.version) for each in recorded("b", book_told())]
TAGGED = replace(BOOK[0], data=replace(BOOK[0].data, tags=("spring", "sea")))
LOG = [*ARTICLE, TAGGED, *BOOK[1:]]


class Runs:
    """Looks up what runs are, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, run: str) -> RunFacts:
        self.asked.append(run)
        return {"a": RunFacts("article"), "b": RunFacts("book", ("spring", "sea"))}.get(run, RunFacts())


async def passed(wanted: EventFilter, log: Iterable[Recorded] = LOG) -> list[int]:
    sieve = Sieve(wanted, Runs())
    return [event.position for event in log if await sieve.passes(event)]


def positions(events: Iterable[Recorded]) -> list[int]:
    return [event.position for event in events]


async def test_no_field_wants_everything() -> None:
    assert await passed(EventFilter()) == positions(LOG)


async def test_types_with_or_without_their_version() -> None:
    ends = [each for each in LOG if isinstance(each.data, LoopEnded | RunEnded)]
    assert await passed(event_filter(types=["loop.ended", "run.ended.v1"])) == positions(ends)


async def test_runs_workflows_and_tags_one_of_several_is_enough() -> None:
    assert await passed(event_filter(runs=["b", "c"])) == positions(BOOK)
    assert await passed(event_filter(workflows=["book"])) == positions(BOOK)
    assert await passed(event_filter(workflows=["book", "article"])) == positions(LOG)
    assert await passed(event_filter(tags=["sea", "land"])) == positions(BOOK)
    assert await passed(event_filter(tags=["Sea"])) == []


async def test_outcomes_are_those_of_the_events_that_end_something() -> None:
    ended = [each for each in BOOK if isinstance(each.data, LoopEnded | RunEnded)]
    assert await passed(event_filter(outcomes=["exhausted"])) == positions(ended)
    assert await passed(event_filter(outcomes=["exhausted"], types=["run.ended"])) == positions(BOOK[-1:])
    assert await passed(event_filter(outcomes=["cancelled"])) == []


async def test_since_is_included_and_until_is_not() -> None:
    third, fifth = START + timedelta(seconds=3.5), START + timedelta(seconds=7)
    assert await passed(event_filter(since=third, until=fifth), ARTICLE) == [3, 4]
    assert await passed(event_filter(since=fifth), ARTICLE) == positions(ARTICLE[4:])


async def test_every_field_has_to_fit() -> None:
    wanted = event_filter(types=["run.ended"], workflows=["book"], tags=["sea"], outcomes=["exhausted"], since=START)
    assert await passed(wanted) == positions(BOOK[-1:])
    for other in ({"runs": frozenset("a")}, {"workflows": frozenset(["article"])}, {"until": START}):
        assert await passed(replace(wanted, **other)) == []


async def test_a_run_whose_start_did_not_come_by_is_looked_up_once_and_only_when_needed() -> None:
    runs = Runs()
    sieve = Sieve(event_filter(tags=["sea"], types=["draft.critiqued", "run.ended"]), runs)
    assert [each.position for each in LOG[5:] if await sieve.passes(each)] == [
        each.position for each in BOOK if each.name in sieve.criteria.types
    ]
    assert runs.asked == ["a"]
    plain = Sieve(event_filter(types=["run.ended"]), runs)
    assert [each.run for each in LOG if await plain.passes(each)] == ["a", "b"]
    assert runs.asked == ["a"]


def test_what_a_run_is_is_told_by_its_first_event_alone() -> None:
    assert about(TAGGED) == RunFacts("book", ("spring", "sea"))
    assert [about(each) for each in BOOK[1:]] == [None] * (len(BOOK) - 1)
    assert isinstance(TAGGED.data, RunStarted)
    assert not matches(event_filter(tags=["sea"]), TAGGED)
    assert matches(event_filter(tags=["sea"]), TAGGED, RunFacts("book", ("sea",)))


def test_what_cannot_be_wanted_is_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match=r"no event 'draft\.critqued'; did you mean draft\.critiqued\?"):
        event_filter(types=["draft.critqued"])
    with pytest.raises(InputError, match=r"no event 'xxxxx'; it is one of .*draft\.critiqued, "):
        event_filter(types=["xxxxx"])
    with pytest.raises(InputError, match=r"no run ends as 'acepted'; did you mean accepted\?"):
        event_filter(outcomes=["acepted"])
    with pytest.raises(InputError, match="nothing was recorded from 2025-03-09 14:30:02 on and before"):
        event_filter(since=START, until=START)


async def test_a_run_whose_events_keep_coming_is_looked_up_once_however_many_others_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("redraft.events.messages.filters.KEPT", 10)
    runs = Runs()
    sieve = Sieve(event_filter(workflows=["book"]), runs)
    for number in range(100):
        assert await sieve.passes(replace(ARTICLE[1], run="b"))
        assert not await sieve.passes(replace(ARTICLE[1], run=f"other-{number}"))
    assert runs.asked.count("b") == 1
