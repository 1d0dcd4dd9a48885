"""Books whose chapters are refined side by side, drawn at random: what came of them, seen from outside.

The actors note what they were shown and what they did; nothing here asks the code what it decided.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from tests.trials import first_alone

from redraft.actors import Context, Draft, Retry, Workflow, critic, each, generator, refiner, repeat, score, step
from redraft.app import refine
from redraft.app.client.result import Result
from redraft.app.settings.settings import Settings
from redraft.events.messages.plan import Ending, OnFailure


class DrawnBook:
    """A book of chapters, and all that its actors noted: by chapter, the texts that they wrote, in order."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        self.seed = seed
        self.chapters = [
            {"title": f"c{number}", "parts": chance.randint(0, 2)} for number in range(chance.randint(0, 5))
        ]
        self.most = chance.randint(1, 4)
        self.iterations = chance.randint(1, 3)
        self.nested = chance.random() < 0.3
        self.fails = chance.choice((0.0, 0.0, 0.1, 0.3))
        self.left: Ending = chance.choice(("publish", "fail"))
        self.salvages: OnFailure = chance.choice(("fail", "publish_best"))
        self.texts: defaultdict[int, list[str]] = defaultdict(list)
        self.judged: defaultdict[int, list[tuple[str, float]]] = defaultdict(list)
        self.broken: set[int] = set()
        self.bound: list[list[str]] = []
        self.pieces: dict[int, list[str]] = {}
        self.at_work: Counter[int] = Counter()
        self.highest = 0
        self._pace = Random(f"{seed} pace")

    def workflow(self) -> Workflow:
        @generator
        async def write(context: Context) -> str:
            return await self._work(context, f"{context.state.item['title']}:")

        @critic
        async def judge(draft: Draft, context: Context) -> float:
            number = context.state.index
            if Random(f"{self.seed} {draft.text} breaks").random() < self.fails:
                self.broken.add(number)
                raise RuntimeError("out of order")
            said = Random(f"{self.seed} {draft.text}").random()
            self.judged[number].append((draft.text, said))
            return said

        @refiner
        async def improve(draft: Draft, context: Context) -> str:
            return await self._work(context, draft.text + self._pace.choice("abc"))

        @generator
        async def bind(context: Context) -> str:
            self.bound.append([draft.text for draft in context.outputs])
            return "a book"

        @generator
        async def piece(context: Context) -> str:
            return f"piece {context.state.index}"

        @step
        async def note(context: Context) -> None:
            self.pieces[context.state.index] = [draft.text for draft in context.outputs]

        @step(writes=["parts"])
        async def split(context: Context) -> dict[str, Any]:
            return {"parts": list(range(context.state.item["parts"]))}

        loop = repeat(
            "Loop",
            until=score >= 0.6,
            max_iterations=self.iterations,
            body=[step(judge, retry=Retry(1)), improve],
            on_exhausted=self.left,
        )
        inner = [split, each("Pieces", over="state.parts", body=[piece], concurrency=2), note] if self.nested else []
        return (
            Workflow("book", state={"chapters": self.chapters})
            .for_each("state.chapters", name="Chapters", concurrency=self.most, body=[*inner, write, loop])
            .then(bind)
            .on_failure(self.salvages)
        )

    async def _work(self, context: Context, text: str) -> str:
        number = context.state.index
        assert context.state.item == self.chapters[number - 1]
        self.at_work[number] += 1
        self.highest = max(self.highest, sum(count > 0 for count in self.at_work.values()))
        await asyncio.sleep(self._pace.choice((0, 0, 0.001, 0.003)))
        self.at_work[number] -= 1
        self.texts[number].append(text)
        return text

    def draft_of(self, number: int) -> str | None:
        """Returns the text with which a chapter should have ended; None for one that gives none."""
        judged = self.judged[number]
        if number in self.broken:
            return None if self.salvages == "fail" or not judged else max(judged, key=lambda each: each[1])[0]
        if judged and judged[-1][1] >= 0.6:
            return judged[-1][0]
        return None if self.left == "fail" else max(judged, key=lambda each: each[1])[0]


def check(drawn: DrawnBook, result: Result) -> None:
    """Raises AssertionError unless what happened is what the plan says."""
    assert drawn.highest <= drawn.most, f"{drawn.highest} chapters were at work at once"
    if result.outcome == "accepted":
        expected = [drawn.draft_of(number + 1) for number in range(len(drawn.chapters))]
        assert drawn.bound == [expected], f"bound {drawn.bound}, not {expected}"
        for number, chapter in enumerate(drawn.chapters, 1) if drawn.nested else ():
            assert drawn.pieces[number] == [f"piece {at + 1}" for at in range(chapter["parts"])]
        return
    assert result.outcome == "failed", result.outcome
    assert drawn.bound == []
    assert any(drawn.draft_of(number) is None for number in drawn.texts), "every chapter that was begun gave a draft"


async def ends_of(seeds: Sequence[int]) -> Counter[str]:
    ends: Counter[str] = Counter()
    for seed in seeds:
        drawn = DrawnBook(seed)
        result = await refine(drawn.workflow(), "d", settings=Settings(store="memory:"))
        try:
            check(drawn, result)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {fault}; {result.reason}; {dict(drawn.judged)}") from None
        ends[result.outcome] += 1
    return ends


@pytest.mark.parametrize("first", first_alone(range(0, 120, 40)))
async def test_chapters_come_to_what_their_plan_says(first: int):
    ends = await ends_of(range(first, first + 40))
    assert min(ends["accepted"], ends["failed"]) >= 4
