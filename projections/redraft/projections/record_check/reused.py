"""Checks that a verdict was taken again only where its critic would have been given the very same."""

from __future__ import annotations

import re

from redraft.events.messages.domain_events import (
    DraftCritiqued,
    DraftEdited,
    DraftGenerated,
    DraftRefined,
    RunStarted,
    StepAnswered,
    StepRequested,
)
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.plan import Step
from redraft.events.messages.redaction import ERASED
from redraft.events.messages.reuse import verdict_key
from redraft.projections.record_check.chain import Deviates
from redraft.projections.record_check.walk import Walk


def check_key(walk: Walk, event: Recorded, data: StepRequested, step: Step) -> None:
    """Raises Deviates unless a request has the key that the plan asks for, and names a verdict with the same key."""
    if not (step.reuse or data.verdict_key or data.reused):
        return
    if step.reuse is None or data.draft is None:
        raise Deviates("reuse", event, f"the plan takes no verdict of {data.path} again")
    begun = walk.events[0].data
    if isinstance(begun, RunStarted) and begun.brief.text != ERASED:
        place = re.sub(r"\[[^/]*", "", data.path)
        if data.verdict_key != verdict_key(place, step, begun.brief, data.draft, _media_type(walk), data.outputs):
            raise Deviates("reuse", event, f"the key of {data.path} is not that of what it is given")
    if data.reused and _key_of(walk, data.reused) != data.verdict_key:
        raise Deviates("reuse", event, f"event {data.reused} has no verdict on what {data.path} is given")


def check_verdict(walk: Walk, event: Recorded, data: StepAnswered, request: StepRequested) -> None:
    """Raises Deviates unless a request that names a verdict has a copy of it, at no cost, and no other has."""
    again = data.reused if isinstance(data, DraftCritiqued) else 0
    if again != request.reused:
        said = f"the verdict of event {request.reused}" if request.reused else "a verdict of its own"
        raise Deviates("reuse", event, f"{request.path} should have {said}")
    if not again or not isinstance(data, DraftCritiqued):
        return
    source = walk.events[again - 1].data
    if not isinstance(source, DraftCritiqued) or source.critique != data.critique or not data.usage.is_nothing:
        raise Deviates("reuse", event, f"this is not the verdict of event {again}, at no cost")


def _key_of(walk: Walk, version: int) -> str:
    """Returns the key of the request that this event answered with a verdict of its own; empty if it did not."""
    source = walk.events[version - 1].data if 0 < version < walk.next else None
    if not isinstance(source, DraftCritiqued) or source.reused:
        return ""
    asked = (each.data for each in reversed(walk.events[: version - 1]) if isinstance(each.data, StepRequested))
    return next((each.verdict_key for each in asked if each.path == source.path), "")


def _media_type(walk: Walk) -> str:
    """Returns the media type of the run's latest draft."""
    made = (each.data for each in reversed(walk.events[: walk.next]))
    drafts = (each.draft for each in made if isinstance(each, DraftGenerated | DraftRefined | DraftEdited))
    return next((draft.media_type for draft in drafts), "text/plain")
