"""The global random source, seeded for one history."""

from __future__ import annotations

import random as global_random
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seed_random(seed: int) -> Iterator[None]:
    """Seeds the global random source, which pauses between retries use."""
    state = global_random.getstate()
    global_random.seed(seed)
    try:
        yield
    finally:
        global_random.setstate(state)
