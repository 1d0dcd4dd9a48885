"""Random lists whose items are worked on by runs of their own, for the plans of a history; what has to hold of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import role_of
from redraft.app.testing.loop import Process
from redraft.events.errors import BusError, InputError, NoSuchRun, PlanError, SetAside, StoreError
from redraft.events.messages.domain_events import (
    RunEnded,
    RunPaused,
    RunQuarantined,
    RunResumed,
    RunStarted,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Budget, Each, Node, Plan, Repeat, StateField, StateSpec
from redraft.events.messages.run_state import Value

if TYPE_CHECKING:
    from redraft.app.testing.nodes import World
    from redraft.app.testing.storage import SimDatabase

PARTS: Final = "parts"
"""The list in the state of runs."""

_TRIES: Final = 10

TOLD: Final = timedelta(minutes=6)
"""How late a run of an item may be told what was said to the run around it: a coordinator may stand still meanwhile."""


def itemized_plan(random: Random, plan: Plan) -> Plan:
    """Returns the plan with an Each, or with one within another: before its other nodes, between them or in a loop."""
    for _ in range(_TRIES):
        each = Each("Parts", PARTS, _body(plan), random.choice((1, 2, 3)))
        if random.random() < 0.2:
            inner = Each("Pieces", "item", _body(plan), random.choice((1, 2)))
            each = replace(each, body=(inner, *_body(plan)))
            parts: list[Value] = [list(range(random.randint(0, 2))) for _ in range(random.randint(1, 2))]
        else:
            parts = list(range(random.choice((0, 1, 2, 2, 3, 4))))
        budget = Budget(calls=random.randint(5, 60)) if random.random() < 0.2 else plan.budget
        made = replace(plan, steps=_with_each(random, plan.steps, each), budget=budget)
        try:
            return check_ready(replace(made, state=_with_parts(plan.state, parts)))
        except PlanError:
            continue
    return plan


def _body(plan: Plan) -> tuple[Node, ...]:
    """Returns what is done for each item: what begins the plan, and its loops."""
    return tuple(node for node in plan.steps if isinstance(node, Repeat) or role_of(node) in ("generator", "step"))


def _with_each(random: Random, nodes: tuple[Node, ...], each: Each) -> tuple[Node, ...]:
    loops = [place for place, node in enumerate(nodes) if isinstance(node, Repeat)]
    if loops and random.random() < 0.3:
        place = random.choice(loops)
        loop = nodes[place]
        assert isinstance(loop, Repeat)  # noqa: S101 - only such places were chosen
        return (*nodes[:place], replace(loop, body=(each, *loop.body)), *nodes[place + 1 :])
    place = random.randrange(len(nodes) + 1)
    return (*nodes[:place], each, *nodes[place:])


def _with_parts(spec: StateSpec | None, parts: list[Value]) -> StateSpec:
    """Returns what a plan says of its state, with the list."""
    known = spec or StateSpec()
    fields = (*known.fields, StateField(PARTS, "list")) if known.fields else ()
    return StateSpec(fields, {**known.defaults, PARTS: parts})


async def end_runs_amid_items(world: World, process: Process, random: Random) -> None:
    """Acts as people who cancel runs while runs of their items are under way. All time is virtual."""
    client = world.client(process)
    while True:
        await asyncio.sleep(random.uniform(2, 30))
        started = (event.data for event in world.seen if isinstance(event.data, RunStarted))
        around = {begun.of.run for begun in started if begun.of is not None} - world.ended.keys()
        for run in sorted(around):
            with suppress(BusError, StoreError, NoSuchRun, InputError, SetAside):
                if random.random() < 0.2:
                    await client.cancel(run, "enough")


def check_items(events: Sequence[Recorded], world: World) -> Iterator[str]:
    """Yields runs of items that were not told in time that the run around them has ended, or goes on.

    What people paused waits for people. The time for which an older release relayed does not count, nor do runs that
    one has declined.
    """
    database = world.database
    around: dict[str, str] = {}
    rules: dict[str, int] = {}
    over: dict[str, float] = {}
    on: dict[str, float] = {}
    told: set[str] = set()  # those paused by the run around them
    for event in events:
        outer, at = around.get(event.run, ""), database.recorded[event.position]
        is_late = partial(_is_late, database, rules.get(event.run, 0), at)
        is_known = world.declined.isdisjoint({event.run, outer})
        if isinstance(event.data, RunResumed | RunEnded) and event.run in told:
            told.remove(event.run)
            if is_late(on.get(outer)) and is_known:
                yield f"held: run {event.run} was paused until event {event.version}, and run {outer} goes on"
        match event.data:
            case RunStarted(of=of, rules=latest):
                rules[event.run] = latest
                around |= {event.run: of.run} if of else {}
            case RunEnded() | RunQuarantined():
                over[event.run] = at
            case RunPaused(key=key):
                on.pop(event.run, None)
                if key.startswith(f"{outer}."):
                    told.add(event.run)
            case RunResumed():
                on[event.run] = at
            case StepRequested() if is_late(over.get(outer)) and is_known:
                yield f"orphan: event {event.version} of run {event.run} asks for work, and run {outer} has ended"
            case _:
                pass


def _is_late(database: SimDatabase, rules: int, at: float, since: float | None) -> bool:
    """Returns whether a run with these rules should have been told long before of what happened around it `since`."""
    return since is not None and at - since > (database.held_up(rules, since, at) + TOLD).total_seconds()
