"""A provider of OpenID Connect: what it says of itself, its keys, and the tokens that it has signed.

It is asked over the network, so each answer of it is checked, and each question has a deadline.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import httpx2
import msgspec
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from redraft.app.server.problems import Refused
from redraft.app.settings.openid import OidcSettings, is_safe
from redraft.events.messages.codec import UNREADABLE

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
"""The signatures that are taken: those that only the provider can make, and everybody can check."""

PATIENCE: Final = 10.0
"""Seconds for an answer of the provider."""

FRESH: Final = 600.0
"""Seconds after which its keys are asked for again: one that it has taken back is useless by then."""

KEPT: Final = 3_600.0
"""Seconds for which the keys count that it gave last, while it does not answer."""

PAUSE: Final = 10.0
"""Seconds between two questions for keys, however many tokens name one that is not known."""

_T = TypeVar("_T")


class Metadata(msgspec.Struct, frozen=True):
    """A provider's description of itself (OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Provider:
    """The provider of these settings. It is asked when something is wanted of it, not before."""

    def __init__(self, chosen: OidcSettings, secret: str, log: FilteringBoundLogger) -> None:
        self._chosen = chosen
        self._secret = secret
        self._log = log
        self._lock = asyncio.Lock()
        self._metadata: Metadata | None = None
        self._keys: KeySet | None = None
        self._known = self._asked = -KEPT
        self._client = self._new_client(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._client.aclose()

    async def address(self, *, state: str, nonce: str, verifier: str) -> str:
        """Returns the address of the provider where somebody says who they are. Raises Refused (502, 503)."""
        found = await self._describe()
        client = self._new_client(found)
        async with client:
            made, _ = client.create_authorization_url(
                found.authorization_endpoint, state=state, nonce=nonce, code_verifier=verifier
            )
        return str(made)

    async def exchange(self, code: str, verifier: str) -> dict[str, str]:
        """Returns the tokens for a code. Raises Refused: 401 for a code that is none, 502 and 503 for the provider."""
        found = await self._describe()
        async with self._new_client(found) as client:
            try:
                async with asyncio.timeout(PATIENCE):
                    given = await client.fetch_token(found.token_endpoint, code=code, code_verifier=verifier)
            except OAuthError as error:
                told = f"{self._chosen.issuer} did not take this sign-in ({str(error.error)[:100]}); begin again"
                raise Refused(401, "authentication", told) from None
            except (httpx2.HTTPError, TimeoutError, ValueError) as error:
                raise self._trouble(error) from None
        if not isinstance(given.get("id_token"), str):
            raise self._nonsense("it gave no ID token")
        return {name: text for name, text in given.items() if isinstance(text, str)}

    async def read(self, token: str) -> jwt.Token:
        """Returns what a token says that the provider has signed. Raises Refused: 401 for any other, 502 and 503."""
        keys = await self._current_keys()
        try:
            try:
                return jwt.decode(token, keys, algorithms=ALGORITHMS)
            except InvalidKeyIdError:
                return jwt.decode(token, await self._current_keys(unknown=True), algorithms=ALGORITHMS)
        except (JoseError, ValueError) as error:
            raise not_a_token(error) from None

    async def _current_keys(self, *, unknown: bool = False) -> KeySet:
        """Returns the keys; asks for them when those at hand are old, or (`unknown`) miss one, but not too often.

        While they are asked for, those at hand count: tokens of unknown keys, which anybody can send, delay no other.
        """
        if self._keys is not None and not unknown and self._lock.locked() and time.monotonic() - self._known <= KEPT:
            return self._keys
        async with self._lock:
            now = time.monotonic()
            wanted = unknown or now - self._known > FRESH
            if wanted and now - self._asked > PAUSE:
                await self._ask_keys(now)
            if self._keys is None or now - self._known > KEPT:
                raise self._away()
            return self._keys

    async def _ask_keys(self, now: float) -> None:
        """Asks for the keys. When the provider does not answer, those at hand go on to count for a while."""
        self._asked = now
        try:
            found = await self._describe(again=True)
            self._keys = KeySet.import_key_set(await self._get(found.jwks_uri, dict[str, Any]))  # type: ignore[arg-type] # checked there
        except Refused:
            if self._keys is None:
                raise
            return
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise self._nonsense(f"its keys cannot be read: {type(error).__name__}") from None
        self._known = now

    async def _describe(self, *, again: bool = False) -> Metadata:
        """Returns what the provider says of itself, asked for once, and again with its keys."""
        if self._metadata is None or again:
            address = self._chosen.issuer.rstrip("/") + "/.well-known/openid-configuration"
            found = await self._get(address, Metadata)
            if found.issuer != self._chosen.issuer:
                raise self._nonsense(f"it calls itself {found.issuer[:200]!r}")
            addresses = found.authorization_endpoint, found.token_endpoint, found.jwks_uri
            if wrong := [each for each in addresses if not is_safe(each)]:
                raise self._nonsense(f"it names the address {wrong[0][:200]!r}, which is not https")
            self._metadata = found
        return self._metadata

    async def _get(self, address: str, kind: type[_T]) -> _T:
        try:
            async with asyncio.timeout(PATIENCE):
                answered = await self._client.request("GET", address, withhold_token=True)
                answered.raise_for_status()
            return msgspec.json.decode(answered.content, type=kind)
        except UNREADABLE:
            raise self._nonsense(f"what it says at {address} cannot be read") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise self._trouble(error) from None

    def _new_client(self, found: Metadata | None) -> AsyncOAuth2Client:
        chosen = self._chosen
        return AsyncOAuth2Client(
            chosen.client_id,
            self._secret or None,
            token_endpoint_auth_method=_method(found, self._secret),
            scope=" ".join(chosen.request),
            redirect_uri=chosen.callback,
            code_challenge_method="S256",
            timeout=PATIENCE,
            follow_redirects=False,
        )

    def _trouble(self, error: Exception) -> Refused:
        self._log.warning("provider failed", issuer=self._chosen.issuer, error=str(error) or type(error).__name__)
        return self._away()

    def _away(self) -> Refused:
        told = f"{self._chosen.issuer} does not answer; sign in again in a while, or with a token of Redraft"
        return Refused(503, "provider", told, {"Retry-After": "10"})

    def _nonsense(self, what: str) -> Refused:
        self._log.warning("provider failed", issuer=self._chosen.issuer, error=what)
        return Refused(502, "provider", f"{self._chosen.issuer} cannot be used: {what}; tell who runs this server")


def not_a_token(error: Exception) -> Refused:
    """Returns the problem of a token that does not count; `error` says why, and nothing of what it holds."""
    why = error.error if isinstance(error, JoseError) else "malformed"
    told = f"this token of the provider does not count ({why or type(error).__name__})"
    return Refused(401, "authentication", told, {"WWW-Authenticate": 'Bearer error="invalid_token"'})


def _method(found: Metadata | None, secret: str) -> str:
    """Returns how the server says at the token endpoint who it is."""
    if not secret:
        return "none"
    is_basic = found is None or "client_secret_basic" in found.token_endpoint_auth_methods_supported
    return "client_secret_basic" if is_basic else "client_secret_post"
