"""The settings of a sign-in by OpenID Connect: whom to trust, what they call people, and what those may do."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

Granted: TypeAlias = Literal["read", "submit", "operate", "admin"]
"""The scopes that a provider's values may stand for."""

CALLBACK: Final = "/oidc/callback"
"""The path to which the provider sends people back."""

_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=2_000)]


class OidcSettings(BaseModel):
    """A sign-in by a provider that speaks OpenID Connect.

    `issuer` is the provider's address, as its tokens have it; `client_id` is what this server is called there, and
    `url` the address by which people reach this server. `client_secret_file` has the secret, if it is not in the
    setting `oidc_client_secret`; without one the server is a public client.
    `scopes` says what each value of the `claim` may do (a path such as `realm_access.roles` leads into it); `name` is
    the claim whose value the record has. `request` are the scopes that the provider is asked for. `audience` is that of
    tokens by which programs call the API; without it none are taken. A session lasts for `session` seconds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    issuer: _Text
    client_id: _Text
    url: _Text
    client_secret_file: Path | None = None
    scopes: dict[str, tuple[Granted, ...]]
    claim: _Text = "groups"
    name: _Text = "preferred_username"
    request: tuple[str, ...] = ("openid", "profile", "email")
    audience: str = ""
    session: Annotated[int, Field(ge=60, le=12 * 60 * 60)] = 8 * 60 * 60
    label: Annotated[str, Field(min_length=1, max_length=100)] = "your organisation"

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, address in (("issuer", self.issuer), ("url", self.url)):
            if not is_safe(address):
                raise ValueError(f"{name} has to begin with https:// (http:// on this machine alone)")
        if self.audience == self.client_id:
            raise ValueError("audience is the client_id: then a program could sign in with a person's ID token")
        if "openid" not in self.request:
            raise ValueError("request has to hold openid")
        return self

    @property
    def callback(self) -> str:
        """The address to which the provider sends people back; it has to be registered there."""
        return self.url.rstrip("/") + CALLBACK

    def values_in(self, claims: dict[str, Any]) -> tuple[str, ...]:
        """Returns the values of the claim: of this very name, or at the path that it is."""
        found: Any = claims.get(self.claim)
        if found is None:
            found = claims
            for part in self.claim.split("."):
                found = found.get(part) if isinstance(found, dict) else None
        values = found if isinstance(found, list) else [found]
        return tuple(each for each in values if isinstance(each, str))

    def granted(self, claims: dict[str, Any]) -> frozenset[Granted]:
        """Returns the scopes that these claims stand for."""
        return frozenset(scope for value in self.values_in(claims) for scope in self.scopes.get(value, ()))


def is_safe(address: str) -> bool:
    """Returns whether nobody on the way can read or change what is sent to this address."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not host or parts.username is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(host))


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
