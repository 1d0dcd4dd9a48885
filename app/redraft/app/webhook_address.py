"""Where a webhook may go: a public address, looked up once for each connection and then connected to by its number.

A name that means a public address when it is checked and a private one when it is connected to ("DNS rebinding") gains
nothing: there is only one look-up.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

import httpx

from redraft.events.errors import DeliveryError, InputError

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""IPv4 addresses as IPv6 networks write them, RFC 6052."""


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, and so is every other that is hidden in it."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None or address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if any(each is not None and not is_public(each) for each in (address.sixtofour, *(address.teredo or ()))):
            return False
        if address.scope_id is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved and not address.is_unspecified


def refuse_private(host: str) -> None:
    """Raises InputError for a number that is no public address. What a name means is looked up for each request."""
    try:
        address = ip_address(host)
    except ValueError:
        return
    if not is_public(address):
        raise InputError(f"{host} is no public address: events go there only with --allow-private")


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class CheckedTransport(httpx.AsyncBaseTransport):
    """Connects to checked addresses alone; TLS still verifies the name. `allow_private` lets every address pass."""

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        *,
        allow_private: bool = False,
        resolve: Resolve = resolve,
    ) -> None:
        self._inner = inner
        self._allow_private = allow_private
        self._resolve = resolve

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises DeliveryError for a host that is not found, or that has an address that is not public."""
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        address = await self._checked(host, port)
        request.headers["Host"] = request.url.netloc.decode("ascii")
        request.extensions = {**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")}
        request.url = request.url.copy_with(host=address)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _checked(self, host: str, port: int) -> str:
        try:
            found = await self._resolve(host, port)
        except OSError as error:
            raise DeliveryError(f"{host} is not found: {error.strerror or error}") from None
        refused = [] if self._allow_private else [each for each in found if not is_public(ip_address(each))]
        if refused or not found:
            raise DeliveryError(
                f"{host} has the address {refused[0] if refused else '(none)'}, which is not public: events go there "
                "only with --allow-private"
            )
        return found[0]
