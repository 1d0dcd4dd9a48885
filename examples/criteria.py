"""A critic that judges by criteria, each on a scale of 1 to 10, and a loop that ends when each is good enough.

Run it: `python examples/criteria.py`
"""

from __future__ import annotations

import asyncio

from redraft.actors import Brief, Draft, Workflow, criterion, critic, generator, refiner
from redraft.app import refine

HARD = {"evaporates": "dries up", "precipitation": "rain", "condenses": "turns to drops"}


@generator
def write(brief: Brief) -> str:
    return "Water evaporates, condenses, and comes back as precipitation."


@critic(
    scale=(1, 10),
    criteria={"accuracy": "every claim is right", "tone": "for children: no hard words"},
    weights={"accuracy": 2},
)
def judge(draft: Draft) -> dict[str, object]:
    hard = [word for word in HARD if word in draft.text]
    tone = {"score": 10 - 2 * len(hard), "confidence": 0.8, "reason": f"{len(hard)} hard words"}
    return {"criteria": {"accuracy": 9, "tone": tone}, "suggestions": [f"avoid {word}" for word in hard[:1]]}


@refiner
def simplify(draft: Draft) -> str:
    word = next(word for word in HARD if word in draft.text)
    return draft.text.replace(word, HARD[word])


children = (
    Workflow("children")
    .start_with(write)
    .repeat_until(
        (criterion.accuracy >= 8) & (criterion.tone >= 6), max_iterations=5, body=[judge, simplify], rollback_of="tone"
    )
)


async def main() -> None:
    result = await refine(children, "Rain, for children")
    for each in result.critiques:
        print(f"draft {each.draft.version}: {each.critique.shown_score}; {each.critique.shown_criteria}")
    print(f"\n{result.text}\n\n{result.outcome}: {result.reason}")


if __name__ == "__main__":
    asyncio.run(main())
