"""The filter of recorded events that `redraft events`, subscribers and exports share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, get_args

import msgspec
from cachetools import LRUCache

from redraft.events.errors import InputError, suggest
from redraft.events.messages.domain_events import LoopEnded, Outcome, RunEnded, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES

KEPT: Final = 16_384
"""The number of runs whose facts are cached; those of others are looked up again."""


class RunFacts(msgspec.Struct, frozen=True):
    """The facts about a run that a filter may use: the name of its workflow, and its tags.

    The relay also knows whether its plan `may_leave` steps: then requests may still wait when the run has ended.
    """

    workflow: str = ""
    tags: tuple[str, ...] = ()
    may_leave: bool = False


class EventFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    """Matches events that match every given field; where a field has several values, one of them is enough.

    `types` are stored names with their version (`draft.critiqued.v1`); `runs` are ids; `workflows` and `tags` are those
    of the event's run. `outcomes` match only the events that end a loop or a run, by its outcome. Events match that
    were recorded at `since` or later, and before `until` (both UTC).
    """

    types: frozenset[str] = frozenset()
    runs: frozenset[str] = frozenset()
    workflows: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    outcomes: frozenset[Outcome] = frozenset()
    since: datetime | None = None
    until: datetime | None = None


EVERYTHING: Final = EventFilter()
"""The filter that matches every event."""


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
    """Builds a filter from a person's input: types may leave out the version. Raises InputError for invalid values."""
    if since is not None and until is not None and since >= until:
        raise InputError(f"nothing was recorded from {since:%Y-%m-%d %H:%M:%S} on and before {until:%Y-%m-%d %H:%M:%S}")
    return EventFilter(
        frozenset(name for kind in types for name in names_of(kind)),
        frozenset(runs),
        frozenset(workflows),
        frozenset(tags),
        frozenset(_parse_outcome(each) for each in outcomes),
        since,
        until,
    )


def names_of(kind: str) -> frozenset[str]:
    """Returns the stored names of an event type, given with or without its version. Raises InputError."""
    known = sorted(EVENT_NAMES.values())
    names = frozenset(name for name in known if kind in (name, name.rpartition(".")[0]))
    if not names:
        types = [name.rpartition(".")[0] for name in known]
        raise InputError(f"there is no event {kind!r}; {suggest(kind, types, 'it is one of ' + ', '.join(types))}")
    return names


def matches(criteria: EventFilter, event: Recorded, about: RunFacts = RunFacts()) -> bool:  # noqa: B008 - frozen
    """Returns whether the event matches; `about` are the facts about its run, used only if the filter needs them."""
    if criteria.types and event.name not in criteria.types:
        return False
    if criteria.runs and event.run not in criteria.runs:
        return False
    if (criteria.since and event.time < criteria.since) or (criteria.until and event.time >= criteria.until):
        return False
    if criteria.outcomes and not (
        isinstance(event.data, LoopEnded | RunEnded) and event.data.outcome in criteria.outcomes
    ):
        return False
    if criteria.workflows and about.workflow not in criteria.workflows:
        return False
    return not criteria.tags or not criteria.tags.isdisjoint(about.tags)


def about(event: Recorded) -> RunFacts | None:
    """Returns the facts that a run's first event states; None for every other event."""
    return RunFacts(event.data.plan.name, event.data.tags) if isinstance(event.data, RunStarted) else None


def ends_with_requests(event: Recorded, facts: RunFacts) -> bool:
    """Returns whether an event ends a run of which requests may still wait or be worked on.

    Those are runs whose plan may leave steps, and those that their wall time ended.
    """
    return isinstance(event.data, RunEnded) and (facts.may_leave or event.data.outcome == "over_budget")


class Sieve:
    """Applies a filter event by event. `look_up` returns the facts about a run whose start this sieve has not seen."""

    def __init__(self, criteria: EventFilter, look_up: Callable[[str], Awaitable[RunFacts]]) -> None:
        self.criteria = criteria
        self._of_itself = msgspec.structs.replace(criteria, workflows=frozenset(), tags=frozenset())
        self._look_up = look_up
        self._known: LRUCache[str, RunFacts] = LRUCache(KEPT)

    async def passes(self, event: Recorded) -> bool:
        """Returns whether this event matches. Looks its run up only if all other fields match, and caches the facts."""
        if not (self.criteria.workflows or self.criteria.tags):
            return matches(self.criteria, event)
        if (facts := about(event)) is not None:
            self._known[event.run] = facts
        return matches(self._of_itself, event) and matches(self.criteria, event, await self._about(event.run))

    async def _about(self, run: str) -> RunFacts:
        known = self._known.get(run)
        if known is None:
            known = self._known[run] = await self._look_up(run)
        return known


def _parse_outcome(text: str) -> Outcome:
    known: Sequence[Outcome] = get_args(Outcome)
    for outcome in known:
        if text == outcome:
            return outcome
    raise InputError(f"no run ends as {text!r}; {suggest(text, known, 'it is one of ' + ', '.join(known))}")
