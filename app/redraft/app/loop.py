"""The event loop that our own programs run on: uvloop where there is one, for its threads answer it sooner."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(main: Coroutine[None, None, T]) -> T:
    """Runs a coroutine to its end, as `asyncio.run` does, on uvloop except on Windows."""
    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop

    return uvloop.run(main)
