"""Many histories, made on all cores, with the first seeds first."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from redraft.app.testing.history import history

CHUNK = 10
"""How many seeds a process is given at a time."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of a seed: how many events its history has, and whether anything is wrong with it."""

    seed: int
    events: int
    is_wrong: bool


def outcomes(seeds: range, jobs: int) -> Iterator[Outcome]:
    """Makes the histories of these seeds in so many processes; gives what came of each, in their order."""
    if jobs == 1 or len(seeds) <= CHUNK:
        yield from map(_outcome, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_outcome, seeds, chunksize=CHUNK)


def _outcome(seed: int) -> Outcome:
    told = history(seed)
    return Outcome(seed, len(told.events), bool(told.wrong))
