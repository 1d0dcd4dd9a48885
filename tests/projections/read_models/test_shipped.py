"""What ships says what happened: the work of actors, critiques, scores, publications, issues. On every place alike."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.projections.logs import ListLog, busy_log, chosen_told, contents, view_of
from tests.streams import START, Told, article, book, recorded

from redraft.actors.editing.issues import locate_issues
from redraft.events.errors import StoreError
from redraft.events.messages.content import Brief, Critique, Edit, Issue, Receipt, Refusal, new_draft
from redraft.events.messages.domain_events import (
    CriticSkipped,
    DraftCritiqued,
    DraftGenerated,
    DraftPublished,
    DraftRefined,
    EventRef,
    LoopEnded,
    RunErased,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Plan, Step
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.usage import Usage
from redraft.projections.backends import SHIPPED, ReadModels, open_views
from redraft.projections.engine.projection import Projection, Put, Table
from redraft.projections.engine.projector import catch_up, rebuild
from redraft.projections.engine.states import Switched
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.views import Views
from redraft.projections.engine.writer import Notice
from redraft.projections.read_models.actor_work import actors
from redraft.projections.read_models.choices import arms
from redraft.projections.read_models.costs import costs
from redraft.projections.read_models.critiques import critics, critiques_of
from redraft.projections.read_models.issues import digest, issue_counts, issues_of
from redraft.projections.read_models.publications import PUBLICATIONS, publications
from redraft.projections.read_models.scores import course, series
from redraft.projections.read_models.tree_nodes import tree_nodes
from redraft.projections.run_views.chart import scores

PLAN = Plan("plan", (Step("generator", "write", "write"),))
DRAFT = new_draft(1, "A text.")


def log_of(*runs: Sequence[Recorded]) -> list[Recorded]:
    """One log of these runs, one after the other."""
    return [replace(each, position=at) for at, each in enumerate((e for run in runs for e in run), 1)]


def view(*runs: Sequence[Recorded], where: StorageLocation = None) -> AbstractAsyncContextManager[Views]:
    return view_of(log_of(*runs), where)


async def test_every_projection_rebuilt_twice_gives_equal_rows(place: StorageLocation) -> None:
    log, told = busy_log(20), list[Notice]()
    async with view_of(log, place) as views:
        before = await contents(views)
    async with open_views(place, SHIPPED, told.append) as views:
        for _ in range(2):
            assert await rebuild(views, ListLog(log)) == len(log)
            assert await contents(views) == before
    assert [(each.projection, each.same) for each in told if isinstance(each, Switched)] == [
        (each.name, True) for each in SHIPPED * 2
    ]
    assert [name for name, rows in before.items() if not rows] == []


async def test_rows_made_of_chosen_events_and_of_whole_runs_are_those_of_each_event_by_itself() -> None:
    log = busy_log(20)
    async with open_views(None, [replace(each, only=(), apply_run=None) for each in SHIPPED]) as views:
        await catch_up(views, ListLog(log))
        expected = await contents(views)
    async with view_of(log) as views:
        assert await contents(views) == expected


# Actors


async def test_actors_are_told_with_their_work_time_and_failures(anywhere: StorageLocation) -> None:
    used = Usage(tokens=120, cost=0.5, calls=1, currency="USD")
    due = START + timedelta(minutes=5)
    told: list[Told] = [
        ("coordinator", RunStarted(PLAN, Brief("x"), START)),
        ("coordinator", StepRequested("judge", "critic", "judge", 1, due, DRAFT.ref)),
        ("judge", StepFailed("judge", 1, "timeout", "late", due, used)),
        ("coordinator", StepRequested("judge", "critic", "judge", 2, due, DRAFT.ref)),
        ("judge", DraftCritiqued("judge", 2, DRAFT.ref, Critique(0.5), used)),
        ("coordinator", StepRequested("other", "critic", "other", 1, due, DRAFT.ref)),
        ("coordinator", LoopEnded("loop", "accepted", "good", 1, DRAFT.ref, 0.5)),
        ("coordinator", StepRequested("save", "publisher", "save", 1, due, DRAFT.ref)),
    ]
    async with view(recorded("one", told), recorded("two", told[:2]), where=anywhere) as views:
        judge, other, save = await actors(views)
        assert (judge.actor, judge.asked, judge.done, judge.failed, judge.timeout) == ("judge", 3, 1, 1, 1)
        assert judge.open == 1
        assert (judge.runs, judge.tokens, judge.cost, judge.currency) == (2, 240, 1.0, "USD")
        assert (judge.seconds, judge.mean, judge.longest) == (1.75, 1.75, 1.75)
        assert (other.dropped, other.open, other.mean, other.seconds) == (1, 0, None, 0)
        assert (save.role, save.open) == ("publisher", 1)
        assert [each.asked for each in await actors(views, "two")] == [1]
        assert await actors(views, since=START + timedelta(days=1)) == []


async def test_who_was_not_asked_made_no_attempt(anywhere: StorageLocation) -> None:
    source = EventRef("earlier", 4)
    told: list[Told] = [
        ("coordinator", RunStarted(PLAN, Brief("x"), START)),
        ("coordinator", StepRequested("judge", "critic", "judge", 1, START, DRAFT.ref, reused=source)),
        ("coordinator", DraftCritiqued("judge", 1, DRAFT.ref, Critique(0.5), reused=source)),
        ("coordinator", CriticSkipped("costly", "large", DRAFT.ref, "not score 0.50 >= 0.7")),
    ]
    async with view(recorded("one", told), where=anywhere) as views:
        judge, costly = await actors(views)
        assert (judge.actor, judge.asked, judge.reused, judge.skipped, judge.done) == ("judge", 0, 1, 0, 0)
        assert (costly.actor, costly.asked, costly.reused, costly.skipped, costly.failed) == ("large", 0, 0, 1, 0)
        assert await costs(views, "actor") == []


async def test_amounts_in_different_currencies_are_not_taken_for_one(anywhere: StorageLocation) -> None:
    def run(name: str, currency: str) -> Sequence[Recorded]:
        usage = Usage(tokens=1, cost=1.0, calls=1, currency=currency)
        asked = StepRequested("judge", "critic", "judge", 1, START, DRAFT.ref)
        done = DraftCritiqued("judge", 1, DRAFT.ref, Critique(0.5), usage)
        return recorded(name, [("c", RunStarted(PLAN, Brief("x"), START)), ("c", asked), ("judge", done)])

    async with view(run("one", "USD"), run("two", "EUR"), run("three", ""), where=anywhere) as views:
        ((both,), (usd,), (plain,)) = (await actors(views), await actors(views, "one"), await actors(views, "three"))
        assert (both.currency, usd.currency, plain.currency) == ("mixed", "USD", "")


# Critics and scores


async def test_critics_are_told_by_what_they_said(anywhere: StorageLocation) -> None:
    async with view(article(run="one"), book(run="two"), where=anywhere) as views:
        found = {each.critic: each for each in await critics(views)}
        judge = found["judge"]
        assert (judge.critiques, judge.runs, judge.approved, judge.errors, judge.suggestions) == (3, 1, 1, 2, 3)
        assert (judge.lowest, judge.highest, round(judge.mean, 4)) == (0.614, 0.931, 0.7858)
        assert set(found) == {"judge", "prose", "facts"}
        said = await critiques_of(views, "one")
        assert [(each.draft, each.score, each.approved) for each in said] == [
            (1, 0.614, None),
            (2, 0.8125, None),
            (3, 0.931, True),
        ]
        assert await critics(views, START + timedelta(days=1)) == []


@given(st.integers(0, 200))
async def test_the_series_of_a_run_is_what_its_events_fold_to(seed: int) -> None:
    log = busy_log(6, seed)
    async with view_of(log) as views:
        for run in {event.run for event in log}:
            events = [event for event in log if event.run == run]
            kept = [(each.draft, each.score) for each in await series(views, run)]
            assert kept == [(each.draft, each.score) for each in scores(events)]


async def test_the_course_of_all_runs_is_told_draft_by_draft(anywhere: StorageLocation) -> None:
    async with view(article(run="one"), article(run="two"), where=anywhere) as views:
        assert [(each.draft, each.runs, each.mean) for each in await course(views)] == [
            (1, 2, 0.614),
            (2, 2, 0.8125),
            (3, 2, 0.931),
        ]
        assert [each.critics for each in await series(views, "one")] == [1, 1, 1]


# Publications


async def test_publications_are_told_the_latest_first_and_forgotten_when_a_run_is_erased(
    anywhere: StorageLocation,
) -> None:
    erased: list[Told] = [
        ("coordinator", RunStarted(PLAN, Brief("x"), START)),
        ("save", DraftPublished("save", 1, DRAFT.ref, Receipt("out/\x1b[31m.md", "note"))),
        ("ann", RunErased("ann")),
    ]
    async with view(article(run="one"), recorded("two", erased), where=anywhere) as views:
        (last, first) = await publications(views)
        assert (last.run, last.location, last.note) == ("one", "out/essay.md", "1 file")
        assert (first.run, first.location, first.note, first.sha256) == ("two", ERASED, ERASED, ERASED)
        assert [each.run for each in await publications(views, "two")] == ["two"]
        assert len(await publications(views, limit=1)) == 1
        assert await publications(views, since=START + timedelta(days=1)) == []


# Issues


def judged(run: str, *said: tuple[str, Sequence[str]], errors: Sequence[str] = ()) -> Sequence[Recorded]:
    """A run whose critics say these things, at these paths, of one draft after the other."""
    told: list[Told] = [("coordinator", RunStarted(PLAN, Brief("x"), START))]
    for number, (path, suggestions) in enumerate(said, 1):
        critique = Critique(0.5, suggestions=tuple(suggestions), errors=tuple(errors), critic=path.rpartition("/")[2])
        told.append(("judge", DraftCritiqued(path, 1, new_draft(number, f"{number}").ref, critique)))
    return recorded(run, told)


async def test_an_issue_is_raised_fixed_and_comes_back(anywhere: StorageLocation) -> None:
    run = judged(
        "one",
        ("Loop[1]/judge", ["Say why.", "Shorter", "say  WHY"]),
        ("Loop[2]/judge", ["shorter!"]),
        ("Loop[3]/judge", ["Say why", "new"]),
        ("Loop[closing]/judge", ["Say why"]),
    )
    async with view(run, judged("two", ("judge", ["Say why"])), where=anywhere) as views:
        found = {each.text: each for each in await issues_of(views, "one")}
        assert list(found) == ["Say why.", "Shorter", "new"]
        why = found["Say why."]
        assert (why.status, why.named, why.returns, why.first, why.latest, why.fixed) == ("returned", 3, 1, 1, 4, None)
        shorter = found["Shorter"]
        assert (shorter.status, shorter.named, shorter.latest, shorter.fixed) == ("fixed", 2, 2, 3)
        assert (found["new"].status, found["new"].fixed) == ("fixed", 4)
        (counted,) = await issue_counts(views)
        assert (counted.raised, counted.fixed, counted.open, counted.returned, counted.runs) == (4, 2, 2, 1, 2)


async def test_an_issue_with_a_place_is_known_by_its_id_and_so_is_who_answers_or_declines_it(
    anywhere: StorageLocation,
) -> None:
    texts = [new_draft(number, f"Teh tide {number}") for number in (1, 2, 3)]
    slip = Issue("misspelled", "Teh", (0, 3), "spelling", "error", "The", id="slip")
    dull = Issue("dull", "tide", (4, 8), id="dull")
    told: list[Told] = [("coordinator", RunStarted(PLAN, Brief("x"), START))]
    for number, said in enumerate(((slip, dull), (replace(slip, text="still misspelled"),), (dull,)), 1):
        critique = locate_issues(Critique(0.5, issues=said, critic="judge"), texts[number - 1].text, ("spelling",))
        told.append(("judge", DraftCritiqued(f"Loop[{number}]/judge", 1, texts[number - 1].ref, critique)))
        if number < 3:
            edits, refused = (Edit("Teh", "The", ("slip",)),), (Refusal("dull", "it is meant so"),)
            made = DraftRefined(f"Loop[{number}]/improve", 1, texts[number - 1].ref, texts[number], edits=edits)
            told.append(("improve", replace(made, refusals=refused) if number == 2 else made))
    async with view(recorded("one", told), where=anywhere) as views:
        first, second = sorted(await issues_of(views, "one"), key=lambda each: each.kind)
        (errors, suggestions) = await issue_counts(views)
    assert (first.text, first.quote, first.criterion, first.severity) == (
        "“Teh”: misspelled",
        "Teh",
        "spelling",
        "error",
    )
    assert (first.status, first.named, first.answered, first.fixed, first.declined) == ("fixed", 2, 3, 3, None)
    assert (second.status, second.returns, second.severity, second.answered) == ("returned", 1, "warning", None)
    assert (second.declined, second.why) == (3, "it is meant so")
    assert (errors.declined, suggestions.declined) == (0, 1)


async def test_the_issues_of_an_encrypted_run_are_one_of_each_kind_told_once(anywhere: StorageLocation) -> None:
    text = new_draft(1, "Teh tide")
    said = (Issue("misspelled", "Teh", severity="error"), Issue("odd", "tide"), Issue("dull", "tide"))
    critique = locate_issues(Critique(0.5, issues=said, suggestions=("Shorter",), critic="judge"), text.text, ())
    told: list[Told] = [
        ("coordinator", RunStarted(PLAN, Brief("x"), START)),
        ("judge", DraftCritiqued("Loop[1]/judge", 1, text.ref, critique)),
        ("judge", DraftCritiqued("Loop[2]/judge", 1, text.ref, Critique(0.5, suggestions=("Shorter",)))),
    ]
    events = [replace(each, encrypted=True) for each in recorded("one", told)]
    async with view(events, where=anywhere) as views:
        found = {each.kind: each for each in await issues_of(views, "one")}
        assert [each.raised for each in await issue_counts(views)] == [1, 1]
    assert [(each.text, each.named) for each in found.values()] == [("[encrypted]", 1), ("[encrypted]", 2)]
    assert (found["error"].status, found["suggestion"].status) == ("fixed", "raised")


async def test_what_a_refiner_declines_in_the_words_of_a_suggestion_is_that_suggestion(
    anywhere: StorageLocation,
) -> None:
    run = judged("one", ("Loop[1]/judge", ["Say why.", "Shorter"]))
    first, second = new_draft(1, "1"), new_draft(2, "2")
    declined = DraftRefined("Loop[1]/improve", 1, first.ref, second, declined=("say why — it is known", "no dash"))
    told = [*((each.actor, each.data) for each in run), ("improve", declined)]
    async with view(recorded("one", told), where=anywhere) as views:
        found = {each.text: (each.declined, each.why) for each in await issues_of(views, "one")}
    assert found == {"Say why.": (2, "it is known"), "Shorter": (None, "")}


async def test_issues_of_other_critics_kinds_and_texts_are_others(anywhere: StorageLocation) -> None:
    run = judged(
        "one",
        ("Book[1]/Chapter[1]/judge", ["a"]),
        ("Book[1]/Chapter[1]/other", ["a"]),
        ("Book[2]/Chapter[1]/judge", ["b"]),
        errors=("a",),
    )
    told = [(each.actor, each.data) for each in run]
    told.insert(3, ("writer", DraftGenerated("Book[2]/write", 1, new_draft(3, "3"))))
    async with view(recorded("one", told), where=anywhere) as views:
        found = await issues_of(views, "one")
        assert [(each.critic, each.kind, each.text, each.status) for each in found] == [
            ("judge", "error", "a", "raised"),
            ("judge", "suggestion", "a", "raised"),
            ("other", "error", "a", "raised"),
            ("other", "suggestion", "a", "raised"),
            ("judge", "error", "a", "raised"),
            ("judge", "suggestion", "b", "raised"),
        ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Say why.", "say  WHY", True),
        ("line 3: “teh”", "line 14: “teh”", True),
        ("line 3:7 x", "Line 4:1: x.", True),
        ("say why", "say how", False),
        ("use 3 words", "use 4 words", False),
    ],
)
def test_words_tell_issues_apart(one: str, other: str, same: bool) -> None:
    assert (digest(one) == digest(other)) is same


# Forks, erasure, and asking


async def test_what_a_fork_repeats_is_not_counted_again(anywhere: StorageLocation) -> None:
    parent = article(run="one")
    fork = [replace(each, run="fork", repeats=each.id if each.version > 1 else "") for each in parent[:-1]]
    async with view(parent, where=anywhere) as alone, view(parent, fork) as both:
        assert await actors(both) == await actors(alone)
        assert await critics(both) == await critics(alone)
        assert await course(both) == await course(alone)
        assert await issue_counts(both) == await issue_counts(alone)
        assert await publications(both) == await publications(alone)
        assert [each.score for each in await series(both, "fork")] == [0.614, 0.8125, 0.931]
        assert len(await issues_of(both, "fork")) == len(await issues_of(alone, "one"))


async def test_rows_of_one_workflow_are_those_of_a_log_with_its_runs_alone(anywhere: StorageLocation) -> None:
    alone, other = [recorded(f"chosen-{n}", chosen_told(n)) for n in range(3)], [article(run="one"), book(run="two")]
    async with view(*other, *alone, where=anywhere) as views, view(*alone) as few:
        for asked in (actors, arms, critics, course, publications, issue_counts):
            assert await asked(views, workflow="chosen") == await asked(few)
            assert await asked(views, workflow="nobody's") == []
            assert await asked(views, workflow="") == await asked(views)
        found = await tree_nodes(views, workflow="chosen")
        assert {each.run for each in found} == {"chosen-0", "chosen-1", "chosen-2"}
        assert [each.path for each in found] == [each.path for each in await tree_nodes(few)]
        of_articles = [each.run for each in await publications(views, workflow="article")]
        assert of_articles == ["one"] == [each.run for each in await publications(views, "one")]
        assert await critics(views, workflow="article") != await critics(views) != []


async def test_no_text_of_an_erased_run_is_left_in_any_row(anywhere: StorageLocation) -> None:
    run = article(run="one")
    erased = replace(run[-1], version=len(run) + 1, name="run.erased.v1", data=RunErased("ann"), id="last")
    async with view([*run, erased], where=anywhere) as views:
        rows = str(await contents(views))
    for text in ("spell it right", "Teh", "essay.md", "tides", "fixed 3 spellings", "the model is busy"):
        assert text not in rows


async def test_read_models_are_up_to_date_whenever_they_are_asked_for(place: StorageLocation) -> None:
    log = log_of(article(run="one"), article(run="two"))
    half = len(log) // 2
    async with ReadModels(place, ListLog(log[:half])) as models:
        assert [each.run for each in await publications(await models.of(PUBLICATIONS))] == ["one"]
    async with ReadModels(place, ListLog(log)) as models:
        views = await models.of(PUBLICATIONS)
        assert [each.run for each in await publications(views)] == ["two", "one"]
        assert await models.of(PUBLICATIONS) is views
        tables = (Table("ended", {"run": "TEXT NOT NULL"}),)
        first = Projection("ended", 1, tables, lambda event: [Put("ended", {"run": event.run})])
        assert await (await models.of(first)).query("SELECT count(*) FROM ended") == [(2,)]
        later = Projection("ended", 2, tables, lambda event: ())
        assert await (await models.of(later)).query("SELECT count(*) FROM ended") == [(0,)]

        def broken(event: Recorded) -> Sequence[object]:
            raise LookupError("no use")

        with pytest.raises(StoreError, match="'ended' has stopped at event 1: LookupError: no use"):
            await models.of(Projection("ended", 3, tables, broken))  # type: ignore[arg-type]
