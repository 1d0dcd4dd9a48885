"""Checks that a verdict was taken again only where its critic would have been given the very same.

What a run says of itself is checked on the walk along its plan; a verdict of another run is compared with that run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    EventRef,
    RunStarted,
    StepAnswered,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Step, steps_of
from redraft.events.messages.reuse import twins_before, verdict_key
from redraft.projections.record_check.chain import Deviates, Finding, finding_at
from redraft.projections.record_check.run_state import changes_of, place_of, values_after
from redraft.projections.record_check.walk import Walk

Sources: TypeAlias = Mapping[str, Sequence[Recorded]]
"""The events of other runs that a run may take verdicts from."""

UNPROVEN: Final = "unproven"
"""The code of a finding that is no fault: what it would be compared with is not there."""


def check_key(walk: Walk, event: Recorded, data: StepRequested, step: Step) -> None:
    """Raises Deviates unless a request has the key that the plan asks for, and names a verdict that may be taken."""
    if not (step.reuse or data.verdict_key or data.reused):
        return
    if step.reuse is None or data.draft is None:
        raise Deviates("reuse", event, f"the plan takes no verdict of {data.path} again")
    if data.verdict_key != _key_given(walk.events[: walk.next], data):
        raise Deviates("reuse", event, f"the key of {data.path} is not that of what it is given")
    if data.reused is None:
        return
    if data.reused.run != event.run and step.reuse != "always":
        raise Deviates("reuse", event, f"the plan takes no verdict of another run for {data.path} again")
    if data.reused.run == event.run and _key_of(walk.events[: walk.next], data.reused.version) != data.verdict_key:
        raise Deviates("reuse", event, f"event {data.reused.version} has no verdict on what {data.path} is given")


def check_verdict(walk: Walk, event: Recorded, data: StepAnswered, request: StepRequested) -> None:
    """Raises Deviates unless a request that names a verdict has a copy of it, at no cost, and no other has."""
    again = data.reused if isinstance(data, DraftCritiqued) else None
    if again != request.reused:
        said = f"the verdict of {_name_of(request.reused)}" if request.reused else "a verdict of its own"
        raise Deviates("reuse", event, f"{request.path} should have {said}")
    if again is None or not isinstance(data, DraftCritiqued):
        return
    own = walk.events[again.version - 1].data if again.run == event.run else None
    differs = isinstance(own, DraftCritiqued) and own.critique != data.critique
    if changes_of(data):
        raise Deviates("state", event, "a verdict that is taken again changes no values")
    if differs or not data.usage.is_nothing:
        raise Deviates("reuse", event, f"this is not the verdict of {_name_of(again)}, at no cost")


def sources_of(events: Sequence[Recorded]) -> frozenset[str]:
    """Returns the other runs that a run took verdicts from."""
    return frozenset(ref.run for _, _, ref in _taken(events))


def source_findings(events: Sequence[Recorded], sources: Sources) -> Iterator[Finding]:
    """Yields what is wrong with verdicts that were taken from other runs, or why they cannot be compared with them."""
    asked = {each.data.path: each.data.verdict_key for each in events if isinstance(each.data, StepRequested)}
    for event, data, ref in _taken(events):
        there = sources.get(ref.run)
        if there is None:
            why = f"that this is the verdict of {_name_of(ref)} is not proven: that run cannot be read here"
            yield finding_at(UNPROVEN, event, why)
        elif fault := _fault_of(event, data, asked.get(data.path, ""), there[: ref.version]):
            yield finding_at("reuse", event, f"{fault}: {_name_of(ref)}")


def _taken(events: Sequence[Recorded]) -> Iterator[tuple[Recorded, DraftCritiqued, EventRef]]:
    """Yields each verdict that this run took from another, but not what it repeats of its parent, which has to answer
    for it.
    """
    for event in events:
        data = event.data
        if isinstance(data, DraftCritiqued) and data.reused and data.reused.run != event.run and not event.repeats:
            yield event, data, data.reused


def _fault_of(event: Recorded, data: DraftCritiqued, key: str, there: Sequence[Recorded]) -> str:
    """Returns why a verdict may not be the last of these events of another run; empty if it may."""
    version = data.reused.version if data.reused else 0
    source = there[-1] if there and there[-1].version == version else None
    if event.encrypted or (source is not None and source.encrypted):
        return "a run that is encrypted gives no verdict to another, and takes none"
    if source is None or source.repeats or not key or _key_of(there, version) != key:
        return f"there is no verdict of its own on what {data.path} is given"
    if source.position >= event.position and source.time > event.time:  # an archive may have come later, a clock differ
        return "it was recorded later"
    if "@" in source.actor:
        return "another version of the actor gave it than the plan there names"
    if not isinstance(source.data, DraftCritiqued) or source.data.critique != data.critique:
        return "this is not the verdict there"
    if not source.data.hermetic:
        return "its critic looked at more than it was given there"
    return ""


def _key_of(events: Sequence[Recorded], version: int) -> str:
    """Returns the key of the request that this event answered with a verdict of its own; empty if it did not.

    It is empty too where the request has another key than that of what was given, unless a fork repeats it.
    """
    source = events[version - 1].data if 0 < version <= len(events) else None
    if not isinstance(source, DraftCritiqued) or source.reused is not None or source.state:
        return ""
    for number in range(version - 2, 0, -1):
        asked = events[number].data
        if isinstance(asked, StepRequested) and (asked.path, asked.attempt) == (source.path, source.attempt):
            fits = events[number].repeats or asked.verdict_key == _key_given(events[:number], asked)
            return asked.verdict_key if fits else ""
    return ""


def _key_given(before: Sequence[Recorded], data: StepRequested) -> str:
    """Returns the key of what the critic of this request is given, after these events of its run."""
    begun = before[0].data
    place = place_of(data.path)
    step = dict(steps_of(begun.plan.steps)).get(place) if isinstance(begun, RunStarted) else None
    if step is None or data.draft is None or not isinstance(begun, RunStarted):
        return ""
    twins = twins_before(begun.plan.steps, place)
    given = data.draft, _media_type(before), data.outputs
    return verdict_key(step, twins, begun.brief, *given, values_after(before))


def _media_type(before: Sequence[Recorded]) -> str:
    """Returns the media type of the latest draft of these events."""
    made = (each.data for each in reversed(before))
    drafts = (each.draft for each in made if isinstance(each, DraftGenerated | DraftRefined | DraftEdited))
    return next((draft.media_type for draft in drafts), "text/plain")


def _name_of(ref: EventRef) -> str:
    return f"event {ref.version} of run {ref.run}"
