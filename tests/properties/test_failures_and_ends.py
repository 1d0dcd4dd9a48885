"""Loops whose steps fail now and then, with every way to end, drawn at random: what came of them, seen from outside.

The actors note what they were shown and what they did; nothing here asks the code what it decided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import count
from operator import and_
from random import Random

import pytest
from tests.trials import first_alone

from redraft.actors import Actor, Retry, Workflow, critic, generator, publisher, refiner, score, state, step
from redraft.actors.workflow.builders import StepSpec, as_part
from redraft.app import refine
from redraft.app.client.result import Result
from redraft.app.settings.settings import Settings
from redraft.events.messages.conditions import Condition


@generator
def write(brief):
    return brief.text


class DrawnLoop:
    """A loop, with the calls of its actors in order: (what, name, text, errors that it was told of)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.calls: list[tuple[str, str, str, tuple[str, ...]]] = []
        self.published: list[str] = []
        self.tests: list[str] = []
        self.critics: list[str] = []
        self._chance = Random(seed)
        self._numbers = count()
        self._odds = self._chance.choice((0.1, 0.3, 0.6))
        self.refines = self._chance.random() < 0.8
        self.most = self._chance.randint(1, 3)
        self.ending = self._chance.choice(("publish", "fail"))

    def workflow(self) -> Workflow:
        kinds = [self._chance.choice((self._test, self._critic)) for _ in range(self._chance.randint(1, 3))]
        body = [make() for make in sorted(kinds, key=lambda make: make == self._test)]  # critics stand side by side
        body.insert(self._chance.choice((0, *range(len(self.critics), len(body) + 1))), as_part(self._refiner()))
        parts: list[Condition] = [state[name].condition for name in self.tests]
        if self.critics:
            parts.append(score >= self._chance.choice((0.2, 0.4)))

        @publisher
        def save(draft):
            self.published.append(draft.text)
            return "shelf"

        return (
            Workflow("drawn")
            .start_with(write)
            .repeat_until(
                reduce(and_, parts),
                max_iterations=self._chance.randint(1, 4),
                body=body,
                on_exhausted=self.ending,
                on_failure="refine" if self.refines else "end",
                max_failures=self.most,
            )
            .finally_(save)
        )

    def says(self, name: str, text: str) -> float:
        """Returns the word of a test or critic on a text: always the same."""
        return Random(f"{self.seed} {name} {text}").random()

    def _look(self, name: str, text: str) -> float:
        if Random(f"{self.seed} {name} {text} fails").random() < self._odds:
            self.calls.append(("failed", name, text, ()))
            raise RuntimeError(f"{name} broke on {text!r}")
        self.calls.append(("looked", name, text, ()))
        return self.says(name, text)

    def _test(self) -> StepSpec:
        name = f"t{next(self._numbers)}"
        self.tests.append(name)
        made = step(name=name, writes=[name])(lambda draft: {name: self._look(name, draft.text) < 0.5})
        return step(made, retry=Retry(1))

    def _critic(self) -> StepSpec:
        name = f"j{next(self._numbers)}"
        self.critics.append(name)
        return step(critic(name=name)(lambda draft: self._look(name, draft.text)), retry=Retry(1))

    def _refiner(self) -> Actor:
        chance = Random(f"{self.seed} refiner")

        def improve(draft, critique):
            self.calls.append(("refined", "improve", draft.text, critique.errors if critique else ()))
            return draft.text + chance.choice("abc")

        return refiner(improve)


def check(drawn: DrawnLoop, result: Result) -> None:
    """Raises AssertionError unless what happened is what the plan says."""
    failures = [number for number, (what, *_) in enumerate(drawn.calls) if what == "failed"]
    allowed = drawn.most if drawn.refines else 0
    assert len(failures) <= allowed + (result.outcome == "failed"), "more failures than the plan allows"
    match result.outcome:
        case "accepted":
            assert drawn.published == [result.text]
            for name in (*drawn.tests, *drawn.critics):
                assert ("looked", name, result.text, ()) in drawn.calls, f"{name} never looked at {result.text}"
            assert all(drawn.says(name, result.text) < 0.5 for name in drawn.tests)
        case "exhausted":
            assert len(drawn.published) == (drawn.ending == "publish")
            for name in drawn.critics if drawn.published else ():
                assert ("looked", name, drawn.published[0], ()) in drawn.calls, f"{name} never judged what is published"
        case "failed":
            assert drawn.published == []
        case other:
            raise AssertionError(other)
    for number in failures:
        _, name, text, _ = drawn.calls[number]
        after = next((call for call in drawn.calls[number + 1 :] if call[0] == "refined"), None)
        if after is None:
            assert result.outcome == "failed", f"the failure of {name} was forgotten"
        elif after[2] == text:  # else the refinement goes back to a better draft
            assert any(f"{name} broke on {text!r}" in error for error in after[3]), f"{name}'s failure was not told"


async def ends_of(seeds: Sequence[int]) -> Counter[str]:
    ends: Counter[str] = Counter()
    for seed in seeds:
        drawn = DrawnLoop(seed)
        result = await refine(drawn.workflow(), "d", settings=Settings(store="memory:"))
        try:
            check(drawn, result)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {fault}; {drawn.calls}") from None
        ends[result.outcome] += 1
    return ends


@pytest.mark.parametrize("first", first_alone(range(0, 240, 60)))
async def test_loops_end_and_go_on_as_their_plans_say(first: int):
    ends = await ends_of(range(first, first + 60))
    assert min(ends["accepted"], ends["exhausted"], ends["failed"]) >= 4
