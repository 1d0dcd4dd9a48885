"""What is wrong with a history. Neither `decide` nor `evolve` has a say: records are held against their plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from redraft.actors.plan_paths import steps_in
from redraft.app.testing.faults import Faults
from redraft.app.testing.workload import Cast
from redraft.events.content import DraftRef
from redraft.events.domain_events import (
    ApprovalExpired,
    ApprovalRequested,
    DraftApproved,
    DraftEdited,
    DraftPublished,
    DraftRejected,
    LoopEnded,
    PanelClosed,
    RunCancelled,
    RunEnded,
    RunPaused,
    RunQuarantined,
    RunStarted,
    StepFailed,
    StepRequested,
)
from redraft.events.envelope import Recorded
from redraft.projections.record_check import check_events

if TYPE_CHECKING:
    from redraft.app.testing.nodes import World


PUNCTUAL: Final = timedelta(minutes=30)
"""How late a timer may be, with all that may stand still, and get lost, meanwhile."""

GRACE: Final = timedelta(hours=1)
"""How long beyond its time a request is waited for, at most, as the docs say."""


def faults_of(events: Sequence[Recorded], world: World, script: Cast, faults: Faults) -> list[str]:
    """All that is wrong, in sentences; nothing where all is well."""
    return [
        *_records(events),
        *_ends(events, world),
        *_subscriber(events, world, faults),
        *_repeated(events, script, faults),
        *_waited_out(events, faults),
        *_sought(world, faults),
        *_overslept(events),
        *_overdue(events),
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


def _subscriber(events: Sequence[Recorded], world: World, faults: Faults) -> Iterator[str]:
    seen = [each.position for each in world.seen]
    if seen != [each.position for each in events]:
        yield f"subscriber: it saw {len(seen)} of {len(events)} events, or in another order"
    if world.servers:
        yield from _served([each.position for each in world.served], len(events), faults)


def _served(taken: Sequence[int], end: int, faults: Faults) -> Iterator[str]:
    """A handler takes every event, in order, and one once more only where it was not noted that it had."""
    if list(dict.fromkeys(taken)) != list(range(1, end + 1)):
        yield f"served: a handler took {len(set(taken))} of {end} events, or in another order"
    if len(set(taken)) < len(taken) and not any("server" in told for told in faults.told):
        yield "served: a handler took an event twice, and nothing had happened to it"


def _waited_out(events: Sequence[Recorded], faults: Faults) -> Iterator[str]:
    """Nobody waits for a deadline: whoever is killed, or cut off, leaves what he had to another, and what a broker has
    lost is sent again.

    Where clocks differ it may be over before it has begun.
    """
    if any("clock" in told for told in faults.told):
        return
    for event in events:
        over = isinstance(event.data, StepFailed) and event.data.message.startswith("no answer by")
        if over and not event.repeats:
            yield f"waited out: event {event.version} of run {event.run}: nobody answered, and nobody was asked again"


def _sought(world: World, faults: Faults) -> Iterator[str]:
    """Only what was lost is sent again as missing: what lies in a queue, or with somebody, is not.

    An older release gives back what is said to newer runs, and parks it in the end: here nobody puts it back.
    """
    if any("loses its queues" in told or "older release" in told for told in faults.told):
        return
    for run, path in world.missing:
        if not any(run in told and ("is lost" in told or "comes late" in told) for told in faults.told):
            yield f"sought: {path} of run {run} was sent again, and nothing of it was lost"


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


def _overdue(events: Sequence[Recorded]) -> Iterator[str]:
    """Yields a finding for each request or approval that is still open half an hour after its deadline.

    The deadline of a request is its `due`, or the longest timeout of the plan and an hour after it was made, whichever
    is later.
    """
    longest: dict[str, timedelta] = {}
    waiting: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
    for event in events:
        asked = waiting[event.run]
        for path in [path for path, limit in asked.items() if event.time > limit]:
            del asked[path]
            yield f"overdue: {path} of run {event.run} was waited for until event {event.version}"
        match event.data:
            case RunStarted(plan=plan):
                longest[event.run] = timedelta(seconds=max(step.timeout for _, step in steps_in(plan.steps)))
            case StepRequested(path=path, due=due, beside=candidates) if not event.repeats:
                late = max(due, event.time + GRACE) + longest[event.run] + PUNCTUAL
                waiting[event.run] = {each: at for each, at in asked.items() if _goes_on(each, path, candidates)}
                waiting[event.run][path] = late
            case ApprovalRequested(path=path, due=due) if not event.repeats:
                waiting[event.run] = {path: due + PUNCTUAL}
            case ApprovalExpired() | DraftApproved() | DraftRejected() | DraftEdited():
                asked.clear()
            case PanelClosed() | LoopEnded() | RunEnded() | RunQuarantined() | RunCancelled() | RunPaused():
                asked.clear()
            case data:
                asked.pop(getattr(data, "path", ""), None)


def _goes_on(other: str, path: str, candidates: Sequence[DraftRef]) -> bool:
    """Whether a request is still waited for once the one at a path is made: both are of one parallel node.

    Once a judge is asked about its candidates, nobody waits for the others who were to make one.
    """
    is_beside = other.rpartition("/")[0] == path.rpartition("/")[0]
    return is_beside and (not candidates or other.endswith("]"))


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
