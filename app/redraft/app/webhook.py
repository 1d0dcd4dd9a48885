"""A webhook: each event as an HTTP POST, signed, to one URL.

The body is a CloudEvent in JSON (https://github.com/cloudevents/spec, "structured mode"), with the same attributes as
on the broker. The event's id is the header `webhook-id`, and `Idempotency-Key`: the same however often it is sent.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Final
from urllib.parse import quote

import httpx
import msgspec

from redraft.app.webhook_address import CheckedTransport, Resolve, resolve
from redraft.app.webhook_signature import sign
from redraft.events.domain_events import EVENT_NAMES
from redraft.events.envelope import Recorded
from redraft.events.errors import DeliveryError, InputError
from redraft.events.filters import About

TIMEOUT: Final = 30.0
"""Seconds that one request may take, from the look-up of the name to the end of the answer."""

CONTENT_TYPE: Final = "application/cloudevents+json"
_LONGEST_ANSWER: Final = 64 * 1024


class Webhook:
    """Sends events. Made by `open_webhook`; call it with an event."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        url: httpx.URL,
        secrets: Sequence[bytes],
        about: Callable[[str], Awaitable[About]],
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
                answer = await self._sent(event.id, body)
        except TimeoutError:
            raise DeliveryError(f"{self._url.host} did not answer within {self._timeout:g} s") from None
        except httpx.HTTPError as error:
            raise DeliveryError(f"{self._url.host} cannot be reached: {_said(error)}") from None
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


@asynccontextmanager
async def open_webhook(
    url: str,
    secrets: Sequence[bytes],
    about: Callable[[str], Awaitable[About]],
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
    there = checked_url(url)
    inner = httpx.AsyncHTTPTransport(verify=tls or ssl.create_default_context(), trust_env=False)
    transport = CheckedTransport(inner, allow_private=allow_private, resolve=resolve)
    headers = {"User-Agent": f"redraft/{version('redraft')}"}
    async with httpx.AsyncClient(
        transport=transport, headers=headers, timeout=timeout, follow_redirects=False, trust_env=False
    ) as client:
        yield Webhook(client, there, secrets, about, timeout, clock)


def checked_url(url: str) -> httpx.URL:
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
    """What the webhook is called in lists and logs: no path and no query, for those may hold a secret."""
    return f"webhook {url.scheme}://{url.netloc.decode('ascii')}"


def cloud_event(event: Recorded, run: About) -> bytes:
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
    told = {name: value for name, value in attributes.items() if value}
    return msgspec.json.encode({**told, "data": event.data})


def _status(answer: httpx.Response) -> str:
    told = f"{answer.status_code} {answer.reason_phrase}".strip()
    if answer.has_redirect_location:
        return f"{told}: redirects are not followed; name the URL that it moved to"
    return told


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


def _said(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
