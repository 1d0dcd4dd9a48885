"""Makes one history: processes work and fail until each run has ended, and it is checked. Sleeps take no real time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias
from weakref import proxy

import msgspec

from redraft.actors.plans.paths import steps_in
from redraft.actors.runtime.coordinating.coordinator import outlasts_nothing
from redraft.app.testing.broker import PARTITIONS, SimBroker
from redraft.app.testing.chapters import chaptered_plan
from redraft.app.testing.check import faults_of
from redraft.app.testing.choices import choosing_plan
from redraft.app.testing.editing import edit_unasked
from redraft.app.testing.endings import ending_plan, timed_plan
from redraft.app.testing.faults import EVERY, Faults, Note, Odds, Struck
from redraft.app.testing.garbage import apart
from redraft.app.testing.items import end_runs_amid_items, itemized_plan
from redraft.app.testing.lateness import late_plan
from redraft.app.testing.learning import PAUSE, learning_plans, strike_lessons
from redraft.app.testing.loop import Process, SimLoop, Stuck
from redraft.app.testing.nodes import World, coordinate, decide, read, rebuild, serve, submit, subscribe, work
from redraft.app.testing.outages import SOON, draw_outages
from redraft.app.testing.places import held_plan
from redraft.app.testing.reusing import reusing_plans
from redraft.app.testing.seeding import seed_random
from redraft.app.testing.several import brief_of_files, with_files
from redraft.app.testing.stateful import stateful_brief, stateful_plan
from redraft.app.testing.storage import SILENT, SimDatabase
from redraft.app.testing.workload import Cast, Script, lowest_plan, random_for, random_plan
from redraft.events.bus.port import partition_queue
from redraft.events.messages.content import Brief
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import RULES, Plan
from redraft.events.store.group_commit import Inline
from redraft.projections.engine.projector import catch_up
from redraft.projections.engine.views import Views

LONGEST: Final = 5 * 86_400.0
"""Seconds after which a run that has not ended is stuck: no plan takes that long, whatever goes wrong."""

STILL: Final = 400.0
"""The most seconds for which a process stands still."""

SETTLED: Final = STILL + 300.0
"""Seconds after which each partition of the inbox has one reader, when no more processes are killed or stopped."""

RESTART: Final = (0.5, 30.0)
"""Seconds until a killed process is started again, at least and at most."""

UPGRADE: Final = (600.0, 20_000.0)
"""Seconds until a process of an older release is ended, and started as the newest one, at least and at most."""


class History(msgspec.Struct, frozen=True):
    """The result of a seed: the events, the planted faults, and what is wrong.

    `notes` are other things that happened; `recorded` are the true times, in seconds, at which events were recorded.
    `struck` are the planted faults, as a `Setting` names them.
    """

    seed: int
    events: tuple[Recorded, ...]
    planted: tuple[str, ...]
    wrong: tuple[str, ...]
    seconds: float
    notes: tuple[Note, ...] = ()
    recorded: tuple[float, ...] = ()
    struck: tuple[Struck, ...] = ()

    def lines(self) -> list[str]:
        """Returns the events, one per line: the same for the same seed, in every process."""
        return [f"{each.position} {each.run} {each.version} {each.name} {each.hash}" for each in self.events]


Kill: TypeAlias = Callable[[Process], None]
"""Kills a process, which starts again a while later."""


def _make_script(random: Random, faults: Faults, kill: Kill) -> Cast:
    return Script(random, faults)


class Setting(msgspec.Struct, frozen=True):
    """How a history is made: without faults after the first `max_faults`, and without any but the `only`, if given.

    `plans` and their `briefs` are random if not given; `cast` makes the actors, and `unasked` is whether people steer
    runs without being asked. With `apart`, leaving a fault out changes no other. In every eighth history coordinators
    divide the runs, in all of them if they are `divided`. In some random ones a coordinator keeps its messages while
    the store is away, in the others it begins again, and workers are not told of runs that their budget ended.
    """

    odds: Odds = Odds()
    max_faults: int = EVERY
    plans: tuple[Plan, ...] = ()
    only: frozenset[Struck] | None = None
    briefs: tuple[Brief | str, ...] = ()
    cast: Callable[[Random, Faults, Kill], Cast] = _make_script
    unasked: bool = True
    apart: bool = False
    divided: bool = False


def history(seed: int, setting: Setting = Setting()) -> History:  # noqa: B008 - frozen
    """Makes the history of a seed."""
    loop = SimLoop(Random(f"{seed} order"))
    with apart(), seed_random(seed):
        try:
            return _Deployment(loop, seed, setting).run()
        finally:
            loop.dispose()


class _Deployment:
    """The processes of one history."""

    def __init__(self, loop: SimLoop, seed: int, setting: Setting) -> None:
        self._seed = seed
        self._loop = loop
        self._random = Random(f"{seed} work")
        here, clock = proxy(self), proxy(loop)  # a cast is looked at when all else is gone, and must not hold it
        limits = setting.odds, setting.max_faults, setting.only
        self._faults = faults = Faults(Random(f"{seed} faults"), *limits, lambda: clock.time(), apart=setting.apart)
        broker = SimBroker(loop, faults, PARTITIONS if setting.divided or seed % 8 == 5 else 0)
        self._world = World(loop, SimDatabase(loop, faults), broker, Random(f"{seed} people"))
        self._unasked = setting.unasked
        self._outside = copy_context()
        self._parts: dict[Process, Any] = {}
        self._cast = setting.cast(Random(f"{seed} script"), self._faults, lambda each: here.strike(each))
        self._wrong: list[str] = []
        self._is_looked_at = False
        self._upgraded: set[str] = set()
        count = self._random.choice((1, 1, 2, 2, 3))
        self._are_given = bool(setting.plans)
        self._plans = setting.plans or tuple(self._draw_plans(seed, count))
        places = self._vary("places 72", 0.15, held_plan) or random_for(seed, "places 72", 0.15)
        self._vary("late 68", 0.15, late_plan)
        unchanged = self._vary("chosen 13629", 0.15, choosing_plan)
        again = None if setting.plans else random_for(seed, "reuse", 0.15)
        if again is not None:
            self._plans = reusing_plans(again, self._plans)
        self._learning = None if setting.plans else random_for(seed, "lessons", 0.15)
        if self._learning is not None:
            self._plans = learning_plans(self._learning, self._plans)
            self._world.learns = True
        self._briefs = setting.briefs or tuple(
            f"brief k{number if again is None else 0}" for number in range(len(self._plans))
        )
        values = None if setting.plans else random_for(seed, "state 161495", 0.25)
        if values is not None and isinstance(self._cast, Script):
            self._give_state(values, self._cast)
        files = None if setting.plans else random_for(seed, "files 415", 0.12)
        if files is not None:
            self._briefs = tuple(brief_of_files(files, each) for each in self._briefs)
        if isinstance(self._cast, Script):
            self._cast.places, self._cast.again, self._cast.files = places, again, files
            self._cast.learning, self._cast.unchanged = self._learning, unchanged
        self._vary("endings", 0.25, ending_plan)
        self._vary("wall time 16", 0.1, timed_plan)
        items = self._vary("items 1657", 0.15, itemized_plan)
        self._impatient = None if items is None else random_for(seed, "items ended 64", 0.3)
        self._chapters = self._vary("chapters 12079", 0.12, chaptered_plan)
        self._world.recalls = any(step.reuse == "always" for plan in self._plans for _, step in steps_in(plan.steps))
        self._coordinators = self._random.choice((1, 2, 2, 3, 4))
        if not self._are_given and random_for(seed, "outlasts 574843", 0.15) is None:
            self._world.outlasts, broker.tells_overspent = outlasts_nothing, False
        self._world.servers = Random(f"{seed} servers").choice((0, 0, 0, 0, 0, 0, 1, 2))

    def _vary(self, trait: str, share: float, change: Callable[[Random, Plan], Plan]) -> Random | None:
        """Changes the random plans of a history that has the trait; returns the randomness of the trait."""
        random = None if self._are_given else random_for(self._seed, trait, share)
        if random is not None:
            self._plans = tuple(change(random, each) for each in self._plans)
        return random

    def _give_state(self, values: Random, cast: Script) -> None:
        """Lets plans, briefs, actors and people have, give and change values of the runs' state."""
        made = {plan.name: stateful_plan(values, plan) for plan in self._plans}
        self._plans = tuple(made[plan.name] for plan in self._plans)
        self._briefs = tuple(stateful_brief(values, str(each)) for each in self._briefs)
        cast.values = self._world.values = values

    def _draw_plans(self, seed: int, count: int) -> Iterator[Plan]:
        measures = random_for(seed, "measures 676", 0.2)
        lowest = random_for(seed, "lowest 121", 0.2)
        for _ in range(count):
            plan = random_plan(self._random, random_for(seed, "criteria 23560", 0.3), measures)
            yield plan if lowest is None else lowest_plan(plan)

    def run(self) -> History:
        """Runs until every run has ended, and for a while after."""
        try:
            self._loop.run_until_complete(self._live())
        except Stuck as stuck:
            self._wrong.append(f"stuck: {stuck}")
        events = with_files(map(read, self._world.database.rows.select_notifications(1, 10**9)), self._wrong)
        self._world.note_ends()
        self._wrong += faults_of(events, self._world, self._cast, self._faults)
        planted, notes, wrong = tuple(self._faults.planted), tuple(self._faults.notes), tuple(self._wrong)
        recorded = tuple(self._world.database.recorded[event.position] for event in events)
        struck = tuple(self._faults.struck)
        return History(self._seed, tuple(events), planted, wrong, self._loop.time(), notes, recorded, struck)

    async def _live(self) -> None:
        for number in range(self._coordinators):
            self._start(f"coordinator {number + 1}", lambda p: coordinate(self._world, p), mortal=True)
        for number in range(self._random.choice((1, 2, 2))):
            self._start(f"worker {number + 1}", lambda p: work(self._world, p, self._cast.actors()), mortal=True)
        self._start("subscriber", lambda p: subscribe(self._world, p), mortal=True)
        for number in range(self._world.servers):
            self._start(f"server {number + 1}", lambda p: serve(self._world, p), mortal=True)
        for number, (plan, brief) in enumerate(zip(self._plans, self._briefs, strict=True)):
            pause = number * self._learning.uniform(0, PAUSE) if self._learning else 0.0
            given = plan, f"k{number}", pause + self._random.uniform(0, 20), brief
            self._start(f"client {number + 1}", lambda p, a=given: submit(self._world, p, *a))
        if (learning := self._learning) is not None:
            self._start("teacher", lambda p: strike_lessons(self._world, p, learning))
        if (impatient := self._impatient) is not None:
            self._start("impatient people", lambda p: end_runs_amid_items(self._world, p, impatient))
        editors = None if self._are_given else self._chapters or random_for(self._seed, "editors 157", 0.1)
        if editors is not None:
            self._start("editors", lambda p: edit_unasked(self._world, p, editors))
        self._start("people", lambda p: decide(self._world, p, unasked=self._unasked))
        draw_outages(self._world.broker, self._seed, lambda: self._is_looked_at, self._send_again)
        while self._loop.time() < LONGEST:
            await self._until(self._is_over, LONGEST)
            await asyncio.sleep(30)
            await self._until(self._is_read, 3_600)
            if not self._is_over():  # a fork that was asked for before may begin at any of these waits
                continue
            await self._until(lambda: not self._badly_divided() and self._is_read(), SETTLED)
            if self._is_over():
                break
        self._is_looked_at = True
        self._wrong += self._badly_divided()
        self._wrong += await self._compare_read_models()

    def _badly_divided(self) -> list[str]:
        """Returns which partitions of the inbox are not read by exactly one coordinator."""
        broker = self._world.broker
        readers = {number: broker.readers_of(partition_queue(number)) for number in range(broker.partitions)}
        return [f"shares: {found} read partition {number}" for number, found in readers.items() if len(found) != 1]

    async def _until(self, holds: Callable[[], bool], longest: float) -> None:
        """Waits until the condition holds, or for `longest` seconds, and looks at the rows meanwhile."""
        deadline = self._loop.time() + longest
        self._world.note_ends()
        while not holds() and self._loop.time() < deadline:
            await asyncio.sleep(5)
            self._world.note_ends()

    async def _compare_read_models(self) -> list[str]:
        """Returns where the read models that coordinators share differ from a rebuild.

        Runs that an older release has left to a newer one are not compared.
        """
        database = self._world.database
        wrong = [] if self._is_projected() else [f"projection: it has come to event {database.projected()} of the log"]
        shared = await self._world.opened(lambda name: Inline(), lambda: self._world.database.tables)
        rebuilt = await self._rebuild()
        for table in ("runs", "steps"):
            every = f"SELECT * FROM {table} ORDER BY 1, 2"  # noqa: S608 - names of our own
            kept, again = await shared.query(every), await rebuilt.query(every)
            left = database.left_aside()
            if [row for row in kept if row[0] not in left] != [row for row in again if row[0] not in left]:
                wrong.append(f"projection: the {table} are not those of a rebuild")
        return wrong

    async def _rebuild(self) -> Views:
        """Returns the read models as the newest release builds them."""
        views = await self._world.opened(lambda name: Inline())
        await catch_up(views, self._world.database.quiet())
        return views

    def _is_over(self) -> bool:
        if self._world.broker.delayed:  # a run may begin by what comes late
            return False
        if sum("~" not in run for run in self._world.ended) < len(self._plans):  # without the runs of items
            return False
        started = {row.originator_id for row in self._world.database.rows.select_notifications(1, 10**9)}
        return started <= self._world.ended.keys()

    def _is_read(self) -> bool:
        """Returns whether subscribers and projections have reached the end of the log."""
        end = self._world.database.rows.max_notification_id() or 0
        seen = self._world.seen[-1].position if self._world.seen else 0
        served = self._world.served[-1].position if self._world.served else end * (not self._world.servers)
        return seen >= end and served >= end and self._is_projected()

    def _is_projected(self) -> bool:
        """Returns whether the shared read models have all events; while an older release relays, without newer runs."""
        database = self._world.database
        if database.projected() < (database.rows.max_notification_id() or 0):
            return False
        relaying = database.relaying
        return not database.left_aside() or (relaying is not None and relaying.rules < RULES)

    def _start(self, name: str, part, *, mortal: bool = False) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        process = self._loop.process(name)
        if name.startswith("coordinator") and name != "coordinator 1":
            self._draw_release(process)
        self._parts[process] = part
        task = self._loop.spawn(process, part(process))
        task.add_done_callback(lambda done: self._note_end(name, done))
        if mortal:
            self._doom(process, part)

    def _draw_release(self, process: Process) -> None:
        """Draws whether a coordinator is of an older release; that is replaced by the newer one within hours."""
        faults, name = self._faults, process.name
        if name in self._upgraded or not faults.happens(faults.odds.older, f"{process} starts as an older release"):
            return
        process.rules = RULES - 1
        self._loop.call_later(faults.between(*UPGRADE), self._upgrade, process)

    def _upgrade(self, process: Process) -> None:
        self._upgraded.add(process.name)
        self._kill(process, self._parts[process])

    def _note_end(self, name: str, done: asyncio.Task[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._wrong.append(f"{name} ended by itself: {type(error).__name__}: {error}")
        elif name.startswith(("coordinator", "worker", "server")):
            self._wrong.append(f"{name} ended by itself")

    def _doom(self, process: Process, part) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        """Draws when a process is killed, when it stalls, and how its clock is off."""
        faults, odds, loop = self._faults, self._faults.odds, self._loop
        if faults.happens(odds.crashes / 5, f"{process} is going to be killed"):
            loop.call_later(faults.between(0.5, SOON), self._kill, process, part)
        if faults.happens(odds.pauses / 5, f"{process} is going to stand still"):
            loop.call_later(faults.between(1, SOON), self._pause, process, faults.between(1, STILL))
        if faults.happens(odds.clock_differs, f"{process} has a clock that differs"):
            process.skew = timedelta(seconds=faults.skew())
        if faults.happens(odds.clock_jumps, f"{process} has a clock that jumps"):
            loop.call_later(faults.between(1, SOON), self._jump, process, faults.skew())

    def _send_again(self, seconds: float) -> None:
        """Lets people send all open requests again after `seconds`."""
        self._loop.call_later(seconds, self._start, "operator", partial(rebuild, self._world))

    def _jump(self, process: Process, seconds: float) -> None:
        self._faults.note(f"the clock of {process} jumps by {seconds:.0f} s")
        process.skew += timedelta(seconds=seconds)

    def _kill(self, process: Process, part) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        if process.is_dead or self._is_looked_at:
            return
        self._faults.note(f"{process} is killed")
        self._loop.kill(process)
        silence = self._faults.between(0.1, SILENT)
        self._loop.call_later(silence, self._unheard, process)
        self._loop.call_later(self._faults.between(*RESTART), self._start_again, process, part)

    def _start_again(self, process: Process, part) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        if not self._is_looked_at:
            self._start(process.name, part, mortal=True)

    def _pause(self, process: Process, seconds: float) -> None:
        if process.is_dead or self._is_looked_at:
            return
        self._faults.note(f"{process} stands still for {seconds:.0f} s")
        self._loop.pause(process, seconds)
        if seconds > SILENT:
            self._loop.call_later(SILENT, self._unheard, process)

    def strike(self, process: Process) -> None:
        """Kills a process from within one of its own calls."""
        self._outside.copy().run(self._kill, process, self._parts[process])

    def _unheard(self, process: Process) -> None:
        self._world.broker.disconnect(process)
        self._world.database.unheard(process)


def shortest(seed: int, setting: Setting) -> tuple[int, History]:
    """Returns the smallest number of faults after which a history still goes wrong, and that history, by bisection."""
    found = history(seed, setting)
    low, high = 0, len(found.planted)
    while low < high:
        middle = (low + high) // 2
        shorter = history(seed, msgspec.structs.replace(setting, max_faults=middle))
        if shorter.wrong:
            high, found = middle, shorter
        else:
            low = middle + 1
    return high, found
