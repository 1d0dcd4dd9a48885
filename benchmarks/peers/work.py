"""The work of every peer, and how it is measured. It needs nothing but Python: each peer has packages of its own.

One loop is that of `benchmarks/loop.py`: generate, 3 x (critique, refine), a closing critique, publish; nine steps,
drafts of 2 KB. A peer's result counts only if its last draft is the one that these functions make.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

ROUNDS = 3
TEXT = ("Tides exist because gravity weakens with distance. " * 41)[:2048]
BRIEF = "Why tides exist"
COMMENT = "say why the far side bulges too"

Loop: TypeAlias = Callable[[str], Awaitable[str]]
"""Runs one loop, with every step stored before the next; takes its name, and returns what it published."""

Figures: TypeAlias = dict[str, float]

Place: TypeAlias = Callable[[str, Path], AbstractAsyncContextManager[Loop]]
"""Opens a peer of a variant, which may keep files in a folder."""


def refined(draft: str) -> str:
    return draft[1:] + draft[0]


def expected() -> str:
    draft = TEXT
    for _ in range(ROUNDS):
        draft = refined(draft)
    return draft


def main(place: Place, run: Callable[[Coroutine[None, None, Figures]], Figures] = asyncio.run) -> None:
    """Measures what `VARIANT AT_ONCE SECONDS` in the command line say, and prints one line of JSON."""
    variant, at_once, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(_measure(place, variant, at_once, seconds, Path(folder)))))


async def _measure(place: Place, variant: str, at_once: int, seconds: float, folder: Path) -> Figures:
    async with place(variant, folder) as loop:

        async def lane(number: int, until: float) -> int:
            """Runs one loop after the other, until this time has come; returns how many."""
            for count in itertools.count(1):
                if await loop(f"{until}-{number}-{count}") != expected():
                    raise SystemExit(f"{variant}: a loop published another draft")
                if time.perf_counter() >= until:
                    break
            return count

        await asyncio.gather(*(lane(number, 0.0) for number in range(at_once)))
        used, begun = _cpu_seconds(), time.perf_counter()
        done = sum(await asyncio.gather(*(lane(number, begun + seconds) for number in range(at_once))))
        taken, used = time.perf_counter() - begun, _cpu_seconds() - used
    return {"loops_per_s": done / taken, "cpu_ms_per_loop": used / done * 1000}


def _cpu_seconds() -> float:
    """The CPU time of this process: of no server, and of no other process of the peer."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
