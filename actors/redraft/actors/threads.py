"""Functions that block, run beside the event loop, each in a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T], name: str) -> T:
    """The function's result. When the wait is cancelled the thread is left to itself, for a thread cannot be stopped.

    Such a thread does not keep the process from ending: it is a daemon.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
            _post(loop, future, None, error if plain else RuntimeError(repr(error)))
        else:
            _post(loop, future, result, None)

    Thread(target=work, name=name, daemon=True).start()
    return await future


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
