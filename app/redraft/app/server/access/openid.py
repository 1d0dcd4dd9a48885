"""Signing in by OpenID Connect: people by the authorization code flow with PKCE, programs by a JWT of the provider."""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec
from authlib.oidc.core import CodeIDToken
from joserfc.errors import JoseError
from joserfc.jwt import JWTClaimsRegistry

from redraft.app.server.access.identity import Identity
from redraft.app.server.access.provider import Provider, not_a_token
from redraft.app.server.problems import Refused
from redraft.app.settings.openid import OidcSettings
from redraft.app.settings.settings import Settings
from redraft.events.errors import InputError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LEEWAY: Final = 60
"""Seconds by which clocks may differ."""

_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f()<>]{1,128}")


class SignIn(msgspec.Struct, frozen=True):
    """A sign-in that was begun; it stays in the browser of who began it. `following` is the page to go on to."""

    state: str
    nonce: str
    verifier: str
    following: str


class OpenId:
    """Identifies people and programs by the provider of these settings."""

    def __init__(self, chosen: OidcSettings, provider: Provider, random: Callable[[int], bytes]) -> None:
        self.chosen = chosen
        self._provider = provider
        self._random = random

    async def begin(self, following: str) -> tuple[SignIn, str]:
        """Begins a sign-in; returns it, and the provider's address to go to. Raises Refused."""
        begun = SignIn(self._word(), self._word(), self._word(), following)
        address = await self._provider.address(state=begun.state, nonce=begun.nonce, verifier=begun.verifier)
        return begun, address

    async def end(self, begun: SignIn, state: str, code: str, issuer: str | None = None) -> Identity:
        """Returns who came back from the provider. Raises Refused, also for somebody who may do nothing here."""
        if not hmac.compare_digest(begun.state.encode(), state.encode()):
            raise Refused(400, "sign-in", "this is not the sign-in that this browser began last; begin again")
        if issuer is not None and issuer != self.chosen.issuer:
            raise Refused(400, "sign-in", "another provider answered than was asked; begin again")
        tokens = await self._provider.exchange(code, begun.verifier)
        read = await self._provider.read(tokens["id_token"])
        options: Any = {"iss": _must_be(self.chosen.issuer), "aud": _must_be(self.chosen.client_id)}
        params = {
            "nonce": begun.nonce,
            "client_id": self.chosen.client_id,
            "access_token": tokens.get("access_token", ""),
        }
        claims = CodeIDToken(read.claims, read.header, options, params)
        try:
            claims.validate(leeway=LEEWAY)
        except (JoseError, ValueError, TypeError) as error:
            raise not_a_token(error) from None
        return self._identity(read.claims)

    async def find(self, token: str) -> Identity | None:
        """Returns whom a program's token stands for; None for a text that is none. Raises Refused."""
        if not self.chosen.audience or not _JWT.fullmatch(token):
            return None
        read = await self._provider.read(token)
        needed: Any = {"iss": _must_be(self.chosen.issuer), "aud": _must_be(self.chosen.audience)}
        try:
            JWTClaimsRegistry(leeway=LEEWAY, exp={"essential": True}, sub={"essential": True}, **needed).validate(
                read.claims
            )
        except (JoseError, ValueError, TypeError) as error:
            raise not_a_token(error) from None
        return self._identity(read.claims)

    def _identity(self, claims: dict[str, Any]) -> Identity:
        """Returns who these claims are of. Raises Refused for a name that is none, and who may do nothing here."""
        chosen = self.chosen
        name = claims.get(chosen.name)
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not name.isprintable() or name != name.strip():
            raise Refused(403, "no-scope", f"the provider says no name in the claim {chosen.name!r}")
        if chosen.name == "email" and claims.get("email_verified") is not True:
            raise Refused(403, "no-scope", f"the provider has not verified that {name} is yours")
        scopes = chosen.granted(claims)
        if not scopes:
            told = f"{name} may do nothing here: no value of the claim {chosen.claim!r} is named in oidc.scopes"
            raise Refused(403, "no-scope", told)
        subject = sha256(f"{chosen.issuer}\n{claims['sub']}".encode()).hexdigest()[:16]
        return Identity(name, f"oidc {subject}", frozenset(scopes))

    def _word(self) -> str:
        return urlsafe_b64encode(self._random(32)).decode().rstrip("=")


@asynccontextmanager
async def opened_openid(
    settings: Settings, random: Callable[[int], bytes], log: FilteringBoundLogger
) -> AsyncIterator[OpenId]:
    """Yields what signs people in by the provider of the settings. Raises InputError for a secret that is not there."""
    assert settings.oidc is not None  # noqa: S101 - the caller has looked
    async with Provider(settings.oidc, _secret(settings, settings.oidc), log) as provider:
        yield OpenId(settings.oidc, provider, random)


def _secret(settings: Settings, chosen: OidcSettings) -> str:
    if chosen.client_secret_file is None:
        return settings.oidc_client_secret
    try:
        return chosen.client_secret_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        told = getattr(error, "strerror", None) or "it is no text"
        raise InputError(f"oidc.client_secret_file {chosen.client_secret_file} cannot be read: {told}") from None


def _must_be(value: str) -> dict[str, Any]:
    return {"essential": True, "value": value}
