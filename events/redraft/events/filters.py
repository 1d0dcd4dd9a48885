"""Which recorded events somebody wants: the one filter of `redraft events`, of subscribers and of exports."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Final, get_args

import msgspec

from redraft.events.domain_events import EVENT_NAMES, LoopEnded, Outcome, RunEnded, RunStarted
from redraft.events.envelope import Recorded
from redraft.events.errors import InputError

KEPT: Final = 16_384
"""Of how many runs it is remembered what they are; those of others are asked for again."""


class About(msgspec.Struct, frozen=True):
    """What a filter asks of a run as a whole: the name of its workflow, and its tags."""

    workflow: str = ""
    tags: tuple[str, ...] = ()


class EventFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events that fit every field that is given; where a field has several values, one of them is enough.

    `types` are stored names with their version (`draft.critiqued.v1`); `runs` are ids; `workflows` and `tags` are those
    of the event's run. `outcomes` fit only the events that end a loop or a run, by how it ended. An event was recorded
    at `since` or later, and before `until` (both UTC).
    """

    types: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    workflows: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    outcomes: frozenset[Outcome] = frozenset()
    since: datetime | None = None
    until: datetime | None = None

    @property
    def asks_about_runs(self) -> bool:
        """Whether an event alone does not tell; what its run is must be known too."""
        return bool(self.workflows or self.tags)


EVERYTHING: Final = EventFilter()
"""What leaves out no event."""


def event_filter(
    *,
    types: Iterable[str] = (),
    runs: Iterable[str] = (),
    workflows: Iterable[str] = (),
    tags: Iterable[str] = (),
    outcomes: Iterable[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
) -> EventFilter:
    """A filter of what a person wrote: types may leave out the version. Raises InputError, naming what is wrong."""
    if since is not None and until is not None and since >= until:
        raise InputError(f"nothing was recorded from {since:%Y-%m-%d %H:%M:%S} on and before {until:%Y-%m-%d %H:%M:%S}")
    return EventFilter(
        frozenset(name for kind in types for name in names_of(kind)),
        frozenset(runs),
        frozenset(workflows),
        frozenset(tags),
        frozenset(_outcome(each) for each in outcomes),
        since,
        until,
    )


def names_of(kind: str) -> frozenset[str]:
    """The stored names that a type stands for, with or without its version. Raises InputError when there is none."""
    known = sorted(EVENT_NAMES.values())
    names = frozenset(name for name in known if kind in (name, name.rpartition(".")[0]))
    if not names:
        raise InputError(f"there is no event {kind!r}; {_remedy(kind, [name.rpartition('.')[0] for name in known])}")
    return names


def fits(wanted: EventFilter, event: Recorded, about: About = About()) -> bool:  # noqa: B008 - frozen
    """Whether the event is wanted; `about` says what its run is, and is looked at only if the filter asks for it."""
    if wanted.types and event.name not in wanted.types:
        return False
    if wanted.runs and event.run not in wanted.runs:
        return False
    if (wanted.since and event.time < wanted.since) or (wanted.until and event.time >= wanted.until):
        return False
    if wanted.outcomes and not (isinstance(event.data, LoopEnded | RunEnded) and event.data.outcome in wanted.outcomes):
        return False
    if wanted.workflows and about.workflow not in wanted.workflows:
        return False
    return not wanted.tags or not wanted.tags.isdisjoint(about.tags)


def about(event: Recorded) -> About | None:
    """What a run's first event says of it; None for every other event."""
    return About(event.data.plan.name, event.data.tags) if isinstance(event.data, RunStarted) else None


class Sieve:
    """Lets through what a filter wants, event by event.

    `look_up` says what a run is whose first event did not come by.
    """

    def __init__(self, wanted: EventFilter, look_up: Callable[[str], Awaitable[About]]) -> None:
        self.wanted = wanted
        self._of_itself = msgspec.structs.replace(wanted, workflows=frozenset(), tags=frozenset())
        self._look_up = look_up
        self._known: OrderedDict[str, About] = OrderedDict()

    async def passes(self, event: Recorded) -> bool:
        """Whether this event is wanted. Its run is looked up only if all else fits, and once for many events."""
        if not self.wanted.asks_about_runs:
            return fits(self.wanted, event)
        if (told := about(event)) is not None:
            self._keep(event.run, told)
        return fits(self._of_itself, event) and fits(self.wanted, event, await self._about(event.run))

    async def _about(self, run: str) -> About:
        known = self._known.get(run)
        if known is None:
            known = await self._look_up(run)
            self._keep(run, known)
        return known

    def _keep(self, run: str, told: About) -> None:
        self._known[run] = told
        if len(self._known) > KEPT:
            self._known.popitem(last=False)


def _outcome(text: str) -> Outcome:
    known: Sequence[Outcome] = get_args(Outcome)
    for outcome in known:
        if text == outcome:
            return outcome
    raise InputError(f"no run ends as {text!r}; {_remedy(text, known)}")


def _remedy(text: str, known: Sequence[str]) -> str:
    close = get_close_matches(text, known, n=1)
    return f"did you mean {close[0]}?" if close else f"it is one of {', '.join(known)}"
