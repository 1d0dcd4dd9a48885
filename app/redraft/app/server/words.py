"""Steering messages through the server, from programs and pages: the request bodies, and how they are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from redraft.app.runs.steering import Word, draft_meant, numbered_draft, steer_on
from redraft.app.server.access.identity import Identity
from redraft.app.server.api.bodies import Approval, Edit, Guidance, NewLimits, Reason, Rejection
from redraft.app.server.problems import Refused
from redraft.app.server.service import Service
from redraft.app.workflows.sources import read_condition
from redraft.events.errors import InputError
from redraft.events.messages.commands import (
    ApproveDraft,
    CancelRun,
    ChangeLimits,
    EditDraft,
    GuideRun,
    PauseRun,
    RejectDraft,
    ResumeRun,
)
from redraft.events.messages.content import DraftRef, checked
from redraft.events.messages.envelope import Recorded


class Said(msgspec.Struct, frozen=True):
    """The event that a steering message brought, with its version and actor; None while it is not recorded yet."""

    run: str
    event: str | None = None
    version: int | None = None
    by: str = ""


async def say(service: Service, identity: Identity, run: str, word: Word) -> Said:
    """Says it to the run that a text means; returns what was recorded, once it can be looked at.

    Raises NoSuchRun, StoreError, BusError, and InputError when it would change nothing.
    """
    runtime = service.runtime
    found, event = await steer_on(service.settings, runtime, run, word, runtime.client, identity.signature)
    if event is None:
        return Said(found, by=identity.signature)
    await service.shown(event.position)
    return Said(found, event.name, event.version, event.actor)


def guiding(identity: Identity, given: Guidance) -> Word:
    """Returns advice to the next refinement."""
    return lambda past: GuideRun(past[0].run, given.advice, given.reason, identity.name)


def limiting(identity: Identity, given: NewLimits) -> Word:
    """Returns new limits of a loop. Raises InputError when nothing is changed, or a condition cannot be read."""
    if not given.until and given.max_iterations is None:
        raise InputError("nothing is changed; give until, max_iterations, or both")
    until = read_condition(given.until) if given.until else None
    asked = given.loop, until, given.max_iterations, given.reason, identity.name
    return lambda past: ChangeLimits(past[0].run, *asked)


def pausing(identity: Identity, given: Reason) -> Word:
    """Returns that a run is to pause."""
    return lambda past: PauseRun(past[0].run, given.reason, identity.name)


def resuming(identity: Identity, given: Reason) -> Word:
    """Returns that a run is to go on."""
    return lambda past: ResumeRun(past[0].run, given.reason, identity.name)


def cancelling(identity: Identity, given: Reason) -> Word:
    """Returns that a run is to end."""
    return lambda past: CancelRun(past[0].run, given.reason, identity.name)


PlainWord: TypeAlias = Literal["pause", "resume", "cancel"]
PLAIN: Final[Mapping[PlainWord, Callable[[Identity, Reason], Word]]] = {
    "pause": pausing,
    "resume": resuming,
    "cancel": cancelling,
}
"""The words that say nothing but a reason."""


def approving(identity: Identity, given: Approval) -> Word:
    """Returns the approval of a draft; it raises Refused where that is another text than was looked at."""

    def word(past: Sequence[Recorded]) -> ApproveDraft:
        draft = _same(draft_meant(past, given.draft), given.sha256)
        return ApproveDraft(past[0].run, draft, given.reason, identity.name, step=given.step)

    return word


def rejecting(identity: Identity, given: Rejection) -> Word:
    """Returns the rejection of a draft; it raises Refused where that is another text than was looked at."""

    def word(past: Sequence[Recorded]) -> RejectDraft:
        draft = _same(draft_meant(past, given.draft), given.sha256)
        return RejectDraft(past[0].run, draft, given.feedback, identity.name, step=given.step)

    return word


def editing(identity: Identity, given: Edit, most: int) -> Word:
    """Returns a draft of a person's own, of at most so many bytes; it raises Refused where it is made from another."""
    checked(given.text, "edit", most)

    def word(past: Sequence[Recorded]) -> EditDraft:
        before = _same(numbered_draft(past, given.draft), given.sha256)
        return EditDraft(past[0].run, before, given.text, given.reason, identity.name, latest=True)

    return word


def _same(draft: DraftRef, sha256: str) -> DraftRef:
    """Returns the draft. Raises Refused where it is not the text that was looked at."""
    if sha256 and draft.sha256 != sha256:
        raise Refused(
            409, "another-draft", f"draft {draft.version} is another text than you looked at; look at it again"
        )
    return draft
