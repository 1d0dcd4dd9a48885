"""Random lessons for a history: plans that ask for them, people who strike them out, and what has to hold of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from redraft.actors.runtime.coordinating.deferring import ReadLessons
from redraft.app.testing.loop import Process, SimExecutor
from redraft.events.errors import BusError, InputError, NoSuchRun, SetAside, StoreError
from redraft.events.messages.commands import StrikeLesson
from redraft.events.messages.domain_events import DraftCritiqued, RunEnded, RunStarted, StepRequested
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.lessons import Lesson, Lessons, fitting
from redraft.events.messages.plan import LessonsSpec, Plan
from redraft.events.store.event_store import EventStore
from redraft.projections.engine.projection import Projection
from redraft.projections.engine.projector import catch_up
from redraft.projections.engine.views import Views
from redraft.projections.read_models.issues import ISSUES
from redraft.projections.read_models.lessons import known_lessons, lessons_for
from redraft.projections.sqlite.storage import SqliteStorage

if TYPE_CHECKING:
    from redraft.app.testing.nodes import World

Given: TypeAlias = Mapping[tuple[str, str, int], Sequence[tuple[Lesson, ...]]]
"""The lessons that actors were given at each call, by request."""

PAUSE: Final = 600.0
"""Seconds at most between the starts of two runs of such a history, so that some have ended when others begin."""

WISHES: Final = 4
"""The number of suggestions among which critics choose."""


def learning_plans(random: Random, plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Returns at least three plans, most of which ask for lessons of the first one's workflow, or of their own."""
    made = [*plans, *(plans[0] for _ in range(3 - len(plans)))]
    return tuple(_learning_plan(random, plan, plans[0].name) for plan in made)


def _learning_plan(random: Random, plan: Plan, workflow: str) -> Plan:
    if random.random() < 0.1:
        return plan
    return replace(plan, lessons=LessonsSpec(random.choice(("", workflow)), random.choice((1, 2, 10))))


def random_wish(random: Random) -> str:
    """Returns one of a few suggestions."""
    return f"say why {random.randrange(WISHES)}"


async def own_views(world: World, process: Process, projection: Projection) -> Views:
    """Returns a read model of this process alone."""
    executor = partial(SimExecutor, world.loop, process, world.database.takes, near=True)
    views = Views(SqliteStorage(None), (projection,), lambda notice: None, lambda name: executor())
    await views.open()
    return views


async def lesson_reader(world: World, process: Process, store: EventStore, up_to_date: float) -> ReadLessons:
    """Returns what gives lessons from a read model of this process, which at times lags behind the log."""
    views = await own_views(world, process, ISSUES)

    async def read(workflow: str, limit: int) -> Lessons:
        if world.random.random() < up_to_date:
            await catch_up(views, store)
        position = views.position
        return Lessons(workflow, position, fitting(await lessons_for(views, workflow, limit), limit))

    return read


async def strike_lessons(world: World, process: Process, random: Random) -> None:
    """Acts as people who strike lessons out, and at times take that back."""
    store, client = world.database.store(process), world.client(process)
    views = await own_views(world, process, ISSUES)
    while True:
        await asyncio.sleep(random.uniform(60, 500))
        with suppress(BusError, StoreError, NoSuchRun, InputError, SetAside):
            await catch_up(views, store)
            known = await known_lessons(views)
            if known:
                chosen = random.choice(known)
                struck = chosen.struck_by is not None
                await client.steer(StrikeLesson(chosen.run, chosen.id, "ann", withdrawn=struck))


def check_lessons(events: Sequence[Recorded], given: Given) -> Iterator[str]:
    """Yields where an actor was given other lessons than its run, a fork others than its parent, or a run such that no
    critic of an ended run had said.
    """
    starts = {event.run: event.data for event in events if isinstance(event.data, RunStarted)}
    for run, begun in starts.items():
        if begun.parent is not None and begun.parent.run in starts:
            if begun.lessons != starts[begun.parent.run].lessons:
                yield f"lessons: run {run} has other lessons than its parent"
        elif begun.lessons is not None:
            said = _said_before(events, starts, begun.lessons)
            yield from (
                f"lessons: run {run} was given {each.text!r}, which no critic of an ended run had said"
                for each in begun.lessons.given
                if each.text not in said
            )
    roles = {(event.run, event.data.path): event.data.role for event in events if type(event.data) is StepRequested}
    for place, lessons in given.items():
        kept = starts[place[0]].lessons if place[0] in starts else None
        learns = roles.get(place[:2]) in ("generator", "refiner")
        if any(each != (kept.given if kept and learns else ()) for each in lessons):
            yield f"lessons: {place} was given other lessons than its run has"


def _said_before(events: Sequence[Recorded], starts: Mapping[str, RunStarted], lessons: Lessons) -> set[str]:
    """Returns what critics said in runs of the workflow that had ended at the position of the lessons."""
    said: defaultdict[str, set[str]] = defaultdict(set)
    found: set[str] = set()
    for event in events:
        if event.position > lessons.position:
            break
        data = event.data
        if isinstance(data, DraftCritiqued):
            told = data.critique
            said[event.run].update(told.suggestions, told.errors)
            said[event.run].update(text for each in told.issues for text in (each.text, each.line))
        elif isinstance(data, RunEnded) and starts[event.run].plan.name == lessons.workflow:
            found |= said[event.run]
    return found
