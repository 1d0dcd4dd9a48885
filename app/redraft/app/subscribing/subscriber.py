"""The reading side of a client: events as they come, names that keep their place, and waiting for what is to happen."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeAlias

from redraft.actors.conditions.reading import check_names
from redraft.actors.conditions.text import parse_condition
from redraft.actors.deciding.facts import holds
from redraft.actors.deciding.interpreter import facts_of
from redraft.actors.deciding.state import RunState
from redraft.actors.values import is_whole, shown
from redraft.app.subscribing.delivery import RETRY, TIMEOUT, Handler, SubscriptionServer
from redraft.app.subscribing.feed import Feed, StoreFeed, read_named
from redraft.app.subscribing.misfits import followed, unread
from redraft.events.errors import InputError, RunEndedFirst, SetAside
from redraft.events.messages.conditions import Condition
from redraft.events.messages.domain_events import DraftCritiqued, RunEnded, RunQuarantined, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.filters import EVERYTHING, EventFilter, names_of
from redraft.events.messages.plan import Retry, steps_of
from redraft.events.subscriptions.subscriptions import Subscriptions, check_name

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

END: Final = "end"
_ENDS: Final = frozenset({RunEnded, RunQuarantined})
_TYPE: Final = re.compile(r"[a-z]+\.[a-z]+(\.v\d+)?")


Until: TypeAlias = Callable[[Recorded], bool]
"""Takes the events of a run, from its first on; returns whether this is the one that was waited for."""


def read_until(text: str) -> Until:
    """Parses `end`, a type such as `draft.published`, or a condition such as `score >= 0.8`.

    Raises InputError (ConditionError) when it means nothing.
    """
    given = text.strip()
    if given == END or _TYPE.fullmatch(given):
        names = names_of("run.ended" if given == END else given)
        return lambda event: event.name in names
    return _holding(parse_condition(text))


def _holding(condition: Condition) -> Until:
    """Met by the critique, the last of a draft's critics, with which the condition holds; see `facts.holds`.

    Raises ConditionError, once the plan is read, for a name that none of its critics declares.
    """
    state = RunState()

    def is_met(event: Recorded) -> bool:
        nonlocal state
        state = followed(state, event)
        if isinstance(event.data, RunStarted):
            check_names(condition, [step for _, step in steps_of(event.data.plan.steps) if step.role == "critic"])
        if not isinstance(event.data, DraftCritiqued) or not state.frames:
            return False
        facts = facts_of(state, state.frames[-1], event.time)
        if facts is None or event.version not in facts.judgement.critiques:
            return False
        return holds(condition, facts, limits=True)

    return is_met


def is_end(event: Recorded) -> bool:
    """Returns whether no more events of the run will come."""
    return type(event.data) in _ENDS


LAST_POSITION: Final = 2**63 - 1
"""The highest position that a log can have."""


def check_position(position: int) -> None:
    """Raises InputError for what can be no position of an event."""
    if not is_whole(position, 0, LAST_POSITION):
        raise InputError(f"position {shown(position)} is none; give a whole number from 0 to {LAST_POSITION:,}")


class Subscriber:
    """Reads the events of a deployment. Made by `redraft.app.wiring.local` and `redraft.app.wiring.deployment`.

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
        self, after: int = 0, criteria: EventFilter = EVERYTHING, *, follow: bool = True, name: str = ""
    ) -> AsyncGenerator[Recorded, None]:
        """See `Client.subscribe`."""
        check_position(after)
        if name:
            if not follow:
                raise InputError(
                    f"subscription {name!r}: a named subscription always waits for new events; leave out follow=False"
                )
            return read_named(*self._open_names(), check_name(name), criteria, after)
        return self._read(after, criteria, follow=follow)

    async def deliver(
        self,
        name: str,
        handler: Handler,
        after: int = 0,
        criteria: EventFilter = EVERYTHING,
        *,
        retry: Retry = RETRY,
        timeout: float = TIMEOUT,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        """See `Client.deliver`."""
        check_position(after)
        if log is None:
            from redraft.app.process.logs import library_log  # only those who deliver need it

            log = library_log()
        target, attempts = getattr(handler, "__qualname__", type(handler).__qualname__), (retry, timeout)
        feed, opened = self._open_names()
        async with opened as names:
            await SubscriptionServer(feed, names, name, handler, log, criteria, target, after, *attempts).run()

    async def wait(self, run: str, until: str) -> Recorded:
        """See `Client.wait`."""
        is_met = read_until(until)
        async with aclosing(self._of_run(run)) as events:
            async for event in events:
                if is_met(event):
                    return event
                refuse_set_aside(event)
                if is_end(event):
                    raise RunEndedFirst(f"run {run} has ended, and {until!r} never came; `redraft show {run}` says how")
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
        check_position(position)
        if self._caught_up is None:
            raise InputError("there are no read models here; open a client that reads the store")
        return await self._caught_up(position)

    async def _read(self, after: int, criteria: EventFilter, *, follow: bool) -> AsyncGenerator[Recorded, None]:
        async with aclosing(self._feed.read(after, criteria, follow=follow)) as batches:
            async for batch in batches:
                for event in batch.events:
                    yield event

    def _open_names(self) -> tuple[StoreFeed, Subscriptions]:
        if self._names is None or not isinstance(self._feed, StoreFeed):
            raise InputError(
                "a subscription with a name keeps its position beside the store: open a client that reads it, or keep "
                "the position yourself and give it as `after`"
            )
        return self._feed, self._names()


def refuse_set_aside(event: Recorded) -> None:
    """Raises SetAside at the event by which a person set the run aside."""
    if isinstance(event.data, RunQuarantined):
        raise SetAside(f"run {event.run} was set aside by {event.data.by or 'a person'}: {event.data.reason}")
