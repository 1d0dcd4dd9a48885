"""Random lists whose items are worked on by runs of their own, for the plans of a history."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from redraft.actors.plans.check import check_ready
from redraft.actors.plans.paths import role_of
from redraft.app.testing.loop import Process
from redraft.events.errors import BusError, InputError, NoSuchRun, PlanError, SetAside, StoreError
from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.plan import Budget, Each, Node, Plan, Repeat, StateField, StateSpec
from redraft.events.messages.run_state import Value

if TYPE_CHECKING:
    from redraft.app.testing.nodes import World

PARTS: Final = "parts"
"""The list in the state of runs."""

_TRIES: Final = 10


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
