"""Sessions of people who look at pages: who has signed in once is known by a cookie, until a token or a time ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final

import msgspec
from cachetools import TTLCache

from redraft.app.server.access.identity import Identity
from redraft.events.tokens import Tokens

SIGN_IN_COOKIE: Final = "redraft_sign_in"
LASTS: Final = 12 * 60 * 60
"""Seconds after which somebody has to sign in again."""

MOST: Final = 1_000
"""The most sessions; the oldest end first."""


class Session(msgspec.Struct, frozen=True):
    """A session: the text of its token, and the word that each of its POSTs has to repeat.

    Where a provider said who it is, there is no token but an `identity`, until `ends` (by the monotonic clock).
    """

    token: str
    csrf: str
    identity: Identity | None = None
    ends: float = 0.0


class Sessions:
    """The sessions of a server, in memory: they end with its process. `random` returns so many random bytes.

    `csrf` is the word for POSTs where no session is needed. `cookie` is the name of its cookie, which has the server's
    port: browsers keep one cookie of a name for all ports of a host.
    """

    def __init__(self, tokens: Tokens | None, random: Callable[[int], bytes], port: int) -> None:
        self._tokens = tokens
        self._random = random
        self.cookie = f"redraft_session_{port}"
        self._known: TTLCache[bytes, Session] = TTLCache(MOST, LASTS)
        self.csrf = random(32).hex()

    async def begin(self, token: str) -> str | None:
        """Begins a session; returns what its cookie holds, or None for a token that may not be used."""
        if self._tokens is None or await self._tokens.find(token) is None:
            return None
        return self._keep(Session(token, self._random(32).hex()))

    def begin_as(self, identity: Identity, seconds: float) -> str:
        """Begins a session of somebody whom a provider knows, for so many seconds; returns what its cookie holds."""
        return self._keep(Session("", self._random(32).hex(), identity, time.monotonic() + seconds))

    def _keep(self, session: Session) -> str:
        secret = self._random(32).hex()
        self._known[_key(secret)] = session
        return secret

    def end(self, cookies: str) -> None:
        """Ends the session that a header `Cookie` names, if any."""
        self._known.pop(_key(self._secret(cookies)), None)

    def find(self, cookies: str) -> Session | None:
        """Returns the session that a header `Cookie` names; None when there is none."""
        found = self._known.get(_key(self._secret(cookies)))
        return None if found is not None and found.identity and time.monotonic() >= found.ends else found

    def _secret(self, cookies: str) -> str:
        try:
            found = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found else ""


def _key(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
