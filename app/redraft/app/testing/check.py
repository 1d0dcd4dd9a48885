"""Finds what is wrong with a history, without `decide` and `evolve`: records are compared with their plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final

from redraft.actors.plans.paths import steps_in
from redraft.app.testing.faults import Faults
from redraft.app.testing.items import check_items
from redraft.app.testing.learning import check_lessons
from redraft.app.testing.outages import STALLED
from redraft.app.testing.workload import Cast, Script
from redraft.events.messages.content import DraftRef
from redraft.events.messages.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DraftApproved,
    DraftEdited,
    DraftPublished,
    DraftRejected,
    LoopEnded,
    PanelClosed,
    Parent,
    RunCancelled,
    RunEnded,
    RunPaused,
    RunQuarantined,
    RunStarted,
    StateChanged,
    StepFailed,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.run_state import Values
from redraft.projections.record_check import check_events
from redraft.projections.record_check.lessons import Strike, strikes_in
from redraft.projections.record_check.run_state import changes_of

if TYPE_CHECKING:
    from redraft.app.testing.nodes import World


PUNCTUAL: Final = timedelta(minutes=30)
"""How late a timer may be, considering all that may stall or get lost meanwhile."""

NO_TIME: Final = timedelta()

GRACE: Final = timedelta(hours=1)
"""How long beyond its time a request may stay open, as the docs say."""


def faults_of(events: Sequence[Recorded], world: World, script: Cast, faults: Faults) -> list[str]:
    """Returns all faults of a history, in sentences; empty if it is fine."""
    return [
        *_check_records(events),
        *_check_ends(events, world),
        *_check_subscriber(events, world, faults),
        *_check_repeated(events, script, faults),
        *_check_waited_out(events, world),
        *_check_resent(world, faults),
        *_check_retries(events, world),
        *_check_deadlines(events, world),
        *_check_published(events, script),
        *_check_state(events, world, script),
        *check_items(events, world),
        *check_lessons(events, script.lessons if isinstance(script, Script) else {}),
    ]


def _check_records(events: Sequence[Recorded]) -> Iterator[str]:
    runs: defaultdict[str, list[Recorded]] = defaultdict(list)
    ids: dict[str, int] = {}
    for event in events:
        runs[event.run].append(event)
        if event.id in ids:
            yield f"id: event {event.position} has the id of event {ids[event.id]}"
        ids[event.id] = event.position
    strikes: defaultdict[tuple[str, str], list[Strike]] = defaultdict(list)
    for lesson, strike in chain.from_iterable(map(strikes_in, runs.values())):
        strikes[lesson].append(strike)
    for history in runs.values():
        yield from (f"{each.code}: {each.message}" for each in check_events(history, runs, strikes))


def _check_ends(events: Sequence[Recorded], world: World) -> Iterator[str]:
    for run in sorted({event.run for event in events} - world.ended.keys()):
        yield f"stuck: run {run} has not ended"
    for run, outcome in world.ended.items():
        if outcome == "quarantined" and not any(each.run == run and "odd" in str(each.data) for each in events):
            yield f"set aside: run {run} was set aside by a coordinator"


def _check_subscriber(events: Sequence[Recorded], world: World, faults: Faults) -> Iterator[str]:
    seen = [each.position for each in world.seen]
    if seen != [each.position for each in events]:
        yield f"subscriber: it saw {len(seen)} of {len(events)} events, or in another order"
    if world.servers:
        yield from _check_served([each.position for each in world.served], len(events), faults)


def _check_served(taken: Sequence[int], end: int, faults: Faults) -> Iterator[str]:
    """Yields faults of a handler: it takes every event in order, and one again only if its progress was not saved."""
    if list(dict.fromkeys(taken)) != list(range(1, end + 1)):
        yield f"served: a handler took {len(set(taken))} of {end} events, or in another order"
    if len(set(taken)) < len(taken) and not any("server" in each for each in faults.planted):
        yield "served: a handler took an event twice, and nothing had happened to it"


def _check_waited_out(events: Sequence[Recorded], world: World) -> Iterator[str]:
    """Yields requests that ran into their deadline: after a crash or a loss they are taken over or sent again.

    While an older release relays, the steps of newer runs may wait, as the docs say, and no longer. What an older
    release declined may be a dead letter, which no one restores here.
    """
    rules: defaultdict[str, int] = defaultdict(int)
    asked: defaultdict[tuple[str, str], float] = defaultdict(float)
    for event in events:
        at = world.database.recorded[event.position]
        match event.data:
            case RunStarted(rules=latest):
                rules[event.run] = latest
            case StepRequested(path=path):
                asked[event.run, path] = at
            case StepFailed(path=path, message=message) if message.startswith("no answer by") and not event.repeats:
                relayed = world.database.relayed(rules[event.run], asked[event.run, path], at)
                if relayed > PUNCTUAL.total_seconds() and event.run not in world.declined:
                    where = f"event {event.version} of run {event.run}"
                    yield f"waited out: {where}: nobody answered, and nobody was asked again"
            case _:
                pass


def _check_resent(world: World, faults: Faults) -> Iterator[str]:
    """Yields messages that were sent again as missing although nothing of them was lost.

    An older release returns messages of newer runs to the queue until they become dead letters, and drops a worker's
    question whether to begin; no one restores them here, so runs that a coordinator declined are left out.
    """
    if any("loses its queues" in each or each.startswith(STALLED) for each in faults.planted):
        return
    for run, path in world.missing:
        is_lost = any(run in each and ("is lost" in each or "comes late" in each) for each in faults.planted)
        if not is_lost and run not in world.broker.dropped and run not in world.declined:
            yield f"sought: {path} of run {run} was sent again, and nothing of it was lost"


def _check_retries(events: Sequence[Recorded], world: World) -> Iterator[str]:
    """Yields retries that came long after their time, unless their run was held up, or an older release declined it."""
    waiting: dict[tuple[str, str], datetime] = {}
    held = _HeldUp(world)
    for event in events:
        longer = held.note(event)
        waiting = {place: again + (longer if place[0] == event.run else NO_TIME) for place, again in waiting.items()}
        if event.repeats or event.run in world.declined:
            continue
        match event.data:
            case StepFailed(path=path, retry_at=datetime() as again):
                waiting[event.run, path] = again
            case StepRequested(path=path) if (event.run, path) in waiting:
                if event.time > waiting.pop((event.run, path)) + PUNCTUAL:
                    yield f"overslept: event {event.version} of run {event.run} should have come long before"
            case RunPaused():
                waiting = {place: again for place, again in waiting.items() if place[0] != event.run}
            case RunEnded() | RunQuarantined() | RunCancelled():
                for place in [place for place in waiting if place[0] == event.run]:
                    if event.time > waiting.pop(place) + PUNCTUAL:
                        yield f"overslept: run {event.run} waited for {place[1]} until it ended"
            case _:
                pass


class _HeldUp:
    """For how long each run was held up since its last event, as it is newer than the release that relayed."""

    def __init__(self, world: World) -> None:
        self._database = world.database
        self._rules: dict[str, int] = {}
        self._last: dict[str, float] = {}

    def note(self, event: Recorded) -> timedelta:
        """Returns that time, up to this event of the run."""
        at = self._database.recorded[event.position]
        if isinstance(event.data, RunStarted):
            self._rules[event.run] = event.data.rules
        since, self._last[event.run] = self._last.get(event.run, at), at
        return self._database.held_up(self._rules.get(event.run, 0), since, at)


def _check_deadlines(events: Sequence[Recorded], world: World) -> Iterator[str]:
    """Yields a fault for each request or approval that is still open half an hour after its deadline.

    The time for which an older release kept the time of a newer run does not count, nor do runs that one has declined:
    what it was told of them may be dead letters. The deadline of a request is its `due`, or the longest timeout of the
    plan and an hour after it was made, whichever is later.
    """
    longest: dict[str, timedelta] = {}
    waiting: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
    held = _HeldUp(world)
    for event in events:
        longer = held.note(event)
        asked = waiting[event.run] = {path: limit + longer for path, limit in waiting[event.run].items()}
        for path in [path for path, limit in asked.items() if event.time > limit]:
            del asked[path]
            if event.run not in world.declined:
                yield f"overdue: {path} of run {event.run} was waited for until event {event.version}"
        match event.data:
            case RunStarted(plan=plan):
                longest[event.run] = timedelta(seconds=max(step.timeout for _, step in steps_in(plan.steps)))
            case StepRequested(role="run"):
                pass  # the run of an item has no deadline
            case StepRequested(path=path, due=due, beside=candidates) if not event.repeats:
                late = max(due, event.time + GRACE) + longest[event.run] + PUNCTUAL
                waiting[event.run] = {each: at for each, at in asked.items() if _stays_open(each, path, candidates)}
                waiting[event.run][path] = late
            case ApprovalRequested(path=path, due=due) if not event.repeats:
                waiting[event.run] = {path: due + PUNCTUAL}
            case ApprovalExpired() | DraftApproved() | DraftRejected() | DraftEdited():
                asked.clear()
            case PanelClosed() | LoopEnded() | RunEnded() | RunQuarantined() | RunCancelled() | RunPaused():
                asked.clear()
            case data:
                asked.pop(getattr(data, "path", ""), None)


def _stays_open(other: str, path: str, candidates: Sequence[DraftRef]) -> bool:
    """Returns whether a request stays open once the one at `path` is made: only if both belong to the same parallel.

    Once a judge is asked about its candidates, the other candidates are no longer awaited.
    """
    is_beside = other.rpartition("/")[0] == path.rpartition("/")[0]
    return is_beside and (not candidates or other.endswith("]"))


def _check_published(events: Sequence[Recorded], script: Cast) -> Iterator[str]:
    for event in events:
        data = event.data
        if not isinstance(data, DraftPublished) or event.repeats:
            continue
        if not script.published[event.run, data.path, data.attempt]:
            yield f"unpublished: event {event.version} of run {event.run} says what never was"


def _check_repeated(events: Sequence[Recorded], script: Cast, faults: Faults) -> Iterator[str]:
    asked = {
        (each.run, each.data.path, each.data.attempt)
        for each in events
        if isinstance(each.data, StepRequested) and not each.repeats
    }
    for place, times in script.calls.items():
        if place not in asked:
            yield f"unasked: {place} was worked on, and nobody asked for it"
        if times > 1 and not faults.planted:
            yield f"again: {place} was worked on {times} times, and nothing had gone wrong"


def _check_state(events: Sequence[Recorded], world: World, script: Cast) -> Iterator[str]:
    """Yields where an actor was given another state than that of its run when it was asked; lost changes of forks."""
    given = script.given if isinstance(script, Script) else {}
    values: defaultdict[str, Values] = defaultdict(dict)
    asked: dict[tuple[str, str, int], Values] = {}
    forks: dict[str, RunStarted] = {}
    for event in events:
        values[event.run] = {**values[event.run], **changes_of(event.data)}
        match event.data:
            case StepRequested(path=path, attempt=attempt) if not event.repeats:
                asked[event.run, path, attempt] = values[event.run]
            case RunStarted(parent=Parent()):
                forks[event.run] = event.data
            case _:
                pass
    for place, states in given.items():
        if place in asked and any(state != asked[place] for state in states):
            yield f"state: {place} was given another state than that of its run when it was asked"
    for run, begun in forks.items():
        yield from _check_fork(run, begun, events, world)


def _check_fork(run: str, begun: RunStarted, events: Sequence[Recorded], world: World) -> Iterator[str]:
    """Yields a sentence unless a fork begins with the changes that somebody asked for."""
    assert begun.parent is not None  # noqa: S101 - only forks are looked at
    first = next((each.data for each in events if each.run == run and each.version == begun.parent.version + 1), None)
    changed = first.state if isinstance(first, StateChanged) and not first.path else {}
    if first is not None and changed not in world.forked[begun.parent.run]:
        yield f"state: run {run} should go on with other values than its parent's"
