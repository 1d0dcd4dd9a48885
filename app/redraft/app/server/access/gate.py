"""The checks before the application: host, origin, identity, rate, and the time that an answer may take."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from cachetools import TTLCache

from redraft.app.server.access.identity import CSRF, KEY, NOBODY, STRANGER, UNKNOWN, Identity, Provided, identity_of
from redraft.app.server.access.rates import Rates
from redraft.app.server.access.sessions import Sessions
from redraft.app.server.access.standing import Standing
from redraft.app.server.access.unread_body import RequestBody
from redraft.app.server.gzip_stream import compress_piece
from redraft.app.server.problems import MEDIA_TYPE, Refused, problem_of
from redraft.app.settings.openid import CALLBACK
from redraft.app.settings.settings import HttpSettings
from redraft.app.telemetry.propagation import below
from redraft.events.errors import InputError, RedraftError
from redraft.events.tokens import Tokens

TIMEOUT: Final = 30.0
"""Seconds that an answer may take to begin and to end; those that follow events or copy the log are left out."""

HEAD: Final = 32 * 1024
"""The most bytes of all headers of a request."""

STALLED: Final = 60.0
"""Seconds for which a reader may take nothing of what it is sent."""

LONG: Final = ("/api/v1/events", "/api/v1/archive", "/api/v1/requests/lease", "/live/")
NO_HEAD: Final = (*LONG, CALLBACK)
"""Paths without HEAD: their answers do not end soon, or are given once."""

LINKS: Final = "/links/"
"""The prefix of paths that contain a token; their handlers check it."""

OPEN: Final = frozenset({"/health"})
"""Paths that answer everybody, however often."""

REMEMBERED: Final = 0.4
"""Seconds for which a token is not looked up again, and after which an answer that goes on asks again who asked.

Both together are less than the second within which a token that was revoked is useless.
"""

HEADERS: Final = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"frame-ancestors 'none'",
    b"referrer-policy": b"same-origin",  # with no-referrer, browsers say Origin: null with what our own forms send
    b"x-content-type-options": b"nosniff",
}
"""The headers of each answer, also of one that tells what is wrong, unless it has its own."""

_Message: TypeAlias = MutableMapping[str, Any]
_Scope: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[Any]]
_Send: TypeAlias = Callable[[Any], Awaitable[None]]
Application: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach the address."""
    return host == "localhost" or _is_address(host, loopback=True)


def require_protected(chosen: HttpSettings, *, has_tokens: bool, has_provider: bool) -> None:
    """Raises InputError for an address that other machines reach, without authentication or without TLS."""
    if has_provider and chosen.authentication == "none":
        raise InputError("authentication is none, and a provider is set in oidc; leave one of them out")
    if is_loopback(chosen.host):
        return
    reached = f"--host {chosen.host} is reached from other machines"
    if chosen.tls_cert is None and not chosen.behind_proxy:
        raise InputError(f"{reached}: give --tls-cert and --tls-key, or --behind-proxy where a proxy speaks TLS")
    if chosen.authentication == "none":
        raise InputError(f"{reached}: authentication none is for this machine alone; set it to token")
    if not has_tokens and not has_provider:
        raise InputError(f"{reached}, and there is no token yet: make one with redraft token create NAME --scope read")


