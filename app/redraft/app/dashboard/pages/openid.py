"""Signing in by a provider of OpenID Connect: the way there, and the way back.

What a browser needs on its way back is in a cookie of its own, which pages of other sites cannot set or read. It is
Lax, as the provider leads back. The session's cookie is Strict: a page of ours leads on from there.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Any, Final

import msgspec
from litestar import Response, get
from litestar.params import QueryParameter
from litestar.response import Redirect

from redraft.app.dashboard.pages.signing_in import Kept, is_secure, own_address, with_session
from redraft.app.dashboard.visit import Visit, Visits
from redraft.app.server.access.openid import OpenId, SignIn
from redraft.app.server.access.sessions import SIGN_IN_COOKIE
from redraft.app.server.problems import Refused
from redraft.app.settings.openid import CALLBACK
from redraft.events.messages.codec import UNREADABLE

_PATIENCE: Final = 600
"""Seconds that somebody may take at the provider."""

_Short = Annotated[str, QueryParameter(max_length=8_192)]


@get("/oidc/sign-in")
async def go_to_provider(visit: Visits, following: Annotated[str, QueryParameter(name="next")] = "/") -> Response[Any]:
    """Leads to the provider."""
    begun, address = await _openid(visit).begin(own_address(following))
    answer = Redirect(address, status_code=303)
    kept = urlsafe_b64encode(msgspec.json.encode(begun)).decode()
    answer.set_cookie(
        _cookie(visit), kept, max_age=_PATIENCE, path="/", secure=is_secure(visit), httponly=True, samesite="lax"
    )
    return answer


@get(CALLBACK)
async def come_back(
    visit: Visits,
    sessions: Kept,
    code: _Short = "",
    shown: Annotated[str, QueryParameter(name="state", max_length=1_000)] = "",
    iss: Annotated[str | None, QueryParameter(max_length=2_000)] = None,
    error: Annotated[str, QueryParameter(max_length=500)] = "",
) -> Response[Any]:
    """Begins a session of who comes back from the provider."""
    openid, begun = _openid(visit), _begun(visit)
    if begun is None:
        raise Refused(400, "sign-in", "no sign-in was begun in this browser, or it took too long; begin again")
    if error or not code:
        raise Refused(403, "sign-in", f"the provider let nobody in ({error or 'no code'}); begin again")
    identity = await openid.end(begun, shown, code, iss)
    secret = sessions.begin_as(identity, openid.chosen.session)
    answer = visit.tell("signed_in.html", title="Signed in", live="", following=own_address(begun.following))
    answer.delete_cookie(_cookie(visit), path="/")
    return with_session(visit, answer, sessions.cookie, secret, openid.chosen.session)


def _openid(visit: Visit) -> OpenId:
    if visit.service.openid is None:
        raise Refused(404, "no-such-path", "no provider is set here; sign in with a token")
    return visit.service.openid


def _begun(visit: Visit) -> SignIn | None:
    """Returns the sign-in that this browser began; None when there is none that can be read."""
    kept = visit.request.cookies.get(_cookie(visit), "")
    try:
        return msgspec.json.decode(urlsafe_b64decode(kept), type=SignIn)
    except (ValueError, *UNREADABLE):
        return None


def _cookie(visit: Visit) -> str:
    """Returns the name of the cookie: with the prefix, no other host can have set it."""
    return f"__Host-{SIGN_IN_COOKIE}" if is_secure(visit) else SIGN_IN_COOKIE


PAGES: Final = (go_to_provider, come_back)
