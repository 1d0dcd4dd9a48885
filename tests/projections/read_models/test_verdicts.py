"""Verdicts are found by the key of what their critic was given, in SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec.structs import replace
from tests.projections.logs import view_of
from tests.streams import START, Told, recorded

from redraft.events.messages.content import Brief, Critique, new_draft
from redraft.events.messages.domain_events import (
    DraftCritiqued,
    EventRef,
    RunErased,
    RunQuarantined,
    RunStarted,
    StepFailed,
    StepRequested,
    VerdictLate,
)
from redraft.events.messages.envelope import Recorded, Unreadable
from redraft.events.messages.plan import Plan, Step
from redraft.events.messages.run_state import Values
from redraft.projections.backends import open_views
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.read_models.verdicts import MOST, VERDICTS, verdicts

PLAN = Plan("plan", (Step("generator", "write", "write"),))
DRAFT = new_draft(1, "A text.")
DUE = START + timedelta(minutes=5)


def asked(key: str, attempt: int = 1, path: str = "judge", reused: EventRef | None = None) -> Told:
    given = StepRequested(path, "critic", "judge", attempt, DUE, DRAFT.ref, verdict_key=key, reused=reused)
    return "coordinator", given


def said(
    attempt: int = 1,
    path: str = "judge",
    reused: EventRef | None = None,
    state: Values | None = None,
    *,
    hermetic: bool = True,
) -> Told:
    verdict = DraftCritiqued(path, attempt, DRAFT.ref, Critique(0.5), reused=reused, state=state or {})
    return "judge", replace(verdict, hermetic=hermetic)


def run(name: str, *told: Told) -> Sequence[Recorded]:
    return recorded(name, [("coordinator", RunStarted(PLAN, Brief("b"), START)), *told])


def log_of(*runs: Sequence[Recorded]) -> list[Recorded]:
    return [replace(each, position=at) for at, each in enumerate((e for run in runs for e in run), 1)]


async def found(where: StorageLocation, key: str, *runs: Sequence[Recorded]) -> list[tuple[str, int]]:
    async with view_of(log_of(*runs), where) as views:
        return [(each.run, each.version) for each in await verdicts(views, key)]


async def test_the_latest_come_first_and_others_are_not_found(anywhere: StorageLocation) -> None:
    runs = [run(f"r{number}", asked("k"), said()) for number in range(MOST + 2)]
    other = run("other", asked("l"), said())
    assert await found(anywhere, "k", *runs, other) == [(f"r{number}", 3) for number in range(MOST + 1, 1, -1)]


async def test_only_an_answer_of_its_own_counts(anywhere: StorageLocation) -> None:
    failed: Told = ("judge", StepFailed("judge", 1, "error", "not now", DUE))
    late: Told = ("judge", VerdictLate("judge", 1, DRAFT.ref, Critique(0.5)))
    source = EventRef("first", 3)
    runs = (
        run("open", asked("k")),
        run("late", asked("k"), late),
        run("retried", asked("k"), failed, asked("k", 2), said(2)),
        run("again", asked("k", reused=source), said(reused=source)),
        run("without", asked(""), said()),
        run("changing", asked("k"), said(state={"words": 3})),
        run("looking", asked("k"), said(hermetic=False)),
    )
    assert await found(anywhere, "k", *runs) == [("retried", 5)]


async def test_what_a_fork_repeats_counts_for_its_parent(anywhere: StorageLocation) -> None:
    parent = run("parent", asked("k"), said())
    fork = [replace(each, run="fork", repeats=each.id) for each in parent]
    assert await found(anywhere, "k", parent, fork) == [("parent", 3)]


async def test_encrypted_erased_and_quarantined_runs_have_none(anywhere: StorageLocation) -> None:
    secret = [replace(each, encrypted=True) for each in run("secret", asked("k"), said())]
    erased = run("erased", asked("k"), said(), ("ann", RunErased("ann")))
    aside = run("aside", asked("k"), said(), ("ann", RunQuarantined("ann", "odd")))
    assert await found(anywhere, "k", secret, erased, aside) == []
    async with open_views(anywhere, (VERDICTS,)) as views:
        assert await views.query("SELECT count(*) FROM verdicts") == [(0,)]


async def test_a_run_that_cannot_be_read_any_more_has_none(anywhere: StorageLocation) -> None:
    events = log_of(run("r", asked("k"), said()))
    async with open_views(anywhere, (VERDICTS,)) as views:
        await views.write(events, 0)
        assert await verdicts(views, "k")
        await views.write([Unreadable("r", 4, 4, "odd", "it is damaged")], 3)
        assert await verdicts(views, "k") == []