class _Sending:
    """Sends an answer, and knows for how long its reader has taken nothing of it.

    One to a request whose body was not read is whole at once, and ends, with its connection, in `close`.
    """

    def __init__(self, send: _Send, body: RequestBody) -> None:
        self._send = send
        self._body = body
        self._is_last = False
        self._is_held = False
        self.begun = False
        self._streams = False
        self._is_compressed = False
        self._since: float | None = None

    async def send(self, message: _Message) -> None:
        self.begun = True
        if message["type"] == "http.response.start":
            own = dict(message["headers"])
            self._streams = own.get(b"content-type", b"").startswith(b"text/event-stream")
            self._is_compressed = own.get(b"content-encoding") == b"gzip"
            added = [(name, value) for name, value in HEADERS.items() if name not in own]
            self._is_last = self._body.is_unread
            closing = [(b"connection", b"close")] if self._is_last else []
            message = {**message, "headers": [*message["headers"], *added, *closing]}
        elif self._is_last and not message.get("more_body"):
            self._is_held = True
            message = {**message, "more_body": True}
        self._since = time.monotonic()
        await self._send(message)
        self._since = None

    async def close(self) -> None:
        """Ends an answer that was sent to somebody who is still sending, once they are done, within bounds."""
        if self._is_held:
            await self._body.discard()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    @property
    def is_stalled(self) -> bool:
        """Whether the reader has taken nothing for too long."""
        return self._since is not None and time.monotonic() - self._since >= STALLED

    async def end(self, error: Refused) -> None:
        """Ends a stream of events with the error as its last event; any other answer is cut off."""
        if self._streams:
            told = b"event: error\ndata: %b\n\n" % msgspec.json.encode(error.problem)
            body = compress_piece(told) if self._is_compressed else told
            with suppress(TimeoutError):
                async with asyncio.timeout(STALLED):
                    await self.send({"type": "http.response.body", "body": body, "more_body": False})


