"""Steering runs: what the verbs `guide`, `limits`, `pause`, `resume`, `cancel`, `approve`, `reject` and `edit` say."""

from __future__ import annotations

from typing import Final

from litestar import Response, post
from litestar.params import JSONBody

from redraft.app.runs.steering import Word
from redraft.app.server import words
from redraft.app.server.access.identity import Asks, Identity
from redraft.app.server.api.answers import LATER, answer
from redraft.app.server.api.bodies import Approval, Edit, Guidance, NewLimits, Reason, Rejection
from redraft.app.server.api.parameters import RunPath
from redraft.app.server.service import Serves, Service
from redraft.app.server.words import Said, say


@post("/runs/{run:str}/guide", answer=Said, also=LATER, status_code=200, summary="Advise a run")
async def guide(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Guidance]) -> Response[bytes]:
    """Gives advice to the next refinement of a run."""
    return await _say(service, identity, run, words.guiding(identity, data))


@post("/runs/{run:str}/limits", answer=Said, also=LATER, status_code=200, summary="Change when a loop ends")
async def limits(service: Serves, identity: Asks, run: RunPath, data: JSONBody[NewLimits]) -> Response[bytes]:
    """Changes when a loop of a run ends, from its next critique on."""
    return await _say(service, identity, run, words.limiting(identity, data))


@post("/runs/{run:str}/pause", answer=Said, also=LATER, status_code=200, summary="Pause a run")
async def pause(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Reason]) -> Response[bytes]:
    """Pauses a run: what is under way is still recorded, and nothing more is asked for until it is resumed."""
    return await _say(service, identity, run, words.pausing(identity, data))


@post("/runs/{run:str}/resume", answer=Said, also=LATER, status_code=200, summary="Go on with a run")
async def resume(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Reason]) -> Response[bytes]:
    """Goes on with a run that is paused."""
    return await _say(service, identity, run, words.resuming(identity, data))


@post("/runs/{run:str}/cancel", answer=Said, also=LATER, status_code=200, summary="End a run")
async def cancel(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Reason]) -> Response[bytes]:
    """Ends a run as cancelled, with the best draft that was judged."""
    return await _say(service, identity, run, words.cancelling(identity, data))


@post("/runs/{run:str}/approve", answer=Said, also=LATER, status_code=200, summary="Approve a draft")
async def approve(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Approval]) -> Response[bytes]:
    """Approves the draft that a run waits with. It counts for that draft alone, by its hash."""
    return await _say(service, identity, run, words.approving(identity, data))


@post("/runs/{run:str}/reject", answer=Said, also=LATER, status_code=200, summary="Reject a draft")
async def reject(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Rejection]) -> Response[bytes]:
    """Rejects the draft that a run waits with. In a loop it is refined once more, else the run ends as rejected."""
    return await _say(service, identity, run, words.rejecting(identity, data))


@post("/runs/{run:str}/edit", answer=Said, also=LATER, status_code=200, summary="Give a draft of one's own")
async def edit(service: Serves, identity: Asks, run: RunPath, data: JSONBody[Edit]) -> Response[bytes]:
    """Gives a run a draft of a person's own. Critics judge it like any other, and the run goes on with it."""
    return await _say(service, identity, run, words.editing(identity, data, service.settings.max_draft_bytes))


async def _say(service: Service, identity: Identity, run: str, word: Word) -> Response[bytes]:
    """Says it to the run; answers with what was recorded, or that it is on its way."""
    said = await say(service, identity, run, word)
    return answer(said, 202 if said.event is None else 200)


HANDLERS: Final = (guide, limits, pause, resume, cancel, approve, reject, edit)
