"""The libraries that talk to servers say what they see on loggers of their own; people are told by us."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NAMES: Final = ("aio_pika", "aiormq", "psycopg", "psycopg.pool", "eventsourcing")


@contextmanager
def quiet() -> Iterator[None]:
    """What they say goes nowhere while the block lasts, unless `heard` is within it."""
    with _set(propagate=False):
        yield


@contextmanager
def heard(handler: logging.Handler) -> Iterator[None]:
    """What they and all others log goes to this handler while the block lasts."""
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with _set(propagate=True):
            yield
    finally:
        root.removeHandler(handler)


@contextmanager
def _set(*, propagate: bool) -> Iterator[None]:
    nowhere = logging.NullHandler()
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(nowhere)
        logger.propagate = propagate
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.removeHandler(nowhere)
            logger.propagate = was
