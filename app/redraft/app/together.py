"""Parts that run beside each other, and the one error of theirs that people can act on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager

from redraft.events.errors import RedraftError


@asynccontextmanager
async def together(parts: Iterable[Coroutine[None, None, None]]) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Runs the parts beside the block and stops them after it; the first error of a part ends the block."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part) for part in parts]
            yield tasks
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise _first(errors) from None


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Of several errors the one that people can act on."""
    plain = [_first(each) if isinstance(each, BaseExceptionGroup) else each for each in errors.exceptions]
    return next((each for each in plain if isinstance(each, RedraftError)), plain[0])