class Gate:
    """Answers what may not pass with a problem, and passes everything else on, with who asks."""

    def __init__(
        self,
        app: Application,
        chosen: HttpSettings,
        tokens: Tokens | None,
        sessions: Sessions,
        provider: Provided | None = None,
    ) -> None:
        self._app = app
        self._chosen = chosen
        self._tokens = tokens
        self._provider = provider
        self._sessions = sessions
        self._hosts = frozenset({"localhost", chosen.host.lower(), *(each.lower() for each in chosen.hosts)})
        self._rates = Rates(chosen.requests_per_minute)
        self._known: TTLCache[str, Identity] = TTLCache(1_000, REMEMBERED)
        self._wanted: TTLCache[str, bool] = TTLCache(1, REMEMBERED)
        self._standing = Standing(REMEMBERED)

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and not scope["path"].startswith(NO_HEAD):
            scope = {**scope, "method": "GET"}  # what sends it leaves its body out
        body = RequestBody(scope["headers"], receive)
        sending = _Sending(send, body)
        await self._answer(scope, body.receive, sending)
        await sending.close()

    async def _answer(self, scope: _Scope, receive: _Receive, sending: _Sending) -> None:
        try:
            await self._admit(scope)
            if scope["path"].startswith(LONG):
                await self._answer_known(scope, receive, sending)
                return
            async with asyncio.timeout(TIMEOUT):
                with below(_headers(scope).get("traceparent", "")):
                    await self._app(scope, receive, sending.send)
        except (Refused, RedraftError, TimeoutError) as error:
            if not sending.begun:
                await _send_problem(sending.send, error)
            elif isinstance(error, Refused):
                await sending.end(error)

    async def _answer_known(self, scope: _Scope, receive: _Receive, sending: _Sending) -> None:
        """Answers for as long as who asks may, and reads. Raises Refused once the token was revoked or has ended, and
        TimeoutError for a reader that takes nothing.
        """
        headers = _headers(scope)
        who = _is_api(scope["path"]), headers.get("authorization"), headers.get("cookie")
        answering = asyncio.ensure_future(self._app(scope, receive, sending.send))
        with self._standing.of(who, lambda: self._identify(scope)) as refused:
            try:
                while not answering.done():
                    await asyncio.wait({answering, refused}, timeout=STALLED / 4, return_when=asyncio.FIRST_COMPLETED)
                    if refused.done() and not answering.done():
                        raise refused.result()
                    if sending.is_stalled:
                        raise TimeoutError
            finally:
                answering.cancel()
                await asyncio.wait({answering})
        answering.result()

    async def _admit(self, scope: _Scope) -> None:
        """Notes who asks. Raises Refused for what may not pass."""
        headers = _headers(scope)
        scope[CSRF] = self._sessions.csrf
        if sum(len(name) + len(value) for name, value in scope["headers"]) > HEAD:
            raise Refused(431, "head", f"the headers have more than {HEAD:,} bytes; send fewer")
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise Refused(400, "parameters", "the address holds a zero byte; leave it out")
        self._check_host(headers)
        _check_origin(scope["method"], headers)
        if scope["path"] in OPEN:
            scope[KEY] = NOBODY
            return
        client = scope.get("client")
        identity = await self._identify_visitor(scope)
        known = identity not in (NOBODY, STRANGER, UNKNOWN)
        who = identity.how if known else client[0] if client else ""
        if wait := self._rates.wait(who, time.monotonic()):
            again = {"Retry-After": str(math.ceil(wait))}
            raise Refused(429, "rate", f"too many requests; the next in {math.ceil(wait)} s", again)
        scope[KEY] = identity

    def _check_host(self, headers: dict[str, str]) -> None:
        """Raises Refused for a name that is not this server's: a page of another site may have bent its own to it."""
        host = _host_name(headers.get("host", ""))
        if host not in self._hosts and not _is_address(host):
            raise Refused(421, "host", f"this server is not {host!r}; name it in the setting http.hosts")

    async def _identify_visitor(self, scope: _Scope) -> Identity:
        """Returns who asks, who may have yet to sign in where it is for a page. Raises Refused."""
        if scope["path"].startswith(LINKS):
            return STRANGER
        try:
            return await self._identify(scope)
        except Refused:
            if _is_api(scope["path"]):
                raise
            return UNKNOWN

    async def _identify(self, scope: _Scope) -> Identity:
        """Returns who asks. Raises Refused when that has to be known, and is not.

        Pages may be asked for by a cookie too, whose session says what their POSTs have to repeat.
        """
        headers = _headers(scope)
        kind, _, text = headers.get("authorization", "").partition(" ")
        given = text.strip() if kind.lower() == "bearer" else ""
        session = None if _is_api(scope["path"]) else self._sessions.find(headers.get("cookie", ""))
        scope[CSRF] = session.csrf if session else self._sessions.csrf
        if session is not None and session.identity is not None and not given:
            return session.identity
        given = given or (session.token if session else "")
        if (known := self._known.get(given)) is not None:
            return known
        if given and (found := await self._find(given)) is not None:
            self._known[given] = found
            return found
        if given or await self._is_wanted():
            wrong = "this token is not known, or it has ended" if given else "say who you are: Authorization: Bearer …"
            remedy = "`redraft token create NAME --scope read` makes one"
            raise Refused(401, "authentication", f"{wrong}; {remedy}", {"WWW-Authenticate": "Bearer"})
        return NOBODY

    async def _find(self, given: str) -> Identity | None:
        """Returns whom a token stands for: one of the store, or one of the provider. Raises Refused."""
        if self._tokens is not None and (token := await self._tokens.find(given)) is not None:
            return identity_of(token)
        return None if self._provider is None else await self._provider.find(given)

    async def _is_wanted(self) -> bool:
        """Returns whether it has to be known who asks: by the settings, or as soon as there is a token."""
        chosen = self._chosen
        if self._provider is not None:
            return True
        if chosen.authentication != "auto" or not is_loopback(chosen.host):
            return chosen.authentication != "none"
        if (known := self._wanted.get("any")) is not None:
            return known
        found = self._wanted["any"] = self._tokens is not None and any(each.scopes for each in await self._tokens.all())
        return found


def _is_api(path: str) -> bool:
    """Returns whether programs call this path, with a token each time; all others are pages."""
    return path.startswith("/api/")


def _headers(scope: _Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _check_origin(method: str, headers: dict[str, str]) -> None:
    """Raises Refused for a request that a page of another site makes."""
    origin = headers.get("origin")
    foreign = origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    if foreign or (method not in _SAFE and headers.get("sec-fetch-site", "none") not in ("none", "same-origin")):
        raise Refused(403, "origin", f"pages of {origin or 'another site'} may not speak to this server")


def _host_name(host: str) -> str:
    """Returns a host without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(host: str, *, loopback: bool = False) -> bool:
    try:
        found = ip_address(host.strip("[]"))
    except ValueError:
        return False
    return found.is_loopback if loopback else True


async def _send_problem(send: _Send, error: Exception) -> None:
    found = problem_of(error)
    assert found is not None  # noqa: S101 - only such errors come here
    body = msgspec.json.encode(found)
    named = {"Content-Type": MEDIA_TYPE, "Content-Length": str(len(body))}
    if isinstance(error, Refused):
        named |= error.headers
    headers = [(name.lower().encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": found.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
