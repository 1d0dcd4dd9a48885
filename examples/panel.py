"""A panel of critics, one of whom may veto, and the better of two first drafts. Run it: `python examples/panel.py`"""

from __future__ import annotations

import asyncio

from redraft.actors import Critique, Revision, Workflow, critic, generator, parallel, publisher, refiner, score
from redraft.app import refine
from redraft.events.messages.content import Brief, Draft

LIMIT = 12


@generator
async def plain(brief: Brief) -> str:
    return f"SELECT * FROM orders ({brief.text})"


@generator
async def careful(brief: Brief) -> str:
    return f"SELECT id, total FROM orders ({brief.text}) ORDER BY total, id, city, day, month, year"


@critic
async def columns(draft: Draft) -> Critique:
    named = "*" not in draft.text
    return Critique(1.0 if named else 0.4, errors=() if named else ("name the columns instead of *",))


@critic(scale=(0, LIMIT))
async def brevity(draft: Draft) -> Critique:
    words = len(draft.text.split())
    return Critique(
        max(0, LIMIT - max(0, words - LIMIT)), suggestions=("sort by fewer columns",) if words > LIMIT else ()
    )


@critic
async def safety(draft: Draft) -> Critique:
    return Critique(1.0, approved=False, errors=("it deletes",)) if "DELETE" in draft.text else Critique(1.0)


@refiner
async def shorten(draft: Draft) -> Revision:
    head, _, tail = draft.text.rpartition(",")
    return Revision(head, changes=(f"no longer sorts by{tail}",)) if head else Revision(draft.text, exit=True)


@publisher
async def show(draft: Draft) -> str:
    return f"draft {draft.version}"


query = (
    Workflow("query")
    .then(parallel("FirstDrafts", plain, careful, judge=columns))
    .repeat_until(
        score >= 0.99,
        max_iterations=4,
        name="Review",
        body=[parallel("Panel", columns, brevity, safety, combine="veto"), shorten],
    )
    .finally_(show)
)

if __name__ == "__main__":
    result = asyncio.run(refine(query, "Oslo"))
    print(result.text)
    print(f"{result.outcome}: {result.reason}")
