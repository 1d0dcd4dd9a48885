"""The identity behind a request, the way in which it was established, and its scopes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast

import msgspec
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler
from litestar.params import SkipValidation

from redraft.actors.workflow.actor import ActorKey
from redraft.app.server.problems import Refused
from redraft.events.tokens import Scope, Token

KEY: Final = "redraft.identity"
"""The name of the identity among the facts of a request."""

CSRF: Final = "redraft.csrf"
"""The name of the word that a POST of a page has to repeat, among the facts of a request."""

_SIGNED: Final = re.compile(r".* \((token [0-9a-f]{8}|oidc [0-9a-f]{16}|not authenticated)\)")


class Identity(msgspec.Struct, frozen=True):
    """A name, how it was authenticated, the scopes that go with it, and the actors and roles that it may work for."""

    name: str
    how: str
    scopes: frozenset[Scope]
    actors: frozenset[str] = frozenset()

    @property
    def signature(self) -> str:
        """The name as events have it, with how it was authenticated: `ann (token 3f9a2c41)`."""
        return f"{self.name} ({self.how})"

    def may(self, scope: Scope) -> bool:
        """Returns whether this scope, or that of an administrator, is among its own."""
        return scope in self.scopes or "admin" in self.scopes

    def may_work_for(self, actor: ActorKey) -> bool:
        """Returns whether it may take the requests of an actor, and answer them."""
        return "admin" in self.scopes or actor[0] in self.actors or ".".join(actor) in self.actors


NOBODY: Final = Identity("somebody", "not authenticated", frozenset({"admin"}))
"""Whoever asks where no authentication is wanted: every user of this machine."""


UNKNOWN: Final = Identity("somebody", "not authenticated", frozenset())
"""A visitor who is not signed in, where authentication is required."""

STRANGER: Final = Identity("somebody", "by a link", frozenset())
"""A visitor with a link: the link alone grants rights."""


def identity_of(token: Token) -> Identity:
    """Returns who a token stands for."""
    return Identity(token.name, f"token {token.id}", frozenset(token.scopes), frozenset(token.actors))


def is_signed(actor: str) -> bool:
    """Returns whether this is the name of somebody who spoke to the HTTP API."""
    return _SIGNED.fullmatch(actor) is not None


class Provided(Protocol):
    """Another place that knows who asks than the store's tokens."""

    async def find(self, token: str) -> Identity | None:
        """Returns whom a token stands for; None for a text that is no token of that place. Raises Refused."""
        ...


Guard = Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], Awaitable[None]]
"""Lets nobody pass who may not. It is a coroutine, as the framework calls a plain function on a thread."""


Asks = NamedDependency[SkipValidation[Identity]]
"""The identity behind a request, as a parameter of handlers."""


def needs(scope: Scope) -> Guard:
    """Returns what lets nobody pass without this scope."""

    async def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        identity = cast("dict[str, Identity]", connection.scope)[KEY]
        if not identity.may(scope):
            known = ", ".join(sorted(identity.scopes)) or "none"
            raise Refused(403, "scope", f"this needs the scope {scope}; {identity.signature} has {known}")

    return guard
