"""The pages together: which there are, who may open them, and what is answered when one cannot be shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

from litestar import Request, Response, Router
from litestar.connection import ASGIConnection
from litestar.di import Provide
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.response import Redirect

from redraft.app.dashboard.chain import ChainCheck
from redraft.app.dashboard.live import Broadcaster
from redraft.app.dashboard.pages import draft, figures, operations, record_pages, run, runs, signing_in, whatif
from redraft.app.dashboard.visit import HTML, Visit, identity_in, require_word
from redraft.app.runs.thresholds import Thresholds
from redraft.app.server.access.identity import UNKNOWN, Asks, needs
from redraft.app.server.access.sessions import Sessions
from redraft.app.server.application import refuse_read_only
from redraft.app.server.problems import ProblemHandler, Refused, problem, problem_of
from redraft.app.server.service import Service

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy: a page loads and runs this server's own files, and nothing inline."""

_OF_RUNS: Final = (*runs.PAGES, *run.PAGES, *draft.PAGES)
LOOKING: Final = (*_OF_RUNS, *operations.PAGES, *figures.PAGES, *record_pages.PAGES, *whatif.PAGES)
STEERING: Final = (*runs.FORMS, *run.FORMS, *operations.FORMS)


def build_pages(service: Service, sessions: Sessions) -> Router:
    """Returns the pages, and what their forms call."""
    live = Broadcaster(service)
    chain, thresholds = ChainCheck(service), Thresholds()

    async def visit(request: Request[Any, Any, Any], identity: Asks) -> Visit:
        return Visit(service, identity, request, live)

    steering = Router(
        "/", route_handlers=STEERING, guards=[needs("operate"), refuse_read_only(service), repeats_its_word]
    )
    return Router(
        "/",
        route_handlers=[
            Router("/", route_handlers=LOOKING, guards=[needs("read")]),
            steering,
            Router("/", route_handlers=run.BEGINNING, guards=[refuse_read_only(service), repeats_its_word]),
            Router("/", route_handlers=signing_in.FORMS, guards=[repeats_its_word]),
            *signing_in.PAGES,
            *_by_provider(service),
        ],
        dependencies={
            "visit": Provide(visit),
            "sessions": Provide(lambda: sessions, sync_to_thread=False),
            "chain": Provide(lambda: chain, sync_to_thread=False),
            "thresholds": Provide(lambda: thresholds, sync_to_thread=False),
        },
        exception_handlers={Exception: _trouble(service, live)},
        request_class=Request,
        response_headers={"Content-Security-Policy": POLICY},
        include_in_schema=False,
    )


def _by_provider(service: Service) -> Sequence[HTTPRouteHandler]:
    """Returns the pages for a sign-in by the provider, where there is one."""
    if service.openid is None:
        return ()
    from redraft.app.dashboard.pages import openid  # its libraries are an extra

    return openid.PAGES


async def repeats_its_word(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Lets nothing be changed by a request that no page of this server has made."""
    require_word(connection, connection.headers.get("x-csrf-token", ""))


def _trouble(service: Service, live: Broadcaster) -> Callable[[Request[Any, Any, Any], Exception], Response[Any]]:
    """Returns what answers an error by a page that says so, or has somebody who is not known say who they are."""
    log = ProblemHandler(service.log)

    def answer(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        visit = Visit(service, identity_in(request), request, live)
        if asks_to_sign_in(request, error):
            if request.method != "GET":
                told = visit.render("signed_out_said.html", way_in=_way_in(_page_of(request)))
                return Response(told, status_code=403, media_type=HTML, headers={"Content-Security-Policy": POLICY})
            if request.headers.get("sec-fetch-site") == "cross-site":  # then no session's cookie came along
                told = visit.render("signed_in.html", title="Going on", following=signing_in.own_address(visit.address))
                return Response(told, media_type=HTML, headers={"Content-Security-Policy": POLICY})
            return Redirect(_way_in(str(request.url)), status_code=303)
        log(request, error)
        found = problem_of(error) or problem(500, "this is a defect of Redraft; the server's log says more", "defect")
        template = "problem_said.html" if request.headers.get("hx-request") else "problem.html"
        page = visit.render(template, problem=found, title=found.title, live="")
        headers = {"Content-Security-Policy": POLICY, **(error.headers if isinstance(error, Refused) else {})}
        return Response(page, status_code=found.status, media_type=HTML, headers=headers)

    return answer


def _page_of(request: Request[Any, Any, Any]) -> str:
    """Returns the address of the page that a form stands on; the first page where none is named."""
    return request.headers.get("hx-current-url", "/")


def _way_in(page: str) -> str:
    """Returns the address at which to sign in, and then go on to a page of this server."""
    try:
        found = urlsplit(page)
    except ValueError:  # a header may say anything
        return "/sign-in"
    asked = found.path + (f"?{found.query}" if found.query else "")
    return f"/sign-in?next={quote(asked, safe='')}"


def asks_to_sign_in(request: Request[Any, Any, Any], error: Exception) -> bool:
    """Returns whether a page was refused because nobody knows who asks for it."""
    return identity_in(request) is UNKNOWN and isinstance(error, Refused) and error.problem.type.endswith(":scope")
