"""Who makes a request, how that is known, and what they may do."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec

Scope: TypeAlias = Literal["read", "submit", "operate", "admin"]
"""`read` looks, `submit` begins runs, `operate` steers them and handles dead letters; `admin` may do everything."""

_SIGNED: Final = re.compile(r".* \((token [0-9a-f]{8}|not authenticated)\)")


class Identity(msgspec.Struct, frozen=True):
    """A name, how it was authenticated, and the scopes that go with it."""

    name: str
    how: str
    scopes: frozenset[Scope]

    @property
    def signature(self) -> str:
        """The name as events have it, with how it was authenticated: `ann (token 3f9a2c41)`."""
        return f"{self.name} ({self.how})"

    def may(self, scope: Scope) -> bool:
        """Returns whether this scope, or that of an administrator, is among its own."""
        return scope in self.scopes or "admin" in self.scopes


def is_signed(actor: str) -> bool:
    """Returns whether the HTTP API wrote this name into an event."""
    return _SIGNED.fullmatch(actor) is not None


NOBODY: Final = Identity("somebody", "not authenticated", frozenset({"admin"}))
"""Whoever asks where no authentication is wanted: every user of this machine."""
