"""Read models that nobody follows: each is opened when it is first asked for, and brought up to date at every asking.

So they cost a run nothing while it goes on. Rows and position still change in one transaction, and any number of
processes may ask at once.
"""

from __future__ import annotations

import asyncio
from typing import Self

from redraft.events.errors import StoreError
from redraft.projections.place import Where
from redraft.projections.projection import Projection
from redraft.projections.projector import Log, catch_up
from redraft.projections.views import Views, open_views


class ReadModels:
    """The read models of a log; `where` they lie is what `open_views` takes. Closed by leaving its context."""

    def __init__(self, where: Where, log: Log) -> None:
        self._where = where
        self._log = log
        self._open: dict[str, tuple[Projection, Views]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def of(self, projection: Projection) -> Views:
        """The rows of a projection, shipped or your own, with every event that is in the log now.

        They are open until this is closed. Raises StoreError when they cannot be opened, or when the projection has
        stopped at an event that it cannot take; InputError when another one has a table of the same name.
        """
        async with self._one_at_a_time:
            views = await self._opened(projection)
            await catch_up(views, self._log)
        for stopped in (await views.stopped()).values():
            raise StoreError(
                f"the projection {projection.name!r} has stopped at event {stopped.failed}: {stopped.error}; mend it: "
                "whoever opens it next tries again"
            )
        return views

    async def close(self) -> None:
        """Closes what was opened."""
        while self._open:
            _, (_, views) = self._open.popitem()
            await views.close()

    async def _opened(self, projection: Projection) -> Views:
        known, views = self._open.get(projection.name, (None, None))
        if known is projection and views is not None:
            return views
        if views is not None:
            await views.close()
        opened = await open_views(self._where, (projection,))
        self._open[projection.name] = projection, opened
        return opened
