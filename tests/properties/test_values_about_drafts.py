"""A draft that a loop accepts by a value of the state is one about which that value was said: plans drawn at random.

The tests note which texts they were shown, and know by themselves what they answer about each: nothing here asks the
code which values it took for current.
"""

from __future__ import annotations

from functools import reduce
from itertools import count
from operator import and_
from random import Random

import pytest
from tests.trials import first_alone

from redraft.actors import (
    Actor,
    Workflow,
    critic,
    generator,
    refiner,
    repeat,
    score,
    state,
    step,
)
from redraft.app import refine
from redraft.app.settings.settings import Settings
from redraft.events.messages.conditions import Condition
from redraft.events.messages.plan import Repeat

MOST_TESTS = 3


@generator
def write(brief):
    return brief.text


def passes(seed: int, name: str, text: str) -> bool:
    """Returns the answer of a test about a text: always the same one."""
    return Random(f"{seed} {name} {text}").random() < 0.45


class DrawnPlan:
    """Loops in loops with critics, refiners, and tests that look at a draft, in any order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.shown: dict[str, set[str]] = {}
        self.asked_for: tuple[str, ...] = ()
        self._chance = Random(seed)
        self._numbers = count()
        self._tests = 0

    def workflow(self) -> Workflow:
        body = self._loop(inside=False)
        return Workflow("drawn", state={"t0": self._chance.random() < 0.5}).start_with(write).then(body)

    def _loop(self, *, inside: bool) -> Repeat:
        first = self._tests
        body = [self._refiner(), *(self._member(inside=inside) for _ in range(self._chance.randint(2, 5)))]
        self._chance.shuffle(body)
        names = tuple(f"t{n}" for n in range(first, self._tests) if self._chance.random() < 0.8)
        parts: list[Condition] = [state[name].condition for name in names]
        if not names:
            body.append(self._critic())
        judges = any(isinstance(each, Actor) and each.role == "critic" for each in body)
        if judges and (not names or self._chance.random() < 0.4):
            parts.append(score >= self._chance.choice((0.3, 0.6)))
        until = reduce(and_, parts)
        self.asked_for = names
        return repeat(f"L{next(self._numbers)}", until=until, max_iterations=self._chance.randint(1, 3), body=body)

    def _member(self, *, inside: bool) -> Actor | Repeat:
        drawn = self._chance.random()
        if drawn < 0.45 and self._tests < MOST_TESTS:
            return self._test()
        if drawn < 0.75:
            return self._critic()
        return self._loop(inside=True) if drawn < 0.85 and not inside else self._refiner()

    def _test(self) -> Actor:
        name, seed, chance = f"t{self._tests}", self.seed, Random(f"{self.seed} {self._tests}")
        self._tests += 1
        shown, said = self.shown.setdefault(name, set()), list[bool]()

        def look(draft):
            shown.add(draft.text)
            said.append(passes(seed, name, draft.text))
            confirms = said[-2:] in ([True, True], [False, False]) and chance.random() < 0.5
            return None if confirms else {name: said[-1]}

        declared = name == "t0" or self._chance.random() < 0.5
        return (step(name=name, writes=[name]) if declared else step(name=name))(look)

    def _critic(self) -> Actor:
        name, seed = f"j{next(self._numbers)}", self.seed
        return critic(name=name)(lambda draft: Random(f"{seed} {name} {draft.text}").random())

    def _refiner(self) -> Actor:
        name = f"i{next(self._numbers)}"
        chance = Random(f"{self.seed} {name}")
        return refiner(name=name)(lambda draft: draft.text + chance.choice(("a", "b", "c", "")))


@pytest.mark.parametrize("first", first_alone(range(0, 240, 60)))
async def test_a_draft_is_accepted_only_by_values_that_were_said_of_it(first: int):
    ends = []
    for seed in range(first, first + 60):
        drawn = DrawnPlan(seed)
        result = await refine(drawn.workflow(), "d", settings=Settings(store="memory:"))
        ends.append(result.outcome)
        if result.outcome == "accepted":
            for name in drawn.asked_for:
                assert result.text in drawn.shown[name], f"seed {seed}: {name} was never shown {result.text}"
                assert passes(seed, name, result.text), f"seed {seed}: {name} says no of {result.text}"
    assert ends.count("accepted") >= 12
    assert ends.count("exhausted") >= 12
