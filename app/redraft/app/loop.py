"""The event loop that our own programs run on, and how they come to an end whatever their tasks do."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Coroutine
from typing import Final, TypeVar

T = TypeVar("T")

COLLECT: Final = (20_000, 50, 1000)
"""How seldom the collector of cycles runs: events and states have none. `benchmarks/loop.py` gained a tenth by it."""

PATIENCE: Final = 2.0
"""Seconds that tasks have to end once they are cancelled; then the program ends without them."""


def run(main: Coroutine[None, None, T]) -> T:
    """Runs a coroutine to its end, on uvloop except on Windows.

    Unlike `asyncio.run` it does not wait for ever for a task that swallows its cancellation.
    """
    gc.set_threshold(*COLLECT)
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        ended = loop.run_until_complete(_end_all())
        asyncio.set_event_loop(None)
        if ended:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


async def _end_all() -> bool:
    """Cancels every other task; whether all have ended in time."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if not others:
        return True
    _, stubborn = await asyncio.wait(others, timeout=PATIENCE)
    return not stubborn


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()
