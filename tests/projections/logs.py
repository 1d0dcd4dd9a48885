"""What the tests of the read models share: logs of many runs at once, stores that hold them, and the rows of both."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random
from typing import TypeAlias

from cachetools import LRUCache
from msgspec.structs import replace
from tests.appending import hash_at
from tests.streams import START, Told, article_told, book_told, recorded

from redraft.events.errors import Conflict
from redraft.events.messages.conditions import State
from redraft.events.messages.content import Brief, Critique, Mark, new_draft
from redraft.events.messages.domain_events import (
    ApprovalRequested,
    Choice,
    ChoicesCredited,
    Credit,
    DraftApproved,
    DraftCritiqued,
    DraftGenerated,
    IterationStarted,
    LessonStruck,
    LoopEnded,
    RunEnded,
    RunStarted,
    StateChanged,
    StepFailed,
    StepRequested,
    Tally,
)
from redraft.events.messages.envelope import Origin, Recorded
from redraft.events.messages.plan import Arm, Budget, Parallel, Plan, Repeat, Step
from redraft.events.messages.usage import Usage
from redraft.events.store.append import Append, NewEvent, encode
from redraft.events.store.event_store import EventStore
from redraft.projections.backends import SHIPPED, open_views
from redraft.projections.engine.projection import Projection
from redraft.projections.engine.projector import catch_up
from redraft.projections.engine.storage import StorageLocation
from redraft.projections.engine.views import Cells, Views

PROJECTIONS = SHIPPED
WRITERS = tuple(Step("generator", name, name) for name in ("quick", "slow", "broken"))


class ListLog:
    """A log of these events; it ends where they do, followed or not."""

    def __init__(self, events: Sequence[Recorded]) -> None:
        self._events = list(events)

    async def head(self) -> int:
        return len(self._events)

    async def tail(
        self, after: int, *, follow: bool = True, limit: int = 500
    ) -> AsyncGenerator[Sequence[Recorded], None]:
        while batch := self._events[after : after + limit]:
            yield batch
            after += len(batch)


def contest_told() -> list[Told]:
    """A cancelled run: of three generators one answers, one never does, one fails twice; the critic is to try again."""
    steps = (Parallel("Ideas", WRITERS, wait="first"), Step("critic", "judge", "judge"))
    plan = Plan("contest", steps, budget=Budget(tokens=100_000))
    draft = new_draft(1, "An idea.")
    due = START + timedelta(minutes=5)
    return [
        ("coordinator", RunStarted(plan, Brief("\n\n  Name the ship\nand be brief"), START)),
        *(("coordinator", StepRequested(f"Ideas/{w.name}", "generator", w.name, 1, due)) for w in WRITERS),
        ("broken", StepFailed("Ideas/broken", 1, "error", "no model", START + timedelta(seconds=9))),
        ("coordinator", StepRequested("Ideas/broken", "generator", "broken", 2, due + timedelta(minutes=1))),
        ("broken", StepFailed("Ideas/broken", 2, "invalid", "not a draft")),
        ("quick", DraftGenerated("Ideas/quick", 1, draft)),
        ("coordinator", StepRequested("judge", "critic", "judge", 1, due, draft.ref)),
        ("judge", StepFailed("judge", 1, "timeout", "took too long", START + timedelta(hours=1))),
        ("ann", RunEnded("cancelled", "cancelled by ann", 0)),
    ]


def chosen_told(number: int = 0) -> list[Told]:
    """A run whose writer was chosen, and credited with how it ended; at times with a success, at times a failure."""
    arms = tuple(Arm(name, name) for name in ("quick", "slow"))
    plan = Plan("chosen", (Step("generator", "", "write", choose=arms), Step("critic", "judge", "judge")))
    draft = new_draft(1, "An idea.")
    due = START + timedelta(minutes=5)
    arm, success = ("quick", "slow")[number % 2], number % 3 > 0
    choice = Choice(arm, (Tally("quick", 3, 1), Tally("slow")))
    return [
        ("coordinator", RunStarted(plan, Brief("b"), START)),
        ("coordinator", StepRequested("write", "generator", arm, 1, due, choice=choice)),
        (arm, DraftGenerated("write", 1, draft)),
        ("coordinator", StepRequested("judge", "critic", "judge", 1, due, draft.ref, verdict_key="5f2b0c6d")),
        (
            "judge",
            DraftCritiqued(
                "judge", 1, draft.ref, Critique(0.5, criteria=(Mark("accuracy", 0.5),), measures={"words": 312})
            ),
        ),
        ("coordinator", ChoicesCredited("chosen", (Credit("write", arm, success),))),
        ("coordinator", ApprovalRequested("sign", draft.ref, due)),
        ("ann", DraftApproved("sign", draft.ref, "ann", granted=True)),
        ("coordinator", RunEnded("accepted" if success else "exhausted", "every step is done", 0, draft.ref, 0.5)),
        ("ann", LessonStruck("5f2b0c6d7e8f9a0b", "chosen", "ann", "of one text")),
    ]


def stateful_told() -> list[Told]:
    """A fork that began with a change of its state, with free steps: one alone, two in parallel, one in a loop."""
    tests = Repeat("Tests", State("tests_pass"), 3, (Step("step", "run_tests", "run_tests"),))
    searching = Parallel("Search", tuple(Step("step", name, name) for name in ("web", "books")))
    plan = Plan("stateful", (searching, Step("generator", "write", "write"), tests), budget=Budget(seconds=3600.0))
    draft, due = new_draft(1, "An idea."), START + timedelta(minutes=5)
    used = Usage(tokens=7, cost=0.5, currency="USD", calls=1)
    return [
        ("coordinator", RunStarted(plan, Brief("b", state={"audience": "secret"}), START)),
        ("coordinator", StateChanged("", 0, {"audience": "secret"}, by="ann")),
        *(("coordinator", StepRequested(f"Search/{name}", "step", name, 1, due)) for name in ("web", "books")),
        ("web", StateChanged("Search/web", 1, {"sources": ["secret"]}, used)),
        ("books", StepFailed("Search/books", 1, "invalid", "changes a value", START + timedelta(seconds=9))),
        ("coordinator", StepRequested("Search/books", "step", "books", 2, due)),
        ("books", StateChanged("Search/books", 2)),
        ("coordinator", StepRequested("write", "generator", "write", 1, due)),
        ("write", DraftGenerated("write", 1, draft, state={"words": 2})),
        ("coordinator", IterationStarted("Tests", 1)),
        ("coordinator", StepRequested("Tests[1]/run_tests", "step", "run_tests", 1, due, draft.ref)),
        ("run_tests", StateChanged("Tests[1]/run_tests", 1, {"tests_pass": True})),
        ("coordinator", LoopEnded("Tests", "accepted", "state.tests_pass", 1, draft.ref)),
        ("coordinator", RunEnded("accepted", "state.tests_pass", 1, draft.ref)),
    ]


def told(number: int) -> list[Told]:
    """One of several kinds of runs."""
    return [article_told(), book_told(1 + number % 3), contest_told(), chosen_told(number // 4)][number % 4]


def busy_log(runs: int, seed: int = 0, *, cut: bool = True) -> list[Recorded]:
    """The log of runs that went on at the same time. With `cut` some have not ended."""
    random = Random(seed)
    waiting: list[list[Recorded]] = []
    for number in range(runs):
        events = list(recorded(f"01JQ{number:06d}", told(number)))
        waiting.append(events[: random.randint(1, len(events))] if cut and random.random() < 0.3 else events)
    log: list[Recorded] = []
    while waiting:
        run = random.choice(waiting[:12])
        log.append(replace(run.pop(0), position=len(log) + 1))
        if not run:
            waiting.remove(run)
    return log


async def fill(store: EventStore, log: Sequence[Recorded]) -> None:
    """Records these events in a store, in their order."""
    last: dict[str, str] = {}
    appends = []
    for each in log:
        event = NewEvent(Origin(each.id, each.actor), each.time, each.data)
        before = last.get(each.run) or await hash_at(store, each.run, each.version - 1)
        appends.append(encode(Append(each.run, each.version - 1, (event,), before)))
        last[each.run] = appends[-1].hash
    for start in range(0, len(appends), 500):
        for result in await store.hand_in(appends[start : start + 500]):
            assert not isinstance(result, Conflict), result


async def contents(views: Views, projections: Sequence[Projection] = PROJECTIONS) -> dict[str, list[Cells]]:
    """All rows of all tables."""
    return {
        table.name: await views.query(
            f"SELECT {', '.join(table.columns)} FROM {table.name} ORDER BY {', '.join(table.keys)}"  # noqa: S608
        )
        for projection in projections
        for table in projection.tables
    }


Made: TypeAlias = dict[str, list[Cells]]
_MADE: LRUCache[tuple[int, ...], tuple[list[Recorded], Made]] = LRUCache(8)


async def made_afresh(log: Sequence[Recorded]) -> Made:
    """The rows that this log gives when each event is a batch of its own, in memory; made once for the same events."""
    same = tuple(map(id, log))
    if same not in _MADE:
        async with open_views(None, PROJECTIONS) as views:
            for event in log:
                await views.write([event], event.position - 1)
            _MADE[same] = list(log), await contents(views)  # the events are kept: no others get their ids
    return _MADE[same][1]


@asynccontextmanager
async def view_of(log: Sequence[Recorded], where: StorageLocation = None) -> AsyncIterator[Views]:
    """Read models that have caught up with this log."""
    async with open_views(where, PROJECTIONS) as views:
        await catch_up(views, ListLog(log))
        yield views
