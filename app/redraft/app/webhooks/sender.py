"""A webhook: each event as an HTTP POST, signed, to one URL.

The body is a CloudEvent in JSON (https://github.com/cloudevents/spec, "structured mode"), with the same attributes as
on the broker. The event's id is the header `webhook-id`, and `Idempotency-Key`: the same however often it is sent. What
no header can hold is percent-encoded in both (section 3.1.3.2 of the CloudEvents binding for HTTP).
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import quote

import httpx
import msgspec
import standardwebhooks

from redraft.events.errors import DeliveryError, InputError
from redraft.events.messages.envelope import Recorded
from redraft.events.messages.event_names import EVENT_NAMES
from redraft.events.messages.filters import RunFacts

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""IPv4 addresses as IPv6 networks write them, RFC 6052."""


def is_public(address: Address) -> bool:
    """Returns whether an address is one of the public internet, and so is every other that is hidden in it."""
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
        raise InputError(f"{host} is not a public address: events go there only with --allow-private")


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
        address = await self._check_host(host, port)
        request.headers["Host"] = request.url.netloc.decode("ascii")
        request.extensions = {**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")}
        request.url = request.url.copy_with(host=address)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _check_host(self, host: str, port: int) -> str:
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


PREFIX: Final = "whsec_"
"""The prefix of a secret, behind which it is in base64, as Standard Webhooks write it; it may be left out."""

LEAST_BYTES: Final = 24
"""The shortest secret that Standard Webhooks allow."""

MAKE_ONE: Final = "whsec_$(openssl rand -base64 32)"
"""How a shell makes a secret."""


def read_secrets(text: str, where: str) -> tuple[bytes, ...]:
    """Returns one secret or, while an old one is replaced, several with blanks between them, the new one first.

    Raises InputError, which names `where` it came from and never says what it is.
    """
    return tuple(_secret(word, where) for word in text.split() or [""])


def sign(secrets: Sequence[bytes], message: str, timestamp: int, body: bytes) -> str:
    """Returns the value of the header `webhook-signature`: a signature for each secret, with blanks between them."""
    time, data = datetime.fromtimestamp(timestamp, UTC), body.decode()
    return " ".join(standardwebhooks.Webhook(secret).sign(message, time, data) for secret in secrets)


def _secret(word: str, where: str) -> bytes:
    try:
        raw = base64.b64decode(word.removeprefix(PREFIX), validate=True)
    except ValueError:
        raise InputError(f"{where} is not base64, so no receiver could verify it; make one with `{MAKE_ONE}`") from None
    if len(raw) < LEAST_BYTES:
        raise InputError(
            f"{where} is too short: Standard Webhooks ask for {LEAST_BYTES} bytes or more; make one with `{MAKE_ONE}`"
        )
    return raw


TIMEOUT: Final = 30.0
"""Seconds that one request may take, from the look-up of the name to the end of the answer."""

CONTENT_TYPE: Final = "application/cloudevents+json"
_LONGEST_ANSWER: Final = 64 * 1024
_PLAIN: Final = "".join(map(chr, range(0x21, 0x7F))).translate(str.maketrans("", "", '"%'))
"""The characters that `header_value` does not encode: visible ASCII without the quotation mark and the percent sign."""


class Webhook:
    """Sends events. Made by `open_webhook`; call it with an event."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: httpx.URL,
        secrets: Sequence[bytes],
        about: Callable[[str], Awaitable[RunFacts]],
        timeout: float,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._url = url
        self._secrets = secrets
        self._about = about
        self._timeout = timeout
        self._clock = clock

    async def __call__(self, event: Recorded) -> None:
        """Sends the event; returns when the receiver has answered with a status of 2xx.

        Raises DeliveryError otherwise, with what the receiver says of when to try again.
        """
        body = cloud_event(event, await self._about(event.run))
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._sent(header_value(event.id), body)
        except TimeoutError:
            raise DeliveryError(f"{self._url.host} did not answer within {self._timeout:g} s") from None
        except httpx.HTTPError as error:
            raise DeliveryError(f"{self._url.host} cannot be reached: {_error_message(error)}") from None
        if not answer.is_success:
            raise DeliveryError(f"{self._url.host} answered {_status(answer)}", retry_after=_retry_after(answer))

    async def _sent(self, message: str, body: bytes) -> httpx.Response:
        """The answer, without more of its body than is good for keeping the connection."""
        request = self._client.build_request("POST", self._url, content=body, headers=self._headers(message, body))
        answer = await self._client.send(request, stream=True)
        try:
            size = 0
            async for part in answer.aiter_raw():
                size += len(part)
                if size > _LONGEST_ANSWER:
                    break
        finally:
            await answer.aclose()
        return answer

    def _headers(self, message: str, body: bytes) -> dict[str, str]:
        now = int(self._clock())
        headers = {
            "Content-Type": CONTENT_TYPE,
            "webhook-id": message,
            "webhook-timestamp": str(now),
            "Idempotency-Key": message,
        }
        if self._secrets:
            headers["webhook-signature"] = sign(self._secrets, message, now, body)
        return headers


def header_value(text: str) -> str:
    """Returns a text as a header holds it: a space, `"`, `%`, and all but visible ASCII percent-encoded, as UTF-8."""
    return quote(text, safe=_PLAIN)


@asynccontextmanager
async def open_webhook(
    url: str,
    secrets: Sequence[bytes],
    about: Callable[[str], Awaitable[RunFacts]],
    *,
    allow_private: bool = False,
    timeout: float = TIMEOUT,
    clock: Callable[[], float] = time.time,
    resolve: Resolve = resolve,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Webhook]:
    """A webhook to a URL; `about` says what a run is. It follows no redirects, and uses no proxy of the environment.

    `tls` stands in for the certificates that the system trusts. Raises InputError for a URL that cannot be used.
    """
    there = check_url(url)
    inner = httpx.AsyncHTTPTransport(verify=tls or ssl.create_default_context(), trust_env=False)
    transport = CheckedTransport(inner, allow_private=allow_private, resolve=resolve)
    headers = {"User-Agent": f"redraft/{version('redraft')}"}
    async with httpx.AsyncClient(
        transport=transport, headers=headers, timeout=timeout, follow_redirects=False, trust_env=False
    ) as client:
        yield Webhook(client, there, secrets, about, timeout, clock)


def check_url(url: str) -> httpx.URL:
    """The URL. Raises InputError, which does not repeat it: it may hold a secret."""
    try:
        there = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):  # whose words may hold a part of a password
        raise InputError("the URL of the webhook is not understood; give https://host/path") from None
    if there.scheme not in ("https", "http") or not there.host:
        raise InputError("the URL of the webhook is not understood; give https://host/path")
    if there.userinfo:
        raise InputError("the URL of the webhook holds a user or password; leave it out, and sign with --secret-env")
    if there.port is not None and "@" in url:
        raise InputError("the URL of the webhook has an @ behind its port; leave a password out, or write %40 for @")
    return there


def place_of(url: httpx.URL) -> str:
    """Returns the webhook's name for lists and logs: no path and no query, for those may hold a secret."""
    return f"webhook {url.scheme}://{url.netloc.decode('ascii')}"


def cloud_event(event: Recorded, run: RunFacts) -> bytes:
    """An event as a CloudEvent in JSON. What is empty is left out."""
    attributes = {
        "specversion": "1.0",
        "id": event.id,
        "source": f"/redraft/{quote(event.actor, safe='')}",
        "type": EVENT_NAMES[type(event.data)],
        "subject": event.run,
        "time": event.time,
        "datacontenttype": "application/json",
        "causationid": event.causation,
        "correlationid": event.correlation,
        "traceparent": event.trace,
        "workflow": run.workflow,
        "tags": " ".join(run.tags),
        "position": event.position,
        "version": event.version,
        "hash": event.hash,
        "previoushash": event.previous,
        "repeats": event.repeats,
    }
    present = {name: value for name, value in attributes.items() if value}
    return msgspec.json.encode({**present, "data": event.data})


def _status(answer: httpx.Response) -> str:
    status = f"{answer.status_code} {answer.reason_phrase}".strip()
    if answer.has_redirect_location:
        return f"{status}: redirects are not followed; name the URL that it moved to"
    return status


def _retry_after(answer: httpx.Response) -> float | None:
    """Seconds, from either form of the header `Retry-After` (RFC 9110, section 10.2.3)."""
    text = answer.headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _error_message(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
