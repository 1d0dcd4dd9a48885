"""A visit to a page: who looks, at what, and the three ways in which they see it: whole, live, or as an answer."""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
from litestar import Request, Response, get
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import HTTPRouteHandler
from litestar.params import SkipValidation
from litestar.response import Redirect, Stream

from redraft.app.dashboard.addresses import read_query
from redraft.app.dashboard.live import Broadcaster, Subject
from redraft.app.dashboard.templating import release, render
from redraft.app.server.access.identity import CSRF, KEY, NOBODY, Identity
from redraft.app.server.api.answers import Released, beside
from redraft.app.server.gzip_stream import HEADER, accepts_gzip, compress_piece
from redraft.app.server.problems import Refused
from redraft.app.server.service import Service
from redraft.events.tokens import Scope

HTML: Final = "text/html"
LIVE: Final = "/live"
"""The prefix of the paths of live fragments; the path of their page follows it."""

RECONNECT: Final = 2_000
"""Milliseconds after which a page whose stream has ended calls again."""

_ALIVE: Final = b": alive\n\n"
_ALIVE_COMPRESSED: Final = compress_piece(_ALIVE)

EVERYTHING: Final = Subject()

T = TypeVar("T")

Make: TypeAlias = Callable[[], Awaitable[msgspec.Struct]]
"""Returns what a page shows, read now."""


@dataclass(frozen=True, slots=True)
class Visit:
    """Somebody's request for a page."""

    service: Service
    identity: Identity
    request: Request[Any, Any, Any]
    live: Broadcaster

    def may(self, scope: Scope) -> bool:
        """Returns whether who looks may do this here."""
        return self.identity.may(scope) and (scope == "read" or not self.service.read_only)

    @property
    def address(self) -> str:
        """The path and the query of the page, also where its fragment is asked for."""
        path, query = self.request.url.path, self.request.url.query
        return path.removeprefix(LIVE) + (f"?{query}" if query else "")

    def query(self, kind: type[T]) -> T:
        """Returns what the address selects; what is empty is left out. Raises Refused for what does not fit."""
        return read_query(self.request.query_params, kind)

    async def show(
        self,
        name: str,
        title: str,
        make: Make,
        subject: Subject | None = EVERYTHING,
        part: Make | None = None,
        *,
        own: bool = False,
    ) -> Response[Any] | Stream:
        """Answers with the page of the template `NAME.html`, or with its fragment, `NAME_live.html`, as it changes.

        `make` gives the value `view` of both, or `part` that of the fragment where it shows less. `subject` is what the
        fragment is about; None for a page without one. Each who looks has an `own` fragment, which knows their name.
        """
        if self.request.url.path.startswith(f"{LIVE}/"):
            return self._follow(
                f"{name}_live.html", part or make, subject or EVERYTHING, self.identity.name if own else ""
            )
        values = {"view": await make(), "title": title, "live": f"{LIVE}{self.address}" if subject else ""}
        return Response(await beside(lambda: self.render(f"{name}.html", **values)), media_type=HTML)

    def go(self, address: str) -> Response[Any]:
        """Answers with the way to another page of this server: to a form as to a link."""
        if self.request.headers.get("hx-request"):
            return Response("", headers={"HX-Redirect": address})
        return Redirect(address, status_code=303)

    def tell(self, template: str, status: int = 200, **values: object) -> Response[str]:
        """Answers a form with what this template shows, for the place that the form names."""
        return Response(self.render(template, **values), status_code=status, media_type=HTML)

    def render(self, template: str, **values: object) -> str:
        """Returns what a template shows; `may` is known to it, and on whole pages who looks."""
        facts = self.request.scope
        return render(
            template,
            may=self.may,
            identity=self.identity,
            who=self.identity.name,
            is_open=self.identity is NOBODY,
            read_only=self.service.read_only,
            csrf=cast("dict[str, str]", facts)[CSRF],
            path=self.address.partition("?")[0],
            left_since=self.service.runtime.keeping.left_since,
            **values,
        )

    def _follow(self, template: str, make: Make, subject: Subject, who: str) -> Stream:
        limit = self.service.settings.http.streams
        if self.service.readers.count >= limit:
            raise Refused(
                503, "streams", f"{limit} pages and readers are open already; come again", {"Retry-After": "5"}
            )
        headers = {"X-Accel-Buffering": "no", "Vary": "Accept-Encoding"}
        if is_compressed := accepts_gzip(self.request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
        stream = self._events(template, make, subject, who, is_compressed=is_compressed)
        return Stream(Released(stream), media_type="text/event-stream", headers=headers)

    async def _events(
        self, template: str, make: Make, subject: Subject, who: str, *, is_compressed: bool
    ) -> AsyncGenerator[bytes, None]:
        """Yields the fragment as server-sent events. What it shows depends on the address and on what one may do."""

        async def rendered() -> Callable[[], str]:
            return partial(self._fragment, template, await make(), who)

        scopes = " ".join(sorted(scope for scope in ("read", "submit", "operate", "admin") if self.may(scope)))
        seen = self.request.headers.get("last-event-id", "")
        with self.service.readers.one():
            opening = b"retry: %d\n\nevent: release\ndata: %b\n\n" % (RECONNECT, release().encode())
            yield HEADER + compress_piece(opening) if is_compressed else opening
            async with aclosing(self.live.watch(f"{self.address} {scopes} {who}", subject, rendered)) as fragments:
                async for fragment in fragments:
                    if fragment is None:
                        yield _ALIVE_COMPRESSED if is_compressed else _ALIVE
                    elif fragment.id != seen:
                        seen = fragment.id
                        yield fragment.compressed if is_compressed else fragment.event

    def _fragment(self, template: str, view: msgspec.Struct, who: str) -> str:
        """Returns a fragment, which many see: it knows what one may do, and nothing of who looks but this name."""
        left_since = self.service.runtime.keeping.left_since
        facts = {"may": self.may, "read_only": self.service.read_only, "left_since": left_since, "who": who}
        return render(template, view=view, **facts)


Visits = NamedDependency[SkipValidation[Visit]]
"""The visit, as a handler gets it."""


def page(path: str) -> Callable[[Any], HTTPRouteHandler]:
    """Declares a page: its handler answers at this path, and below `LIVE` with the fragment as it changes."""
    return get([path, f"{LIVE}{path}"])


def require_word(connection: ASGIConnection[Any, Any, Any, Any], given: str) -> None:
    """Raises Refused where this is not the word that pages of this session repeat."""
    word = cast("dict[str, str]", connection.scope)[CSRF]
    if not hmac.compare_digest(given.encode(), word.encode()):
        told = "this page is of an earlier session, or its scripts did not run; reload it, and do it again"
        raise Refused(403, "page", told)


def identity_in(request: Request[Any, Any, Any]) -> Identity:
    """Returns who asks, as the gate has found."""
    return cast("dict[str, Identity]", request.scope)[KEY]
