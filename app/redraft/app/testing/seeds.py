"""Makes the histories of many seeds in several processes, which send back only what the histories are counted by."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from redraft.app.testing.history import history

CHUNK = 10
"""How many seeds a process is given at a time."""


class Checked(NamedTuple):
    """The history of a seed: the number of its events, and whether something is wrong with it."""

    seed: int
    events: int
    is_wrong: bool


def check_seeds(seeds: range, jobs: int) -> Iterator[Checked]:
    """Makes the histories of these seeds in `jobs` processes; yields what came of each, in order."""
    if jobs == 1 or len(seeds) <= CHUNK:
        yield from map(check_seed, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(check_seed, seeds, chunksize=CHUNK)


def check_seed(seed: int) -> Checked:
    """Makes the history of a seed."""
    made = history(seed)
    return Checked(seed, len(made.events), bool(made.wrong))
