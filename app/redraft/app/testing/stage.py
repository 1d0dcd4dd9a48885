"""A user's workflow and actors on the simulated loop: histories of it, and the fewest faults that one takes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import msgspec

from redraft.actors import Actor, Workflow
from redraft.actors.plan_check import check_plan
from redraft.actors.plan_paths import steps_in
from redraft.app.models import Seat
from redraft.app.outlets import Outlets
from redraft.app.staff import SHIPPED, staff
from redraft.app.testing.faults import CALM, EVERY, Faults, Odds
from redraft.app.testing.history import History, Kill, Setting, history
from redraft.app.testing.outside import Outside
from redraft.app.testing.own_actors import Make, OwnActors
from redraft.app.testing.real_work import RealWork, guarded
from redraft.events.content import Brief
from redraft.events.domain_events import RunEnded, StepFailed
from redraft.events.envelope import Recorded
from redraft.events.errors import ActorError
from redraft.events.plan import Plan

Given: TypeAlias = Iterable[Actor] | Mapping[str, Actor]
Check: TypeAlias = Callable[[Outside, Sequence[Recorded]], object]

PURE: Final[frozenset[Seat]] = frozenset(
    {
        ("generator", "source"),
        ("critic", "agreement"),
        ("critic", "forbidden-words"),
        ("critic", "length"),
        ("critic", "pattern"),
    }
)
"""The shipped actors that wait for nothing real: they need nobody to stand in for them."""

TRIES: Final = 100
"""How often a history that goes wrong is made again, at most, to find the faults that it takes."""


UNSTEADY: Final = (
    "unsteady: the same seed is another history each time: an actor takes its time, ids or chance from elsewhere, such "
    "as time.time, uuid4 or the order of a set; asyncio's clock and the module random are the same for a seed"
)


class Course(msgspec.Struct, frozen=True):
    """How a history is made: its seed, and what goes wrong in it; see `Setting`."""

    seed: int
    odds: Odds
    most: int = EVERY
    without: frozenset[int] = frozenset()


class Played(msgspec.Struct, frozen=True):
    """A history, what is wrong with it, and the error of the check, if that is what is wrong."""

    course: Course
    history: History
    wrong: tuple[str, ...]
    calls: int
    cause: AssertionError | None = None

    def outcomes(self) -> list[str]:
        """How its runs ended."""
        return [each.data.outcome for each in self.history.events if isinstance(each.data, RunEnded)]

    def is_like(self, other: Played) -> bool:
        """Whether something of the same kind is wrong."""
        return not {_kind(each) for each in self.wrong}.isdisjoint(_kind(each) for each in other.wrong)


def _all_failed(history: History) -> tuple[str, ...]:
    """A sentence where every run failed: nothing is tried by that."""
    if {each.data.outcome for each in history.events if isinstance(each.data, RunEnded)} != {"failed"}:
        return ()
    why = next(each.data for each in history.events if isinstance(each.data, StepFailed))
    return (f"failed: every run failed, and nothing had gone wrong on purpose: at {why.path}, {why.message}",)


class Stage:
    """A workflow, and those who work in it."""

    def __init__(
        self,
        workflow: Workflow | Plan,
        actors: Given | Callable[[Outside], Given],
        check: Check | None,
        briefs: tuple[Brief | str, ...],
    ) -> None:
        self._plan = workflow.plan if isinstance(workflow, Workflow) else check_plan(workflow)
        self.name = self._plan.name
        self._make = _maker(self._plan, workflow.actors if isinstance(workflow, Workflow) else {}, actors)
        self._check = check
        self._briefs = briefs

    def play(self, course: Course) -> Played:
        """Makes a history, and looks at it. Raises RealWork, ActorError, and what the check raises but assertions."""
        casts: list[OwnActors] = []

        def cast(random: Random, faults: Faults, kill: Kill) -> OwnActors:
            casts.append(OwnActors(self._make, random, faults, kill))
            return casts[-1]

        with guarded():
            told = history(course.seed, self._setting(course, cast))
        (watched,) = casts
        if watched.real:
            raise RealWork(
                f"{'; '.join(watched.real)}: a simulation waits for nothing real; hand in what stands in for it"
            )
        doubts, cause = self._checked(watched.outside, told)
        wrong = (*told.wrong, *watched.wrong(), *doubts, *(() if told.planted else _all_failed(told)))
        return Played(course, told, wrong, watched.calls.total(), cause)

    def shortened(self, played: Played) -> Played:
        """The same with fewer faults: of fewer kinds, after a prefix, and without single ones of that."""
        again = self.play(played.course)
        if (again.history.lines(), again.wrong) != (played.history.lines(), played.wrong):
            return msgspec.structs.replace(played, wrong=(*played.wrong, UNSTEADY))
        return self._thinned(self._cut(self._of_fewer_kinds(played)))

    def _of_fewer_kinds(self, played: Played) -> Played:
        """The same by one kind of fault alone, or else without each kind that it does not take."""
        kinds = Odds.__struct_fields__ if played.history.planted else ()
        for kind in reversed(kinds):
            alone = msgspec.structs.replace(CALM, **{kind: getattr(played.course.odds, kind)})
            found = self._or(played, msgspec.structs.replace(played.course, odds=alone))
            if found is not played:
                return found
        for kind in kinds:
            fewer = msgspec.structs.replace(played.course.odds, **{kind: 0.0})
            played = self._or(played, msgspec.structs.replace(played.course, odds=fewer))
        return played

    def _cut(self, played: Played) -> Played:
        """The same after as few faults as halving finds."""
        least, most = 0, len(played.history.planted)
        while least < most:
            middle = (least + most) // 2
            shorter = self.play(msgspec.structs.replace(played.course, most=middle))
            if shorter.is_like(played):
                played, most = shorter, middle
            else:
                least = middle + 1
        return played

    def _thinned(self, played: Played) -> Played:
        """The same without each fault that it does not take, of the last of them."""
        most = len(played.history.planted)
        for number in reversed(range(max(0, most - TRIES), most)):
            without = played.course.without | {number}
            played = self._or(played, msgspec.structs.replace(played.course, most=most, without=without))
        return played

    def _or(self, played: Played, course: Course) -> Played:
        """What is played by this course, if the same kind of thing is wrong with it; else what was played."""
        other = self.play(course)
        return other if other.is_like(played) else played

    def _setting(self, course: Course, cast: Callable[[Random, Faults, Kill], OwnActors]) -> Setting:
        random = Random(f"{course.seed} runs")
        runs = min(len(self._briefs), random.choice((1, 1, 2, 2, 3)))
        briefs = tuple(random.sample(self._briefs, runs))
        plans = (self._plan,) * runs
        return Setting(course.odds, course.most, plans, course.without, briefs, cast, unasked=False, apart=True)

    def _checked(self, outside: Outside, told: History) -> tuple[tuple[str, ...], AssertionError | None]:
        if self._check is None:
            return (), None
        try:
            said = self._check(outside, told.events)
        except AssertionError as error:
            return (f"check: {str(error) or 'an assertion does not hold'}",), error
        return (("check: it returned False",) if said is False else ()), None


def _maker(plan: Plan, built: Mapping[str, Actor], actors: Given | Callable[[Outside], Given]) -> Make:
    """Makes the actors of a worker: those that were given stand for those that the workflow was built with."""
    given = actors if callable(actors) else _each(actors)

    def make(outside: Outside) -> tuple[Actor, ...]:
        own = (*built.values(), *(_each(given(outside)) if callable(given) else given))
        seats = {(actor.role, actor.name): actor for actor in own}
        for path, step in steps_in(plan.steps):
            seat = (step.role, step.actor)
            if seat in SHIPPED and seat not in PURE and seat not in seats:
                raise ActorError(f"{path}: the {step.role} {step.actor} does real work; hand in an actor of this name")
        return staff(plan, seats.values(), Outlets(io.StringIO(), Path.cwd()))

    return make


def _each(actors: Given) -> tuple[Actor, ...]:
    return tuple(actors.values() if isinstance(actors, Mapping) else actors)


def _kind(wrong: str) -> str:
    return wrong.partition(":")[0]
