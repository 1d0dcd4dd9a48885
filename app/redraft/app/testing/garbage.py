"""Collects what a history leaves behind, so that nothing of it is heard in a later one."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from warnings import catch_warnings, simplefilter

MAX_COLLECTIONS: Final = 10
"""The maximum number of garbage collections after a history."""


@contextmanager
def apart() -> Iterator[None]:
    """Collects, silently, the garbage made within the context when it ends.

    What was killed never cleans up: the loop is closed, and what it awaits never comes. Python reports each coroutine
    that ignores being closed; those reports are suppressed.
    """
    heard, sys.unraisablehook = sys.unraisablehook, lambda fault: None
    collects = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        with catch_warnings():
            simplefilter("ignore", RuntimeWarning)  # of functions that were killed before they had begun
            for _ in range(MAX_COLLECTIONS):  # what was killed wakes once more to be closed, and is garbage only then
                if not gc.collect():
                    break
        gc.unfreeze()
        if collects:
            gc.enable()
        sys.unraisablehook = heard
