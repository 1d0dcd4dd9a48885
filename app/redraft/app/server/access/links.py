"""Links for people without an account: to decide on one draft, or to read one run. A link is a token for that alone."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
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
from redraft.events.messages.domain_events import DraftApproved, DraftRejected, RunStarted
from redraft.events.messages.envelope import Recorded
from redraft.events.tokens import Link, Token

LinkText = Annotated[str, PathParameter(description="The link's own text.")]

MOST_FIELDS: Final = 10
"""The number of fields that a form may have."""

_UNKNOWN: Final = "This link is not known here, it has ended, or it was used. Ask whoever gave it to you for another."
_ON_ITS_WAY: Final = (
    "Your decision was sent. It counts once it is recorded, if the run still waits with this draft. Open the link "
    "again to see whether it is; until then the link can be used again, and the first of its decisions counts, once."
)
_IN_USE: Final = "Another decision by this link is being recorded. Open the link again to see how that went."
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
    if (earlier := _decision(past, _key(token))) is not None:
        return await _told("Recorded already", f"{_done(earlier, token)} A link decides once.", 410)
    draft = _awaited(past, token.link.draft, token.link.step)
    if draft is None:
        return await _told("Nothing to decide", _OVER, 410)
    question = Question(token.name, _workflow(past), token.link.run, draft, _csrf(text))
    page = await beside(lambda: question_page(question))
    return _page(page.content, page.policy, 200)


@post("/links/{text:str}", include_in_schema=False, status_code=200)
async def decide(service: Serves, request: Request[Any, Any, Any], text: LinkText) -> Response[bytes]:
    """Records the decision of a link, which is used up by it; one that is not recorded leaves it as it was."""
    token = await _token(service, text)
    if token is None or token.link is None or token.link.draft is None:
        return await _told("No such link", _UNKNOWN, 404)
    given = _fields((await request.body()).decode(errors="replace"))
    decision, reason = given.get("decision"), given.get("reason", "")[:20_000]
    is_ours = hmac.compare_digest(given.get("csrf", "").encode(), _csrf(text).encode())
    if not is_ours or decision not in ("approve", "reject"):
        return await _told("Not recorded", "This form is not the one of this page: open the link once more.", 403)
    if service.read_only:
        return await _told("Not recorded", "This server only looks: it was started with --read-only.", 405)
    word = ApproveDraft if decision == "approve" else RejectDraft
    said = reason, token.name, _key(token), token.link.step
    return await _record(service, token, word(token.link.run, token.link.draft, *said))


def _fields(body: str) -> dict[str, str]:
    """Returns the fields of a form by their names; none of one with too many."""
    try:
        return {name: values[0] for name, values in parse_qs(body, max_num_fields=MOST_FIELDS).items()}
    except ValueError:
        return {}


async def _record(service: Service, token: Token, message: ApproveDraft | RejectDraft) -> Response[bytes]:
    """Records what is decided by a link, once: it is claimed before, and revoked once that is recorded.

    A claim ends with a server that is killed, and is given back for what is not recorded, or not yet. The key of the
    message has the run take one decision of a link even then, and shows whose it was when the link is used again.
    """
    tokens, who = service.tokens, f"{token.name} (link {token.id})"
    assert tokens is not None  # noqa: S101 - the link was found there
    claim = await tokens.claim(token.id)
    if claim is None:
        return await _told("Not recorded", _IN_USE, 409)
    try:
        settings, runtime = service.settings, service.runtime
        past = await runtime.store.read(message.run)
        earlier = done = _decision(past, message.key)
        if done is None and _awaited(past, message.draft, message.step) is None:
            await tokens.give_back(claim)
            return await _told("Nothing to decide", _OVER, 410)
        if done is None:
            _, event = await steer_on(settings, runtime, message.run, lambda _: message, runtime.client, who)
            done = _decision([event] if event else [], message.key)
    except RedraftError as error:
        await tokens.give_back(claim)
        if isinstance(error, InputError):
            return await _told("Not recorded", str(error), 409)
        raise
    if done is None:
        await tokens.give_back(claim)
        return await _told("On its way", _ON_ITS_WAY, 202)
    await tokens.revoke(token.id)
    if earlier is not None or isinstance(done, DraftApproved) != isinstance(message, ApproveDraft):
        return await _told("Recorded already", f"{_done(done, token)} A link decides once.", 410)
    return await _told("Thank you", _done(done, token), 200)


def _key(token: Token) -> str:
    """Returns the key of the one decision of a link."""
    return f"link {token.id}"


def _decision(past: Sequence[Recorded], key: str) -> DraftApproved | DraftRejected | None:
    """Returns the decision of a run's events that has this key; None where there is none yet."""
    made = (each.data for each in past if isinstance(each.data, DraftApproved | DraftRejected))
    return next((each for each in made if each.key == key), None)


def _done(decision: DraftApproved | DraftRejected, token: Token) -> str:
    done = "approved" if isinstance(decision, DraftApproved) else "rejected"
    return f"Draft {decision.draft.version} is {done}, in the name of {token.name}."


async def _token(service: Service, text: str) -> Token | None:
    """Returns the token that a link is; None for one that is not known, has ended, or was used."""
    return None if service.tokens is None else await service.tokens.find(text)


def _awaited(past: tuple[Recorded, ...], ref: DraftRef, step: str) -> Draft | None:
    """Returns the draft if the run waits for a decision on it, at this step; without one, at the first that asks."""
    state = folded(past) if past else None
    if state is None or state.approval is None or state.approval.request.draft != ref:
        return None
    if step != state.approval.request.path and (step or state.approved == ref):
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
