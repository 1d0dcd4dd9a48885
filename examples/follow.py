"""Subscribing to refinement events: every score, as it is recorded. Run it: `python examples/follow.py`"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from redraft.app import open_local, read_settings
from redraft.events.messages.domain_events import DraftCritiqued, RunEnded

sys.path.insert(0, str(Path(__file__).parent))
from article import article


async def main() -> None:
    async with open_local(read_settings(), article.actors.values()) as runtime:
        run = await runtime.client.submit(article, "Why tides exist")
        async for event in runtime.client.subscribe(run=run):
            match event.data:
                case DraftCritiqued(draft=draft, critique=critique):
                    print(f"event {event.position}: draft {draft.version} scored {critique.score:.2f}")
                case RunEnded(outcome=outcome, reason=reason):
                    print(f"event {event.position}: {outcome}: {reason}")
                    return
                case _:
                    pass


if __name__ == "__main__":
    asyncio.run(main())
