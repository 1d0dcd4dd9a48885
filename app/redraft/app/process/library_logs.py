"""Silences the logs of libraries; imports nothing but Python's own `logging`, for commands that start at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

NAMES: Final = (
    "aio_pika",
    "aiormq",
    "psycopg",
    "psycopg.pool",
    "eventsourcing",
    "opentelemetry",
    "redraft.app.telemetry",
)


@contextmanager
def quiet() -> Iterator[None]:
    """Silences the logs of libraries within the block, except within `logs.libraries`."""
    with propagated(propagate=False):
        yield


@contextmanager
def propagated(*, propagate: bool) -> Iterator[None]:
    """Gives the logs of libraries to the root logger within the block, or to nobody."""
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
