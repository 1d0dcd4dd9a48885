"""Small tables in a file of their own beside a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from redraft.events.sqlite.file import (
    BUSY_SECONDS,
    Identity,
    SharedConnection,
    open_beside,
    store_errors,
    transaction,
)
from redraft.events.subscriptions.subscriptions import Execute


class SqliteTables:
    """Tables in the file `path`, which is created at first use by the statements `create`. `what` names it.

    A crash of the machine may undo the last transactions, unless it is to be `durable`.
    """

    def __init__(
        self, path: Path, what: str, identity: Identity, create: Sequence[str], *, durable: bool = False
    ) -> None:
        self.where = str(path)
        self._durable = durable
        self._connection = SharedConnection(
            lambda: open_beside(path, BUSY_SECONDS, what, identity, create), partial(store_errors, f"{what} {path}")
        )
        self.close = self._connection.close

    @contextmanager
    def transaction(self) -> Iterator[Execute]:
        """Runs the block in one exclusive write transaction. Raises StoreError."""
        with self._connection.lend() as connection:
            if self._durable:
                connection.execute("PRAGMA synchronous = FULL")
            with transaction(connection):
                yield lambda sql, values: connection.execute(sql, tuple(values)).fetchall()
