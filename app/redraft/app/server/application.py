"""The Litestar application: its routes, what stands before each request, and how it describes itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from litestar import Litestar, Request, Response, Router, get
from litestar.connection import ASGIConnection
from litestar.di import Provide
from litestar.handlers import BaseRouteHandler

from redraft.app.server.access import links
from redraft.app.server.access.identity import KEY, Guard, Identity, needs
from redraft.app.server.access.sessions import Sessions
from redraft.app.server.api import (
    administration,
    events,
    figures,
    imagining,
    lessons,
    run_reading,
    steering,
    submitting,
    working,
)
from redraft.app.server.api.answers import answer
from redraft.app.server.description import DESCRIPTION, Description
from redraft.app.server.problems import ProblemHandler, Refused
from redraft.app.server.queries import refuse_unknown
from redraft.app.server.request import JsonRequest
from redraft.app.server.service import Serves, Service

API: Final = "/api/v1"
_ENVELOPE: Final = 64 * 1024
"""Bytes of a request beside its text."""

Pages: TypeAlias = Callable[[Service, Sessions], Router]
"""Makes the pages for people, beside the API for programs."""


def build_application(service: Service, pages: Router) -> Litestar:
    """Returns the application that answers with the parts of this service: the API, and these pages."""
    description = Description()

    @get("/openapi.json", include_in_schema=False)
    async def openapi(service: Serves) -> Response[bytes]:
        return Response(description.encoded(app, service.settings.max_draft_bytes), media_type="application/json")

    readers = *run_reading.HANDLERS, *events.HANDLERS, *figures.HANDLERS, *imagining.HANDLERS, *administration.LOOKING
    looking = Router("/", route_handlers=[*readers, openapi], guards=[needs("read")])
    writing = Router(
        "/",
        route_handlers=[
            Router("/", route_handlers=submitting.HANDLERS, guards=[needs("submit")]),
            Router("/", route_handlers=working.HANDLERS, guards=[needs("work")]),
            Router(
                "/",
                route_handlers=[*steering.HANDLERS, *lessons.HANDLERS, *administration.HANDLERS],
                guards=[needs("operate")],
            ),
        ],
        guards=[refuse_read_only(service)],
    )
    api = Router(API, route_handlers=[looking, writing], before_request=refuse_unknown)
    app = Litestar(
        [health, api, pages, *links.HANDLERS],
        dependencies={
            "service": Provide(lambda: service, sync_to_thread=False, use_cache=True),
            "identity": Provide(_identity, sync_to_thread=False),
        },
        exception_handlers={Exception: _for_whom(ProblemHandler(service.log), pages)},
        openapi_config=DESCRIPTION,
        request_class=JsonRequest,
        request_max_body_size=6 * service.settings.max_draft_bytes + _ENVELOPE,  # JSON may write a letter as \u0041
        logging_config=None,
        debug=False,
        pdb_on_exception=False,
    )
    return app


def _for_whom(problems: ProblemHandler, pages: Router) -> Callable[[Request[Any, Any, Any], Exception], Response[Any]]:
    """Returns what answers an error: by a page where a browser asks for what is not of the API, else by a problem."""
    shown = cast("Callable[[Request[Any, Any, Any], Exception], Response[Any]]", pages.exception_handlers[Exception])

    def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        is_seen = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")
        return (shown if is_seen else problems)(request, error)

    return answer_error


def refuse_read_only(service: Service) -> Guard:
    """Returns what lets nobody change anything through a service that only looks."""

    async def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        if service.read_only:
            raise Refused(405, "read-only", "this server only looks: it was started with --read-only")

    return guard


def _identity(request: Request[Any, Any, Any]) -> Identity:
    return cast("dict[str, Identity]", request.scope)[KEY]


@get("/health", summary="Whether the server works")
async def health(service: Serves) -> Response[bytes]:
    """Says that the process answers, and up to which position of the log its read models are."""
    return answer({"position": service.runtime.views.position})
