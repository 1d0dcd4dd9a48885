"""What a history is about: random plans, and actors that answer as a script says: late, wrong, not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from redraft.actors import Actor, Context, Critique, Receipt, Revision
from redraft.actors.plan_check import check_plan
from redraft.actors.roles import Function
from redraft.app.testing.faults import Faults
from redraft.events.conditions import AnyOf, Approved, Compare, Condition, Plateau
from redraft.events.errors import PlanError
from redraft.events.plan import Approve, Arm, Budget, Keep, Node, Parallel, Plan, Repeat, Retry, Role, Step
from redraft.events.usage import Usage

CRITICS: Final = ("facts", "prose", "taste")
ACTORS: Final[dict[Role, tuple[str, ...]]] = {
    "generator": ("write", "dictate"),
    "critic": (*CRITICS, "gate"),
    "refiner": ("improve",),
    "publisher": ("save", "web"),
}


def random_plan(random: Random) -> Plan:
    """A plan that may be run: loops in loops, panels, best of several, choices, gates, approvals, budgets."""
    while True:
        try:
            return check_plan(_plan(random))
        except PlanError:
            continue


def _plan(random: Random) -> Plan:
    steps: list[Node] = [_first(random)]
    steps += [_loop(random, f"Loop{number}", depth=0) for number in range(random.choice((1, 1, 1, 2)))]
    if random.random() < 0.25:
        steps.append(_approve(random, "Editor"))
    steps.append(_last(random))
    budget = Budget(calls=random.randint(2, 20)) if random.random() < 0.15 else None
    on_failure = random.choice(("fail", "publish_best"))
    return Plan(f"plan-{random.getrandbits(24):06x}", tuple(steps), on_failure, budget)  # type: ignore[arg-type]


def _step(random: Random, role: Role, actor: str, *, gate: bool = False) -> Step:
    retry = Retry(random.randint(1, 4), random.choice((0.0, 1.0, 30.0)))
    return Step(role, actor, actor, random.choice((30.0, 300.0)), retry, gate=gate)


def _first(random: Random) -> Node:
    if random.random() < 0.2:
        both = (_step(random, "generator", "write"), _step(random, "generator", "dictate"))
        return Parallel("Best", both, random.choice(("all", "first")), judge=_step(random, "critic", "taste"))
    return _step(random, "generator", "write")


def _last(random: Random) -> Node:
    if random.random() < 0.2:
        return Parallel("Out", (_step(random, "publisher", "save"), _step(random, "publisher", "web")))
    return _step(random, "publisher", "save")


def _loop(random: Random, name: str, depth: int) -> Repeat:
    body: list[Node] = [*_critics(random), _step(random, "refiner", "improve")]
    if depth == 0 and random.random() < 0.2:
        body.insert(0, _loop(random, f"{name}in", depth=1))
    asks = random.random() < 0.12
    if asks:
        body.insert(len(body) - 1, _approve(random, "Reader"))
    until = Approved() if asks and random.random() < 0.5 else _condition(random)
    keep: Keep = random.choice(("best", "best", "last"))
    return Repeat(name, until, random.randint(1, 4), tuple(body), keep, random.choice((0.0, 0.1, 1.0)))


def _critics(random: Random) -> list[Node]:
    kind = random.random()
    if kind < 0.35:
        return [_step(random, "critic", "facts")]
    if kind < 0.45:
        return [_step(random, "critic", "gate", gate=True), _step(random, "critic", "facts")]
    if kind < 0.55:
        arms = tuple(Arm(actor, actor) for actor in ("facts", "prose"))
        return [Step("critic", "", "chosen", retry=Retry(2, 1.0), choose=arms)]
    members = tuple(_step(random, "critic", name) for name in random.sample(CRITICS, random.choice((2, 3))))
    wait = random.choice(("all", "first", 2))
    deadline = random.choice((None, None, 60.0))
    combine = random.choice(("min", "median", "mean", "veto"))
    return [Parallel("Panel", members, wait, combine, deadline=deadline)]  # type: ignore[arg-type]


def _condition(random: Random) -> Condition:
    enough = Compare("score", ">=", random.choice((0.5, 0.8, 0.95)))
    return AnyOf((enough, Plateau(0.05, 2))) if random.random() < 0.3 else enough


def _approve(random: Random, name: str) -> Approve:
    return Approve(name, quorum=random.choice((1, 1, 2)), deadline=random.choice((600.0, 7200.0)))


class Cast(Protocol):
    """Who works in a history: how often each was called for what, and how often it had published by then."""

    calls: Counter[tuple[str, str, int]]
    published: Counter[tuple[str, str, int]]

    def actors(self) -> list[Actor]:
        """One for each seat of the plans, for a process that starts."""
        ...


class Script:
    """What the actors of a history answer, and how often each was asked for what."""

    def __init__(self, random: Random, faults: Faults) -> None:
        self.calls: Counter[tuple[str, str, int]] = Counter()
        self.published: Counter[tuple[str, str, int]] = Counter()
        self._random = random
        self._faults = faults

    def actors(self) -> list[Actor]:
        """One for each seat of a plan."""
        answers: dict[Role, Callable[[], object]] = {
            "generator": lambda: f"draft {self._random.getrandbits(40)}",
            "critic": self._critique,
            "refiner": self._revision,
            "publisher": lambda: Receipt("shelf"),
        }
        return [
            Actor(name, role, self._function(role, name, answers[role]), ("context",), is_async=True)
            for role, names in ACTORS.items()
            for name in names
        ]

    def _critique(self) -> Critique:
        random = self._random
        approved = False if random.random() < 0.04 else None
        return Critique(random.choice((0.3, 0.6, 0.6, 0.9, 1.0)), suggestions=("say more",), approved=approved)

    def _revision(self) -> Revision:
        return Revision(f"draft {self._random.getrandbits(40)}", exit=self._random.random() < 0.03)

    def _function(self, role: Role, name: str, answer: Callable[[], object]) -> Function:
        async def act(context: Context) -> object:
            odds, what = self._faults.odds, f"{name} at {context.path} of {context.run}"
            place = (context.run, context.path, context.attempt)
            self.calls[place] += 1
            context.used(Usage(calls=1, tokens=100))
            await asyncio.sleep(self._faults.between(0.01, 5))
            if self._faults.happens(odds.actor_late, f"{what} takes longer than its time"):
                await asyncio.sleep(context.timeout + 60)
            if self._faults.happens(odds.actor_wrong, f"{what} returns what its role does not allow"):
                return 3.14
            if self._faults.happens(odds.actor_fails, f"{what} fails"):
                raise RuntimeError("out of order")
            if role == "publisher":
                self.published[place] += 1
            return answer()

        return act
