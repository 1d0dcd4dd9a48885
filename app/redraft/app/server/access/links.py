"""Links for people without an account: to decide on one draft, or to read one run. A link is a token for that alone."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Annotated, Any, Final
from urllib.parse import parse_qs

from litestar import Request, Response, get, post
from litestar.params import PathParameter

from redraft.app.record.auditing.audit import audit_one
from redraft.app.record.past import drafts_of
from redraft.app.runs.steering import steer_on
from redraft.app.server.api.answers import beside
from redraft.app.server.service import Serves, Service
from redraft.app.subscribing.misfits import folded
from redraft.events.errors import InputError, RedraftError
from redraft.events.messages.commands import ApproveDraft, RejectDraft
from redraft.events.messages.content import Draft, DraftRef
from redraft.events.messages.domain_events import RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.tokens import Link, Token

LinkText = Annotated[str, PathParameter(description="The link's own text.")]

_UNKNOWN: Final = "This link is not known here, it has ended, or it was used. Ask whoever gave it to you for another."
_ON_ITS_WAY: Final = "Your decision was sent. It counts once it is recorded, if the run still waits with this draft."
_OVER: Final = "Nothing is to be decided any more: the run went on, or ended, or waits with another draft."


@get("/links/{text:str}", include_in_schema=False)
async def look(service: Serves, text: LinkText) -> Response[bytes]:
    """Shows what a link is for. Changes nothing."""
    token = await _token(service, text)
    if token is None or token.link is None:
        return await _told("No such link", _UNKNOWN, 404)
    if token.link.draft is None:
        return await _audit(service, token.link)
    from redraft.app.record.decision_page import Question, question_page  # Jinja2 takes a while to import

    past = await service.runtime.store.read(token.link.run)
    draft = _awaited(past, token.link.draft)
    if draft is None:
        return await _told("Nothing to decide", _OVER, 410)
    question = Question(token.name, _workflow(past), token.link.run, draft, _csrf(text))
    page = await beside(lambda: question_page(question))
    return _page(page.content, page.policy, 200)


@post("/links/{text:str}", include_in_schema=False, status_code=200)
async def decide(service: Serves, request: Request[Any, Any, Any], text: LinkText) -> Response[bytes]:
    """Records the decision of a link, which is used then."""
    token = await _token(service, text)
    if token is None or token.link is None or token.link.draft is None:
        return await _told("No such link", _UNKNOWN, 404)
    form = parse_qs((await request.body()).decode(errors="replace"), max_num_fields=10)
    given = {name: values[0] for name, values in form.items()}
    decision, reason = given.get("decision"), given.get("reason", "")[:20_000]
    if not hmac.compare_digest(given.get("csrf", ""), _csrf(text)) or decision not in ("approve", "reject"):
        return await _told("Not recorded", "This form is not the one of this page: open the link once more.", 403)
    if service.read_only:
        return await _told("Not recorded", "This server only looks: it was started with --read-only.", 405)
    word = ApproveDraft if decision == "approve" else RejectDraft
    return await _record(service, token, word(token.link.run, token.link.draft, reason, token.name, f"link {token.id}"))


async def _record(service: Service, token: Token, message: ApproveDraft | RejectDraft) -> Response[bytes]:
    """Records what is decided by a link, once: it is claimed before, and given back if nothing can be recorded.

    A claim ends with a server that is killed; the key of the message has the run take one decision of a link even then.
    """
    tokens, who = service.tokens, f"{token.name} (link {token.id})"
    assert tokens is not None  # noqa: S101 - the link was found there
    claim = await tokens.claim(token.id)
    if claim is None:
        return await _told("No such link", _UNKNOWN, 404)
    try:
        settings, runtime = service.settings, service.runtime
        if _awaited(await runtime.store.read(message.run), message.draft) is None:
            await tokens.give_back(claim)
            return await _told("Nothing to decide", _OVER, 410)
        _, event = await steer_on(settings, runtime, message.run, lambda _: message, runtime.client, who)
    except RedraftError as error:
        await tokens.give_back(claim)
        if isinstance(error, InputError):
            return await _told("Not recorded", str(error), 409)
        raise
    await tokens.revoke(token.id)
    if event is None:
        return await _told("On its way", _ON_ITS_WAY, 202)
    done = "approved" if isinstance(message, ApproveDraft) else "rejected"
    return await _told("Thank you", f"Draft {message.draft.version} is {done}, in the name of {token.name}.", 200)


async def _token(service: Service, text: str) -> Token | None:
    """Returns the token that a link is; None for one that is not known, has ended, or was used."""
    return None if service.tokens is None else await service.tokens.find(text)


def _awaited(past: tuple[Recorded, ...], ref: DraftRef) -> Draft | None:
    """Returns the draft if the run waits for a decision on it."""
    waiting = folded(past).approval if past else None
    if waiting is None or waiting.request.draft != ref:
        return None
    return drafts_of(past)[ref.version]


def _workflow(past: tuple[Recorded, ...]) -> str:
    first = past[0].data
    return first.plan.name if isinstance(first, RunStarted) else ""


async def _audit(service: Service, link: Link) -> Response[bytes]:
    """Shows the audit page of the run that may be read."""
    from redraft.app.record.auditing.audit_page import render
    from redraft.app.record.copying.anonymous import without_names

    try:
        found = await audit_one(service.runtime, link.run, hashes=True, origin=True)
    except RedraftError:
        return await _told("No such run", "This run cannot be read here any more.", 404)

    def made() -> bytes:
        events = without_names(found.events) if link.anonymous else found.events
        return render(events, verified=bool(found.verified)).encode()

    return _page(await beside(made), "frame-ancestors 'none'", 200)


async def _told(title: str, told: str, status: int) -> Response[bytes]:
    from redraft.app.record.decision_page import told_page

    page = await beside(lambda: told_page(title, told))
    return _page(page.content, page.policy, status)


def _page(content: bytes, policy: str, status: int) -> Response[bytes]:
    headers = {"Content-Security-Policy": policy, "X-Robots-Tag": "noindex"}
    return Response(content, status_code=status, media_type="text/html", headers=headers)


def _csrf(text: str) -> str:
    """Returns what the form of a link's page carries: only who has the link can know it."""
    return hmac.new(text.encode(), b"redraft: decide", sha256).hexdigest()


HANDLERS: Final = (look, decide)
