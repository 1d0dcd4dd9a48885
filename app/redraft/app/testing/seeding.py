"""Randomness that hangs on the seed of a history alone."""

from __future__ import annotations

import random as global_random
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random


def random_for(seed: int, trait: str, share: float) -> Random | None:
    """Returns the randomness with which a trait is drawn for a history; None if the history does not have it.

    `share` of all seeds have it. The trait's text is part of the randomness, so that no trait changes another.
    """
    random = Random(f"{seed} {trait}")
    return random if random.random() < share else None


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
