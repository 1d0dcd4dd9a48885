"""Steering runs: what the verbs `guide`, `limits`, `pause`, `resume`, `cancel`, `approve`, `reject` and `edit` say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from litestar import Response, post
from litestar.params import JSONBody

from redraft.app.runs.steering import Word, draft_meant, numbered_draft, steer_on
from redraft.app.server.api.answers import answer
from redraft.app.server.api.bodies import Approval, Edit, Guidance, NewLimits, Reason, Rejection
from redraft.app.server.api.parameters import RunPath
from redraft.app.server.identity import Asks, Identity
from redraft.app.server.problems import Refused
from redraft.app.server.service import Serves, Service
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
    """What was recorded of what was said: the event, its version, and whose it is; None while it is on its way."""

    run: str
    event: str | None = None
    version: int | None = None
    by: str = ""


@post("/runs/{run:str}/guide", answer=Said, status_code=200, summary="Advise a run")
async def guide(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Guidance]) -> Response[bytes]:
    """Gives advice to the next refinement of a run."""
    return await _say(
        service, identity, run, lambda past: GuideRun(past[0].run, data.advice, data.reason, identity.name)
    )


@post("/runs/{run:str}/limits", answer=Said, status_code=200, summary="Change when a loop ends")
async def limits(service: Serves, identity: Asks, run: RunPath, data: JSONBody[NewLimits]) -> Response[bytes]:
    """Changes when a loop of a run ends, from its next critique on."""
    if not data.until and data.max_iterations is None:
        raise InputError("nothing is changed; give until, max_iterations, or both")
    until = read_condition(data.until) if data.until else None
    asked = data.loop, until, data.max_iterations, data.reason, identity.name
    return await _say(service, identity, run, lambda past: ChangeLimits(past[0].run, *asked))


@post("/runs/{run:str}/pause", answer=Said, status_code=200, summary="Pause a run")
async def pause(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Reason]) -> Response[bytes]:
    """Pauses a run: what is under way is still recorded, and nothing more is asked for until it is resumed."""
    return await _say(service, identity, run, lambda past: PauseRun(past[0].run, data.reason, identity.name))


@post("/runs/{run:str}/resume", answer=Said, status_code=200, summary="Go on with a run")
async def resume(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Reason]) -> Response[bytes]:
    """Goes on with a run that is paused."""
    return await _say(service, identity, run, lambda past: ResumeRun(past[0].run, data.reason, identity.name))


@post("/runs/{run:str}/cancel", answer=Said, status_code=200, summary="End a run")
async def cancel(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Reason]) -> Response[bytes]:
    """Ends a run as cancelled, with the best draft that was judged."""
    return await _say(service, identity, run, lambda past: CancelRun(past[0].run, data.reason, identity.name))


@post("/runs/{run:str}/approve", answer=Said, status_code=200, summary="Approve a draft")
async def approve(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Approval]) -> Response[bytes]:
    """Approves the draft that a run waits with. It counts for that draft alone, by its hash."""

    def word(past: Sequence[Recorded]) -> ApproveDraft:
        draft = _same(draft_meant(past, data.draft), data.sha256)
        return ApproveDraft(past[0].run, draft, data.reason, identity.name)

    return await _say(service, identity, run, word)


@post("/runs/{run:str}/reject", answer=Said, status_code=200, summary="Reject a draft")
async def reject(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Rejection]) -> Response[bytes]:
    """Rejects the draft that a run waits with. In a loop it is refined once more, else the run ends as rejected."""

    def word(past: Sequence[Recorded]) -> RejectDraft:
        draft = _same(draft_meant(past, data.draft), data.sha256)
        return RejectDraft(past[0].run, draft, data.feedback, identity.name)

    return await _say(service, identity, run, word)


@post("/runs/{run:str}/edit", answer=Said, status_code=200, summary="Give a draft of one's own")
async def edit(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Edit]) -> Response[bytes]:
    """Gives a run a draft of a person's own. Critics judge it like any other, and the run goes on with it."""
    checked(data.text, "edit", service.settings.max_draft_bytes)

    def word(past: Sequence[Recorded]) -> EditDraft:
        before = _same(numbered_draft(past, data.draft), data.sha256)
        return EditDraft(past[0].run, before, data.text, data.reason, identity.name)

    return await _say(service, identity, run, word)


async def _say(service: Service, identity: Identity, run: str, word: Word) -> Response[bytes]:
    """Says it to the run; answers with what was recorded, or that it is on its way."""
    runtime = service.runtime
    found, event = await steer_on(service.settings, runtime, run, word, runtime.client, identity.signature)
    if event is None:
        return answer(Said(found, by=identity.signature), 202)
    await service.shown(event.position)
    return answer(Said(found, event.name, event.version, event.actor))


def _same(draft: DraftRef, sha256: str) -> DraftRef:
    """Returns the draft. Raises Refused where it is not the text that was looked at."""
    if sha256 and draft.sha256 != sha256:
        raise Refused(
            409, "another-draft", f"draft {draft.version} is another text than you looked at; look at it again"
        )
    return draft


HANDLERS: Final = (guide, limits, pause, resume, cancel, approve, reject, edit)
