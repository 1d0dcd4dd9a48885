"""The reading side of a client: events as they come, names that keep their place, and waiting for what is to happen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from redraft.app.delivery import Delivery, Handler, Retry
from redraft.app.feed import Feed
from redraft.app.result import refuse_set_aside, unread
from redraft.app.standing import stand
from redraft.app.until import is_end, read_until
from redraft.events.domain_events import RunQuarantined
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError, NeverHappened
from redraft.events.filters import EVERYTHING, EventFilter
from redraft.events.subscription_book import checked_name
from redraft.events.subscriptions import Subscriptions

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class Subscriber:
    """Reads the events of a deployment. Made by `redraft.app.compose` and `redraft.app.deployment`.

    `names` opens the subscriptions that are kept beside the store; there are none where there is only the broker.
    `caught_up` waits for the read models.
    """

    def __init__(
        self,
        feed: Feed,
        names: Callable[[], Subscriptions] | None = None,
        caught_up: Callable[[int], Awaitable[int]] | None = None,
    ) -> None:
        self._feed = feed
        self._names = names
        self._caught_up = caught_up

    def subscribe(
        self,
        after: int = 0,
        wanted: EventFilter = EVERYTHING,
        *,
        follow: bool = True,
        name: str = "",
    ) -> AsyncGenerator[Recorded, None]:
        """See `Client.subscribe`."""
        if name:
            if not follow:
                raise InputError(f"subscription {name!r}: one with a name waits for what comes; leave out follow=False")
            return self._stand(self._open_names(), checked_name(name), wanted, after)
        return self._read(after, wanted, follow=follow)

    async def deliver(
        self,
        name: str,
        handler: Handler,
        after: int = 0,
        wanted: EventFilter = EVERYTHING,
        *,
        retry: Retry | None = None,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        """See `Client.deliver`."""
        told = log or _library_log()
        async with self._open_names() as names:
            target = getattr(handler, "__qualname__", type(handler).__qualname__)
            await Delivery(
                self._feed, names, name, handler, told, wanted=wanted, target=target, start=after, retry=retry
            ).run()

    async def wait(self, run: str, until: str) -> Recorded:
        """See `Client.wait`."""
        aim = read_until(until)
        async with aclosing(self._of_run(run)) as events:
            async for event in events:
                if aim.met(event):
                    return event
                refuse_set_aside(event)
                if is_end(event):
                    raise NeverHappened(f"run {run} has ended, and {until!r} never came; `redraft show {run}` says how")
        raise AssertionError("a subscription that follows does not end")

    async def story(self, run: str) -> list[Recorded]:
        """All events of a run, once it has ended. Raises SetAside where one cannot be read."""
        found: list[Recorded] = []
        async with aclosing(self._of_run(run)) as events:
            async for event in events:
                found.append(event)
                if is_end(event):
                    break
        return found

    async def _of_run(self, run: str) -> AsyncGenerator[Recorded, None]:
        """The events of a run as they come. Raises SetAside at one that cannot be read, unless it was set aside."""
        async with aclosing(self._feed.read(0, EventFilter(runs=frozenset([run])), follow=True)) as batches:
            async for batch in batches:
                for event in batch.events:
                    yield event
                if batch.unreadable and not any(isinstance(each.data, RunQuarantined) for each in batch.events):
                    raise unread(batch.unreadable[0])

    async def wait_for(self, position: int) -> int:
        """See `Client.wait_for`."""
        if self._caught_up is None:
            raise InputError("there are no read models here; open a client that reads the store")
        return await self._caught_up(position)

    async def _read(self, after: int, wanted: EventFilter, *, follow: bool) -> AsyncGenerator[Recorded, None]:
        async with aclosing(self._feed.read(after, wanted, follow=follow)) as batches:
            async for batch in batches:
                for event in batch.events:
                    yield event

    async def _stand(
        self, names: Subscriptions, name: str, wanted: EventFilter, start: int
    ) -> AsyncGenerator[Recorded, None]:
        async with names, aclosing(stand(self._feed, names, name, wanted, start)) as events:
            async for event in events:
                yield event

    def _open_names(self) -> Subscriptions:
        if self._names is None:
            raise InputError(
                "a subscription with a name keeps its position beside the store: open a client that reads it, or keep "
                "the position yourself and give it as `after`"
            )
        return self._names()


def _library_log() -> FilteringBoundLogger:
    from redraft.app.logs import library_log  # only those who deliver need it

    return library_log()
