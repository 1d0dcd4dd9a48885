"""What is wrong with a history. Neither `decide` nor `evolve` has a say: records are held against their plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from redraft.app.testing.faults import Faults
from redraft.app.testing.workload import Cast
from redraft.events.domain_events import (
    DraftPublished,
    RunCancelled,
    RunEnded,
    RunPaused,
    RunQuarantined,
    StepFailed,
    StepRequested,
)
from redraft.events.envelope import Recorded
from redraft.projections.record_check import check_events

if TYPE_CHECKING:
    from redraft.app.testing.nodes import World


PUNCTUAL: Final = timedelta(minutes=30)
"""How late a timer may be, with all that may stand still, and get lost, meanwhile."""


def faults_of(events: Sequence[Recorded], world: World, script: Cast, faults: Faults) -> list[str]:
    """All that is wrong, in sentences; nothing where all is well."""
    return [
        *_records(events),
        *_ends(events, world),
        *_subscriber(events, world),
        *_repeated(events, script, faults),
        *_waited_out(events, faults),
        *_overslept(events),
        *_published(events, script),
    ]


def _records(events: Sequence[Recorded]) -> Iterator[str]:
    runs: defaultdict[str, list[Recorded]] = defaultdict(list)
    ids: dict[str, int] = {}
    for event in events:
        runs[event.run].append(event)
        if event.id in ids:
            yield f"id: event {event.position} has the id of event {ids[event.id]}"
        ids[event.id] = event.position
    for told in runs.values():
        yield from (f"{each.code}: {each.told}" for each in check_events(told))


def _ends(events: Sequence[Recorded], world: World) -> Iterator[str]:
    for run in sorted({event.run for event in events} - world.ended.keys()):
        yield f"stuck: run {run} has not ended"
    for run, outcome in world.ended.items():
        if outcome == "quarantined" and not any(each.run == run and "odd" in str(each.data) for each in events):
            yield f"set aside: run {run} was set aside by a coordinator"


def _subscriber(events: Sequence[Recorded], world: World) -> Iterator[str]:
    seen = [each.position for each in world.seen]
    if seen != [each.position for each in events]:
        yield f"subscriber: it saw {len(seen)} of {len(events)} events, or in another order"
    for views in world.views.values():
        if views.position < len(events):
            yield f"projection: it ends at event {views.position} of {len(events)}"


def _waited_out(events: Sequence[Recorded], faults: Faults) -> Iterator[str]:
    """A deadline is for what was lost on the way: whoever is killed, or cut off, leaves what he had to another.

    Where clocks differ it may be over before it has begun.
    """
    if any("clock" in told or "loses its queues" in told for told in faults.told):
        return
    for event in events:
        over = isinstance(event.data, StepFailed) and event.data.message.startswith("no answer by")
        if over and not event.repeats and not any(event.run in told and "is lost" in told for told in faults.told):
            yield f"waited out: event {event.version} of run {event.run}: nothing was lost, and nobody answered"


def _overslept(events: Sequence[Recorded]) -> Iterator[str]:
    """What is to be tried again is asked for when its time has come, or soon after, unless its run was held up."""
    waiting: dict[tuple[str, str], datetime] = {}
    for event in events:
        if event.repeats:
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


def _published(events: Sequence[Recorded], script: Cast) -> Iterator[str]:
    """What is recorded as published was published."""
    for event in events:
        data = event.data
        if (
            isinstance(data, DraftPublished)
            and not event.repeats
            and not script.published[event.run, data.path, data.attempt]
        ):
            yield f"unpublished: event {event.version} of run {event.run} says what never was"


def _repeated(events: Sequence[Recorded], script: Cast, faults: Faults) -> Iterator[str]:
    asked = {
        (each.run, each.data.path, each.data.attempt)
        for each in events
        if isinstance(each.data, StepRequested) and not each.repeats
    }
    for place, times in script.calls.items():
        if place not in asked:
            yield f"unasked: {place} was worked on, and nobody asked for it"
        if times > 1 and not faults.told:
            yield f"again: {place} was worked on {times} times, and nothing had gone wrong"
