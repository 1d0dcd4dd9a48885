"""Saying who one is, by showing a token once or by a provider; and the files that pages load."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from litestar import Request, Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter, SkipValidation, URLEncodedBody
from litestar.response import Redirect

from redraft.app.dashboard.templating import STATIC, static_file, static_url
from redraft.app.dashboard.visit import Visit, Visits, require_word
from redraft.app.server.access.identity import UNKNOWN
from redraft.app.server.access.sessions import LASTS, Sessions
from redraft.app.server.problems import Refused

_A_YEAR: Final = 365 * 24 * 60 * 60
Kept = NamedDependency[SkipValidation[Sessions]]
"""The sessions, as a handler gets them."""


class TokenShown(msgspec.Struct, frozen=True):
    """A token that is shown, and the page to go on to. `csrf` is the word of the page, where no script sends it."""

    token: Annotated[str, msgspec.Meta(max_length=200)] = ""
    next: Annotated[str, msgspec.Meta(max_length=2_000)] = "/"
    csrf: Annotated[str, msgspec.Meta(max_length=100)] = ""


@get("/sign-in")
async def ask_for_token(visit: Visits, following: Annotated[str, QueryParameter(name="next")] = "/") -> Response[Any]:
    """Asks for a token, or offers the way to the provider."""
    if visit.identity is not UNKNOWN:
        return Redirect(own_address(following), status_code=303)
    openid = visit.service.openid
    provider = openid.chosen.label if openid else ""
    return visit.tell("sign_in.html", title="Sign in", live="", following=own_address(following), provider=provider)


@post("/sign-in", status_code=200)
async def sign_in(visit: Visits, sessions: Kept, data: URLEncodedBody[TokenShown]) -> Response[Any]:
    """Begins a session, with a token that may be used: also for a browser that runs no script."""
    header = visit.request.headers.get("x-csrf-token", "")
    require_word(visit.request, header or data.csrf)
    secret = await sessions.begin(data.token.strip())
    if secret is None:
        raise Refused(
            401, "authentication", "this token is not known, or it has ended; `redraft token list` shows them"
        )
    following = own_address(data.next)
    answer = Response("", headers={"HX-Redirect": following}) if header else Redirect(following, status_code=303)
    return with_session(visit, answer, sessions.cookie, secret, LASTS)


@post("/sign-out", status_code=200)
async def sign_out(visit: Visits, sessions: Kept) -> Response[Any]:
    """Ends the session."""
    sessions.end(visit.request.headers.get("cookie", ""))
    answer = Response("", headers={"HX-Redirect": "/"})
    answer.delete_cookie(sessions.cookie, path="/")
    return answer


def with_session(visit: Visit, answer: Response[Any], cookie: str, secret: str, seconds: int) -> Response[Any]:
    """Returns the answer with a session's cookie, of this name and with this secret, that lasts so long."""
    secure = is_secure(visit)
    answer.set_cookie(cookie, secret, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict")
    return answer


def is_secure(visit: Visit) -> bool:
    """Returns whether the browser speaks TLS, with this server or with the proxy before it."""
    return visit.request.url.scheme == "https" or visit.service.settings.http.behind_proxy


@get("/static/{name:str}")
async def send_file(request: Request[Any, Any, Any], name: FromPath[str]) -> Response[bytes]:
    """Sends a file that pages load; its address changes with it."""
    if name not in STATIC:
        raise Refused(404, "no-such-path", f"there is no file {name!r}")
    is_own = str(request.url).endswith(static_url(name))  # while releases change, one may be asked for another's
    kept = f"max-age={_A_YEAR}, immutable" if is_own else "no-cache"
    return Response(static_file(name), media_type=STATIC[name][2], headers={"Cache-Control": kept})


def own_address(text: str) -> str:
    """Returns the address of a page of this server; that of the first page for any other address."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_own and not urlsplit(text).netloc else "/"


PAGES: Final = (ask_for_token, sign_in, send_file)
FORMS: Final = (sign_out,)
