"""The global random source, seeded for one history."""

from __future__ import annotations

import random as global_random
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def seed_random(seed: int) -> Iterator[None]:
    """Seeds the global random source, which pauses between retries use."""
    from stamina import instrumentation  # it takes a while, and only those who serve need it

    state, hooks = global_random.getstate(), instrumentation.get_on_retry_hooks()
    global_random.seed(seed)
    instrumentation.set_on_retry_hooks([])
    try:
        yield
    finally:
        instrumentation.set_on_retry_hooks(hooks)
        global_random.setstate(state)
