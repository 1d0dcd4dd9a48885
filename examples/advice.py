"""A projection of one's own: how often critics give the same advice. Run it: `python examples/advice.py`

It lies beside those that ship: `redraft projections show examples/advice.py`, `redraft rebuild examples/advice.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

from redraft.app import open_readonly, read_settings, refine
from redraft.events import Recorded
from redraft.events.messages.domain_events import DraftCritiqued
from redraft.projections import Change, Projection, Set, Table

sys.path.insert(0, str(Path(__file__).parent))
from article import article


def count(event: Recorded) -> Iterable[Change]:
    if isinstance(event.data, DraftCritiqued):
        for text in event.data.critique.suggestions:
            yield Set(
                "advice", (text,), {"latest": event.run}, {"times": 1}, new={"text": text, "times": 0, "latest": ""}
            )


table = Table("advice", {"text": "TEXT NOT NULL", "times": "INTEGER NOT NULL", "latest": "TEXT NOT NULL"})
advice = Projection("advice", 1, (table,), count)


async def main() -> None:
    await refine(article, "Why tides exist")
    async with open_readonly(read_settings()) as runtime:
        views = await runtime.models.of(advice)
        for text, times in await views.query("SELECT text, times FROM advice ORDER BY times DESC, text"):
            print(f"{times} x {text}")


if __name__ == "__main__":
    asyncio.run(main())
