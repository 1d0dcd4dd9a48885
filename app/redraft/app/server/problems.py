"""Errors as answers: RFC 9457 problems (`application/problem+json`), with the line that the command line prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers import HTTPRouteHandler
from msgspec import inspect

from redraft.actors.runtime.failures import traceback_of
from redraft.app.runs.steering import RunIsOver
from redraft.app.server.wanted import wanted_text
from redraft.events.errors import (
    BusError,
    CodecError,
    ContentError,
    EncryptionKeyMissing,
    IncompatibleStore,
    InputError,
    MessageTooLarge,
    NoSuchRun,
    RedraftError,
    RunEndedFirst,
    SetAside,
    StoreError,
    Tampered,
)
from redraft.projections.display import plain

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MEDIA_TYPE: Final = "application/problem+json"
_LONGEST: Final = 2_000

_HEADERS: Final[Mapping[str, str]] = {"key": "Idempotency-Key", "last_seen": "Last-Event-ID"}
"""The headers that handlers take, by the names of their parameters."""

_KINDS: Final[Sequence[tuple[type[RedraftError], int, str]]] = (
    (NoSuchRun, 404, "no-such-run"),
    (ContentError, 422, "content"),
    (RunIsOver, 409, "run-ended"),
    (InputError, 422, "input"),
    (RunEndedFirst, 409, "run-ended"),
    (SetAside, 409, "set-aside"),
    (EncryptionKeyMissing, 409, "encrypted"),
    (CodecError, 409, "unreadable"),
    (Tampered, 409, "tampered"),
    (MessageTooLarge, 413, "too-large"),
    (IncompatibleStore, 503, "store"),
    (StoreError, 503, "store"),
    (BusError, 503, "bus"),
)
"""The status and the name of each kind of error; the first that fits counts."""

_TITLES: Final[Mapping[int, str]] = {
    400: "The request cannot be understood",
    401: "Who you are is not known",
    403: "This is not allowed",
    404: "There is no such thing",
    405: "This cannot be done here",
    409: "It is not in a state for this",
    413: "It is too large",
    421: "This is another host",
    422: "The input is wrong",
    431: "Its head is too large",
    429: "Too many requests",
    500: "The server made a mistake",
    502: "A server that is needed says what cannot be used",
    503: "A server that is needed does not answer",
}


_PLAIN: Final[Mapping[int, tuple[str, str]]] = {
    400: ("parameters", ""),
    404: ("no-such-path", "nothing is at this address; /runs has the pages, /api/v1/openapi.json the paths of the API"),
    405: ("no-such-method", "this path does not take this method; the header Allow has those that it takes"),
    413: ("too-large", "the body is larger than this server takes; send less at once"),
}
"""The kind of what the library refuses by itself, and the line where its own says too little."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error in an answer: `detail` says what, where, and how to mend it; `type` names the kind for programs."""

    title: str
    status: int
    detail: str = ""
    type: str = "about:blank"


class Refused(Exception):
    """A request that is answered with a problem of this status and kind. `headers` go with the answer."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.problem = problem(status, detail, kind)
        self.headers = dict(headers or {})


def problem(status: int, detail: str, kind: str = "") -> Problem:
    """Returns a problem; `kind` is the last part of its type."""
    title = _TITLES.get(status, "The request was refused")
    return Problem(title, status, plain(detail, _LONGEST), f"urn:redraft:problem:{kind}" if kind else "about:blank")


def problem_of(error: BaseException) -> Problem | None:
    """Returns the problem that an error means; None for one that nobody expects."""
    match error:
        case Refused():
            return error.problem
        case BaseExceptionGroup():
            return next((found for each in error.exceptions if (found := problem_of(each)) is not None), None)
        case RedraftError():
            kinds = ((status, kind) for each, status, kind in _KINDS if isinstance(error, each))
            status, kind = next(kinds, (422, "refused"))
            return problem(status, str(error), kind)
        case ValidationException():
            return problem(400, _validation_text(error), "parameters")
        case HTTPException():
            kind, told = _PLAIN.get(error.status_code, ("", error.detail))
            return problem(error.status_code, told or error.detail, kind)
        case TimeoutError():
            return problem(503, "the answer took too long; ask for less, or again in a while", "timeout")
        case _:
            return None


def answer_problem(found: Problem, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """Returns the answer that tells a problem."""
    return Response(
        msgspec.json.encode(found), status_code=found.status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


class ProblemHandler:
    """Answers whatever a handler raises. What nobody expects is logged with its traceback, and told without it."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    def __call__(self, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        found = problem_of(error)
        if isinstance(error, ValidationException):
            found = problem(400, _validation_text(error, partial(_choices, request)), "parameters")
        if found is None:
            self._log.error(
                "request failed", method=request.method, path=_shown_path(request), traceback=traceback_of(error)
            )
            found = problem(500, "this is a defect of Redraft; the server's log says more", "defect")
        elif found.status >= 500:
            self._log.warning("request failed", method=request.method, path=_shown_path(request), error=found.detail)
        headers = error.headers if isinstance(error, Refused) else {}
        if isinstance(error, HTTPException) and error.headers:
            headers = dict(error.headers)
        return answer_problem(found, headers)


def _shown_path(request: Request[Any, Any, Any]) -> str:
    """Returns the path of a request for the log; of a link, which is a secret, only its beginning."""
    path = request.url.path
    return "/links/…" if path.startswith("/links/") else path


def _validation_text(error: ValidationException, choices: Callable[[str], str] = lambda _: "") -> str:
    """Returns which parameter or field is wrong, and why; `choices` gives the values that one of a few may have."""
    faults = error.extra if isinstance(error.extra, list) else []
    told: list[str] = []
    for each in (each for each in faults if isinstance(each, dict)):
        message = str(each.get("message", ""))
        wanted = choices(str(each.get("key", ""))) if message.startswith("Invalid enum value") else ""
        told.append(f"{_name(each)}: {message}" + (f"; give {wanted}" if wanted else ""))
    return "; ".join(told) or error.detail


def _choices(request: Request[Any, Any, Any], name: str) -> str:
    """Returns what the parameter of this name may be; nothing for a field of a body."""
    handler = request.scope.get("route_handler")
    found = handler.parsed_fn_signature.parameters.get(name) if isinstance(handler, HTTPRouteHandler) else None
    return wanted_text(inspect.type_info(found.annotation)) if found is not None else ""


def _name(fault: Mapping[str, Any]) -> str:
    """Returns what is wrong as the request names it."""
    key = str(fault.get("key", ""))
    return _HEADERS.get(key, key) if fault.get("source") == "header" else key
