"""Runs blocking functions in daemon threads, and bounds how many of those that were given up may still run."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from threading import Lock, Thread
from typing import Final, TypeVar

from redraft.actors.runtime.failures import without_end
from redraft.events.errors import StepError

T = TypeVar("T")

MOST_HUNG: Final = 32
"""The number of threads of one name that may still run after everybody stopped waiting for them."""

_lock: Final = Lock()
_hung: Final[Counter[str]] = Counter()


def count_hung(name: str) -> int:
    """Returns how many threads of this name that were given up still run."""
    return _hung[name]


async def run_in_thread(function: Callable[[], T], name: str) -> T:
    """Returns the function's result, computed in a daemon thread of this name.

    When the wait is cancelled the thread runs on, since a thread cannot be stopped; it does not keep the process alive.
    Raises StepError while `MOST_HUNG` threads of this name that were given up still run.
    """
    if _hung[name] >= MOST_HUNG:
        remedy = 'restart this process, or give the function isolation="process", so that it is killed at its deadline'
        raise StepError(f"{name} was not called: {_hung[name]} earlier calls of it still hang; {remedy}")
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()
    state = {"given up": False, "ended": False}

    def work() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            _post(loop, future, None, without_end(error))
        else:
            _post(loop, future, result, None)
        finally:
            with _lock:
                state["ended"] = True
                _hung[name] -= state["given up"]

    Thread(target=work, name=name, daemon=True).start()
    try:
        return await future
    finally:
        with _lock:
            if future.cancelled() and not state["ended"]:
                state["given up"] = True
                _hung[name] += 1


def _post(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], result: T | None, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type] # a result of None is a T then

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
