"""The Litestar application: its routes, what stands before each request, and how it describes itself."""

from __future__ import annotations

from typing import Final

from litestar import Litestar, Response, Router, get
from litestar.di import Provide

from redraft.app.server import figures, run_reading
from redraft.app.server.answers import answer
from redraft.app.server.description import DESCRIPTION, Description
from redraft.app.server.identity import needs
from redraft.app.server.problems import ProblemHandler
from redraft.app.server.service import Serves, Service

API: Final = "/api/v1"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ENVELOPE: Final = 64 * 1024
"""Bytes of a request beside its text."""


def build_application(service: Service) -> Litestar:
    """Returns the application that answers with the parts of this service."""
    description = Description()

    @get("/openapi.json", include_in_schema=False)
    async def openapi(service: Serves) -> Response[bytes]:
        return Response(description.encoded(app, service.settings.max_draft_bytes), media_type="application/json")

    looking = Router("/", route_handlers=[*run_reading.HANDLERS, *figures.HANDLERS, openapi], guards=[needs("read")])
    api = Router(API, route_handlers=[looking])
    app = Litestar(
        [health, api],
        dependencies={"service": Provide(lambda: service, sync_to_thread=False, use_cache=True)},
        exception_handlers={Exception: ProblemHandler(service.log)},
        openapi_config=DESCRIPTION,
        request_max_body_size=6 * service.settings.max_draft_bytes + _ENVELOPE,  # JSON may write a letter as \u0041
        response_headers=_HEADERS,
        logging_config=None,
        debug=False,
        pdb_on_exception=False,
    )
    return app


@get("/health", summary="Whether the server works")
async def health(service: Serves) -> Response[bytes]:
    """Says that the process answers, and up to which position of the log its read models are."""
    return answer({"position": service.runtime.views.position})
