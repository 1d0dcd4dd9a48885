"""What the read models say of a run that a person has set aside."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace
from tests.projections.logs import ListLog, busy_log, contents, made_afresh, view_of
from tests.streams import Told, article, article_told, recorded

from redraft.events.messages.domain_events import RunQuarantined, StepRequested
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.projections.backends import SHIPPED, open_views
from redraft.projections.engine.projection import Change, Projection, Put, Table
from redraft.projections.engine.projector import catch_up
from redraft.projections.engine.states import SetAside
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.writer import Notice
from redraft.projections.read_models.actor_work import actors
from redraft.projections.read_models.runs import RUNS
from redraft.projections.read_models.runs_query import list_runs
from redraft.projections.read_models.steps import list_due, steps_of
from redraft.projections.read_models.tree_nodes import tree_nodes
from redraft.projections.run_views.sentences import history
from redraft.projections.run_views.tree import tree

ASIDE: Told = ("ann", RunQuarantined("ann", "its answers\nare those of another run"))


def open_run(run: str = "one") -> list[Told]:
    """A run whose critic is at work, set aside then."""
    told = article_told()
    last = next(at for at, (_, event) in enumerate(told) if isinstance(event, StepRequested) and event.role == "critic")
    return [*told[: last + 1], ASIDE]


async def test_a_run_set_aside_is_listed_as_such_and_nothing_of_it_is_due(anywhere: StorageLocation) -> None:
    ended = article(run="two")
    aside = replace(recorded("two", [ASIDE])[0], version=len(ended) + 1)
    log = [replace(each, position=at) for at, each in enumerate((*recorded("one", open_run()), *ended, aside), 1)]
    async with view_of(log, anywhere) as views:
        for run in await list_runs(views, status="quarantined"):
            assert (run.status, run.outcome) == ("quarantined", None)
            assert run.reason == "its answers\nare those of another run"
        assert {run.run for run in await list_runs(views, status="quarantined")} == {"one", "two"}
        assert await steps_of(views, "one") == []
        assert await list_due(views, datetime(2100, 1, 1, tzinfo=UTC)) == []
        assert [each.open for each in await actors(views)] == [0] * len(await actors(views))
        assert not [each for each in await tree_nodes(views) if each.status == "open"]


async def test_a_run_of_which_nothing_was_read_until_then_is_listed_too(anywhere: StorageLocation) -> None:
    aside = replace(recorded("one", [ASIDE])[0], version=7, position=1)
    async with view_of([aside], anywhere) as views:
        (run,) = await list_runs(views)
        assert (run.run, run.status, run.workflow, run.version, run.reason) == (
            "one",
            "quarantined",
            "",
            7,
            "its answers\nare those of another run",
        )


def test_the_story_and_the_tree_say_who_set_it_aside_and_why() -> None:
    events = recorded("one", open_run())
    last = history(events)[-1]
    assert (
        last.sentence == "ann set the run aside, and nothing more is done for it: its answers are those of another run"
    )
    found = tree(events)
    assert found.quarantined == "by ann: its answers are those of another run"
    assert "open" not in str(found.branches)


LOG = busy_log(12)
AT = 40


def unreadable(event: Recorded) -> Unreadable:
    return Unreadable(event.run, event.version, event.position, "run.sung.v1", "no event is named so", event.hash, True)


def damaged() -> tuple[list[Recorded | Unreadable], str]:
    """The log with an event in it that cannot be read, and the run of that."""
    return [unreadable(event) if event.position == AT else event for event in LOG], LOG[AT - 1].run


def of_others(rows: dict[str, list[tuple[object, ...]]], run: str) -> dict[str, list[tuple[object, ...]]]:
    """The rows of all other runs; tallies over all runs are left out."""
    return {name: [row for row in found if run not in row] for name, found in rows.items() if name != "choices"}


async def test_what_cannot_be_read_sets_its_run_aside_and_nothing_else(place: StorageLocation) -> None:
    entries, run = damaged()
    told: list[Notice] = []
    for _ in range(2):  # also after a restart, and then it is not told again
        async with open_views(place, SHIPPED, told.append) as views:
            assert await catch_up(views, ListLog(entries)) == len(LOG) == views.position  # type: ignore[arg-type]
            (line,) = [each for each in await list_runs(views, limit=99) if each.run == run]
            assert line.status == "unreadable"
            assert line.reason.endswith(f"from event {LOG[AT - 1].version} on (position {AT}): no event is named so")
            assert await steps_of(views, run) == []
            rows = await contents(views)
            assert {each.run for each in await views.aside()} == {run}
        assert of_others(rows, run) == of_others(await made_afresh(LOG), run)
    assert told == [SetAside(run, LOG[AT - 1].version, AT, "no event is named so")]


async def test_a_release_that_can_read_it_makes_the_rows_of_the_run_whole(anywhere: StorageLocation) -> None:
    entries, _ = damaged()
    async with open_views(anywhere, SHIPPED) as views:
        await catch_up(views, ListLog(entries))  # type: ignore[arg-type]
    async with open_views(anywhere, SHIPPED) as views:
        await catch_up(views, ListLog(LOG))
        assert await contents(views) == await made_afresh(LOG)
        assert await views.aside() == []


async def test_a_batch_of_which_nothing_can_be_read_moves_the_position(anywhere: StorageLocation) -> None:
    entries = [unreadable(event) for event in LOG]
    async with open_views(anywhere, (RUNS,)) as views:
        for start in range(0, len(LOG), 10):
            await views.write(entries[start : start + 10], start)
        assert views.position == len(LOG)
        assert {each.status for each in await list_runs(views, limit=99)} == {"unreadable"}


async def test_an_event_that_a_shipped_projection_cannot_take_sets_its_run_aside(anywhere: StorageLocation) -> None:
    def apply(event: Recorded) -> Iterable[Change]:
        if event.position == AT:
            raise LookupError("no such path")
        return RUNS.apply(event)

    told: list[Notice] = []
    run = LOG[AT - 1].run
    async with open_views(anywhere, (replace(RUNS, apply=apply, apply_run=None),), told.append) as views:
        assert await catch_up(views, ListLog(LOG)) == len(LOG)
        assert {each.run for each in await list_runs(views, limit=99, status="unreadable")} == {run}
        assert [(type(each), each.run, each.position) for each in told if isinstance(each, SetAside)] == [
            (SetAside, run, AT)
        ]
        (aside,) = await views.aside()
        assert (aside.run, aside.again) == (run, False)
        assert "LookupError: no such path" in aside.error
        assert await views.stopped() == {}


async def test_a_projection_of_a_user_passes_over_what_cannot_be_read(anywhere: StorageLocation) -> None:
    table = Table("seen", {"position": "INTEGER NOT NULL"})
    seen = Projection("seen", 1, (table,), lambda event: (Put("seen", {"position": event.position}),))
    entries, run = damaged()
    async with open_views(anywhere, (seen,)) as views:
        await catch_up(views, ListLog(entries))  # type: ignore[arg-type]
        found = {position for (position,) in await views.query("SELECT position FROM seen")}
    assert found == {event.position for event in LOG if event.run != run or event.position < AT}


async def test_a_run_that_people_set_aside_is_whole_too_once_it_can_be_read(anywhere: StorageLocation) -> None:
    entries, run = damaged()
    version = max(event.version for event in LOG if event.run == run)
    aside = replace(recorded(run, [ASIDE])[0], version=version + 1, position=len(LOG) + 1)
    async with open_views(anywhere, SHIPPED) as views:
        await catch_up(views, ListLog([*entries, aside]))  # type: ignore[list-item]
        assert [each.run for each in await list_runs(views, status="quarantined")] == [run]
        assert {each.run for each in await views.aside()} == {run}
    whole = [*LOG, aside]
    async with open_views(anywhere, SHIPPED) as views:  # a release that can read it
        await catch_up(views, ListLog(whole))
        assert await contents(views) == await made_afresh(whole)
        assert await views.aside() == []
