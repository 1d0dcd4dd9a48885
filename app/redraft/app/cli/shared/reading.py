"""Shared behaviour of the verbs that only read: they open the log, query it and close it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from redraft.app.cli.shared.errors import say
from redraft.app.record import past
from redraft.app.settings.settings import Settings, read_settings
from redraft.app.wiring.local import LocalRuntime, open_readonly
from redraft.events.errors import StoreError

S = TypeVar("S")
T = TypeVar("T")


def ask(store: str | None, question: Callable[[LocalRuntime], Awaitable[T]]) -> T:
    """Returns what a question gives for an open log. Raises StoreError where there is no store: looking makes none."""
    return asyncio.run(_answer(open_readonly(existing_store(store)), question))


def ask_server(opening: AbstractAsyncContextManager[S], question: Callable[[S], Awaitable[T]]) -> T:
    """Returns what a question gives for what is opened; what libraries of servers log meanwhile is left out."""
    return run_quietly(_answer(opening, question))


async def _answer(opening: AbstractAsyncContextManager[S], question: Callable[[S], Awaitable[T]]) -> T:
    async with opening as opened:
        return await question(opened)


def run_quietly(asking: Coroutine[None, None, T]) -> T:
    """Returns the result of a coroutine that speaks to servers; what their libraries log is left out."""
    from redraft.app.process.lifecycle import run
    from redraft.app.process.logs import libraries

    with libraries():
        return run(asking)


def existing_store(store: str | None, bus: str | None = None) -> Settings:
    """Returns the settings. Raises StoreError when there is no store yet: looking makes none."""
    settings = read_settings(store=store, bus=bus)
    refuse_missing(settings.store)
    return settings


def store_file(url: str) -> Path | None:
    """The file of a store; None when it is not in a file."""
    scheme, _, path = url.partition(":///")
    return Path(path) if scheme == "sqlite" and path else None


def missing_file(url: str) -> Path | None:
    """The file of a store that is not there or is empty; None for any other store."""
    path = store_file(url)
    return path if path and not (path.exists() and path.stat().st_size) else None


def refuse_missing(url: str) -> None:
    """Raises StoreError when a URL names a file that is not there."""
    path = missing_file(url)
    if path:
        raise StoreError(f"there is no store {path} yet; `redraft run` makes it, or name another one with --store")


events_of: Final = partial(past.events_of, report=say)
events_at: Final = partial(past.events_at, report=say)
