"""Small tables beside a store: what keeps them, and the thread on which their transactions run one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from redraft.events.subscriptions.subscriptions import Execute

_T = TypeVar("_T")


class Tables(Protocol):
    """The storage of small tables; see `SubscriptionStore`. Its clock is the same for all processes."""

    def transaction(self) -> AbstractContextManager[Execute]: ...

    def close(self) -> None: ...


class Transactions:
    """Runs transactions of these tables, each as a whole, on an executor of their own."""

    def __init__(self, tables: Tables, executor: Executor) -> None:
        self._tables = tables
        self._executor = executor

    async def run(self, work: Callable[[Execute], _T]) -> _T:
        """Returns what the work gives in a transaction. Raises StoreError."""

        def done() -> _T:
            with self._tables.transaction() as execute:
                return work(execute)

        return await asyncio.get_running_loop().run_in_executor(self._executor, done)

    async def close(self) -> None:
        """Closes the tables, after what was begun."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._tables.close)
        self._executor.shutdown()
