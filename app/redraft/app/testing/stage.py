"""Makes histories of a user's workflow and actors, and reduces a failing one to the fewest faults."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from redraft.actors import Actor, Workflow
from redraft.actors.plans.check import check_plan
from redraft.actors.plans.paths import steps_in
from redraft.actors.workflow.actor import ActorKey
from redraft.app.builtin.support.options import nearest
from redraft.app.testing.faults import CALM, Faults, Odds
from redraft.app.testing.history import History, Kill, Setting, history
from redraft.app.testing.nodes import Outside
from redraft.app.testing.own_actors import Make, OwnActors, RealWork
from redraft.app.workflows.actor_registry import SHIPPED, build_actor_registry
from redraft.app.workflows.publish_targets import ActorEnvironment
from redraft.events.errors import ActorError
from redraft.events.messages.content import Brief
from redraft.events.messages.domain_events import RunEnded, StepFailed
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.item_ids import run_around
from redraft.events.messages.plan import Plan

ActorsGiven: TypeAlias = Iterable[Actor] | Mapping[str, Actor]
Check: TypeAlias = Callable[[Outside, Sequence[Recorded]], object]

PURE: Final[frozenset[ActorKey]] = frozenset(
    {
        ("generator", "source"),
        ("critic", "agreement"),
        ("critic", "forbidden-words"),
        ("critic", "length"),
        ("critic", "pattern"),
    }
)
"""The shipped actors that do no real work, and so need no stand-in."""

TRIES: Final = 300
"""The maximum number of replays to leave faults out of a failure."""

LOUD: Final = (1, 10, 3)
"""How many times as frequent a kind of fault becomes that is tried by itself, in this order."""


_ADDRESS: Final = re.compile(" at 0x[0-9a-f]+")

UNSTEADY: Final = (
    "unsteady: the same seed is another history each time: an actor takes its time, ids or chance from elsewhere, such "
    "as time.time, uuid4 or the order of a set; asyncio's clock and the module random are the same for a seed"
)


class Played(msgspec.Struct, frozen=True):
    """A history, what is wrong with it, and the error of the check, if that failed.

    `is_shortened`: each of its faults is needed for that.
    """

    setting: Setting
    history: History
    wrong: tuple[str, ...]
    calls: int
    cause: AssertionError | None = None
    is_shortened: bool = False

    def outcomes(self) -> list[str]:
        """Returns how its runs ended."""
        return _outcomes(self.history)

    def is_like(self, other: Played) -> bool:
        """Returns whether a fault of the same kind is found in both."""
        return not {_kind(each) for each in self.wrong}.isdisjoint(_kind(each) for each in other.wrong)


def _outcomes(history: History) -> list[str]:
    """Returns how the runs that were submitted ended, without those of their items."""
    return [end.data.outcome for end in history.events if isinstance(end.data, RunEnded) and not run_around(end.run)]


def _all_failed(history: History) -> tuple[str, ...]:
    """Returns a sentence if every run failed, as such a history tests nothing."""
    if set(_outcomes(history)) != {"failed"}:
        return ()
    why = next((f"at {e.data.path}, {e.data.message}" for e in history.events if isinstance(e.data, StepFailed)), "")
    end = next(e.data for e in history.events if isinstance(e.data, RunEnded) and not run_around(e.run))
    return (f"failed: every run failed, though no fault was injected: {why or end.reason}",)


class Stage:
    """A workflow, and the actors that work in it."""

    def __init__(
        self,
        workflow: Workflow | Plan,
        actors: ActorsGiven | Callable[[Outside], ActorsGiven],
        check: Check | None,
        briefs: tuple[Brief | str, ...],
    ) -> None:
        self._plan = workflow.plan if isinstance(workflow, Workflow) else check_plan(workflow)
        self.name = self._plan.name
        self._make = _maker(self._plan, workflow.actors if isinstance(workflow, Workflow) else {}, actors)
        self._make(Outside(lambda *_: None))  # what is wrong with them is said before anything begins
        self._check = check
        self._briefs = briefs

    def play(self, seed: int, setting: Setting) -> Played:
        """Makes and checks a history. Raises RealWork, ActorError, and what the check raises but AssertionError."""
        casts: list[OwnActors] = []

        def cast(random: Random, faults: Faults, kill: Kill) -> OwnActors:
            casts.append(OwnActors(self._make, random, faults, kill))
            return casts[-1]

        made = history(seed, self._complete(seed, setting, cast))
        (watched,) = casts
        if watched.real:
            raise RealWork(
                f"{'; '.join(watched.real)}: a simulation cannot wait for anything real; pass a stand-in for it"
            )
        doubts, cause = self._run_check(watched.outside, made)
        wrong = (*made.wrong, *watched.wrong(), *doubts, *(() if made.planted else _all_failed(made)))
        return Played(setting, made, wrong, watched.calls.total(), cause)

    def shorten(self, played: Played) -> Played:
        """Returns the failure with fewer faults: of fewer kinds, and of these as few as it takes."""
        again = self.play(played.history.seed, played.setting)
        if (again.history.lines(), again.wrong) != (played.history.lines(), played.wrong):
            return msgspec.structs.replace(played, wrong=(*played.wrong, UNSTEADY))
        return self._thin(self._cut(self._of_fewer_kinds(played)))

    def _of_fewer_kinds(self, played: Played) -> Played:
        """Returns the failure with one kind of fault alone, or else without each kind that it does not need.

        A kind that does not cause it by itself may do so once it is more frequent.
        """
        kinds = Odds.__struct_fields__ if played.history.planted else ()
        each = ((kind, getattr(played.setting.odds, kind), times) for times in LOUD for kind in reversed(kinds))
        alone = (
            msgspec.structs.replace(CALM, **{kind: max(odds, min(0.5, times * odds))}) for kind, odds, times in each
        )
        for odds in dict.fromkeys(alone):
            found = self._or(played, odds=odds)
            if found is not played:
                return found
        for kind in kinds:
            fewer = msgspec.structs.replace(played.setting.odds, **{kind: 0.0})
            played = self._or(played, odds=fewer)
        return played

    def _cut(self, played: Played) -> Played:
        """Returns the failure with as short a beginning of its faults as bisection finds."""
        struck = played.history.struck
        low, high = 0, len(struck)
        while low < high:
            middle = (low + high) // 2
            shorter = self._or(played, only=frozenset(struck[:middle]))
            if shorter is not played:
                played, high = shorter, middle
            else:
                low = middle + 1
        return played

    def _thin(self, played: Played) -> Played:
        """Returns the failure without faults that it does not need: halves, quarters and so on, at last single ones.

        Single ones are tried until it needs each of those that are left.
        """
        size, tries = len(played.history.struck), TRIES
        while size and tries > 0:
            before, last = played, len(played.history.struck)
            while last > 0 and tries > 0:
                struck, first = played.history.struck, max(0, last - size)
                played = self._or(played, only=frozenset((*struck[:first], *struck[last:])))
                last, tries = first, tries - 1
            if size == 1 and played is before and not last:
                return msgspec.structs.replace(played, is_shortened=True)
            size = (size + 1) // 2
        return played

    def _or(self, played: Played, **changes: Any) -> Played:  # noqa: ANN401 - fields of a setting
        """Plays it with changes of its setting; returns that if it fails in the same way, else the one before."""
        other = self.play(played.history.seed, msgspec.structs.replace(played.setting, **changes))
        return other if other.is_like(played) else played

    def _complete(self, seed: int, setting: Setting, cast: Callable[[Random, Faults, Kill], OwnActors]) -> Setting:
        random = Random(f"{seed} runs")
        runs = min(len(self._briefs), random.choice((1, 1, 2, 2, 3)))
        briefs = tuple(random.sample(self._briefs, runs))
        plans = (self._plan,) * runs
        replace = msgspec.structs.replace
        return replace(setting, plans=plans, briefs=briefs, cast=cast, unasked=False, apart=True)

    def _run_check(self, outside: Outside, made: History) -> tuple[tuple[str, ...], AssertionError | None]:
        if self._check is None:
            return (), None
        try:
            holds = self._check(outside, made.events)
        except AssertionError as error:
            told = _ADDRESS.sub("", str(error))  # pytest adds what the values in the assertion are
            return (f"check: {told or 'an assertion does not hold'}",), error
        if isinstance(holds, Coroutine):
            holds.close()
            raise TypeError("check is an async function, whose result nobody awaits; define it with def alone")
        return (("check: it returned False",) if holds is False else ()), None


def _maker(plan: Plan, built: Mapping[str, Actor], actors: ActorsGiven | Callable[[Outside], ActorsGiven]) -> Make:
    """Returns a function that makes the actors of a worker; given actors replace those of the workflow."""
    given = actors if callable(actors) and not isinstance(actors, Actor) else _each(actors)

    def make(outside: Outside) -> tuple[Actor, ...]:
        added = _each(given(outside)) if callable(given) else given
        mine = {(actor.role, actor.name): actor for actor in (*built.values(), *added)}
        _refuse_unasked(plan, added)
        for path, step in steps_in(plan.steps):
            key = (step.role, step.actor)
            if key in SHIPPED and key not in PURE and key not in mine:
                raise ActorError(f"{path}: the {step.role} {step.actor} does real work; pass an actor of this name")
        return build_actor_registry(plan, mine.values(), ActorEnvironment(io.StringIO(), Path.cwd()))

    return make


def _refuse_unasked(plan: Plan, actors: Iterable[Actor]) -> None:
    """Raises ActorError for an actor that no step asks for: the one that it is to stand in for would work instead."""
    asked = {(step.role, step.actor) for _, step in steps_in(plan.steps)}
    for actor in actors:
        if (actor.role, actor.name) not in asked:
            same = sorted(name for role, name in asked if role == actor.role)
            names = nearest(actor.name, same, "take it out")
            raise ActorError(f"no step of {plan.name} asks for the {actor.role} {actor.name!r}; {names}")


def _each(actors: ActorsGiven | Actor | Coroutine[Any, Any, Any]) -> tuple[Actor, ...]:
    """Returns the actors. Raises ActorError for what is none."""
    if isinstance(actors, Coroutine):
        actors.close()
        raise ActorError("the function that makes actors is async; define it with def alone")
    if isinstance(actors, Actor) or not isinstance(actors, Iterable):
        raise ActorError(f"{actors!r} is no list of actors; put actors into a list")
    each = tuple(actors.values() if isinstance(actors, Mapping) else actors)
    for actor in each:
        if not isinstance(actor, Actor):
            raise ActorError(f"{actor!r} is no actor; decorate a function with @generator, @critic or the like")
    return each


def _kind(wrong: str) -> str:
    return wrong.partition(":")[0]
