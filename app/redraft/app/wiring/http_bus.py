"""The bus of a worker whom no broker reaches: it leases requests from `redraft serve`, and answers them, by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import httpx
import msgspec

from redraft.app.process.lifecycle import together
from redraft.events.bus.port import INBOX, LARGEST_BODY, LARGEST_REQUEST, BusMessage, Consumer, DeadLetter, Delivery, T
from redraft.events.errors import BusError, CodecError, InputError
from redraft.events.messages.codec import UNREADABLE
from redraft.events.rabbit.structured_events import read_structured, structured

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

WAIT: Final = 20.0
"""Seconds for which the server holds back its answer while no request is there."""

SECONDS: Final = 60.0
"""Seconds for which a request is leased."""

EXTENDED: Final = 10.0
"""Seconds after which leases are extended, and the server says whose run was cancelled."""

AGAIN: Final = 1.0
"""Seconds between two attempts to reach the server, at first; twice as long each time, up to `SELDOM`."""

SELDOM: Final = 15.0

_API: Final = "/api/v1"
_LATER: Final = frozenset({429, 500, 502, 503, 504})
_OVER: Final = frozenset({404, 409})


class _Leased(msgspec.Struct, frozen=True):
    lease: str
    delivery: int
    command: msgspec.Raw


class _Extended(msgspec.Struct, frozen=True):
    cancelled: bool = False


class HttpBus:
    """Takes requests from a server at `url`, with a token. It has no dead letters, and publishes answers alone.

    While the server is away, or a proxy answers in its place, it waits, for as long as that takes. Raises InputError
    when the server does not let this worker in. `log` is told when the server is away, and of answers that it refuses.
    """

    largest = LARGEST_BODY
    largest_request = LARGEST_REQUEST

    def __init__(self, client: httpx.AsyncClient, log: FilteringBoundLogger) -> None:
        self._client = client
        self._log = log
        self._leases: dict[str, str] = {}
        self._away = False
        self._cancelled: asyncio.Queue[str] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connections to the server."""
        await self._client.aclose()

    @asynccontextmanager
    async def consume(self, queue: str, prefetch: int) -> AsyncIterator[Consumer]:
        """Implements `Bus.consume`: what is unsettled at the end of the block is given back."""
        _, role, actor = queue.split(".", 2)
        reader = _Reader(self, queue, f"{role}.{actor}", prefetch)
        async with together([reader.keep()]):
            try:
                yield reader
            finally:
                await reader.leave()

    async def publish(self, queue: str, bus_messages: Sequence[BusMessage]) -> None:
        """Sends answers, each for the request that caused it."""
        if queue != INBOX:
            raise BusError(f"a worker that works by HTTP cannot send to {queue}")
        for bus_message in bus_messages:
            lease = self._leases.get(bus_message.origin.causation, "")
            refused = await self.post(f"/leases/{lease}/answer", structured(bus_message))
            if refused.status_code in _OVER or refused.is_client_error:
                told = {"run": bus_message.run, "type": bus_message.name, "why": _detail(refused)}
                self._log.warning("answer refused", **told)

    async def lease(self, actor: str) -> tuple[str, int, BusMessage] | None:
        """Leases a request; returns the lease, how often it was delivered, and the request, None when none came."""
        found = await self.post("/requests/lease", _encode({"actor": actor, "wait": WAIT, "seconds": SECONDS}))
        if found.status_code == httpx.codes.NO_CONTENT:
            return None
        if found.is_client_error:
            raise InputError(f"{self._client.base_url} leases nothing for {actor}: {_detail(found)}")
        try:
            leased = msgspec.json.decode(found.content, type=_Leased)
            bus_message = read_structured(bytes(leased.command))
        except (*UNREADABLE, CodecError) as error:
            raise InputError(f"{self._client.base_url} is no `redraft serve` of this release: {error}") from None
        self._leases[bus_message.origin.id] = leased.lease
        return leased.lease, leased.delivery, bus_message

    async def extend(self, lease: str, run: str) -> None:
        """Has a lease go on; notes when the server says that the run of its request was cancelled.

        Returns after `EXTENDED` seconds at the latest, so that others are extended in time.
        """
        with suppress(TimeoutError, *UNREADABLE):  # it is asked again
            async with asyncio.timeout(EXTENDED):
                found = await self.post(f"/leases/{lease}/extend", _encode({"seconds": SECONDS}))
            if found.is_success and msgspec.json.decode(found.content, type=_Extended).cancelled:
                self._cancelled.put_nowait(run)

    async def cancellations(self, listening: Callable[[], None]) -> AsyncGenerator[str, None]:
        """Yields the runs of requests that are leased here, when the server says that they were cancelled."""
        listening()
        while True:
            yield await self._cancelled.get()

    async def release(self, lease: str, reason: str, *, requeue: bool) -> None:
        """Gives a request back, if its lease goes on and the server can be reached now."""
        body = _encode({"reason": reason[:1_000], "requeue": requeue})
        try:
            await self._client.post(f"{_API}/leases/{lease}/release", content=body, headers=_JSON)
        except httpx.HTTPError:
            return  # its lease ends by itself

    def forget(self, request: str) -> None:
        """Forgets the lease of a request that was settled."""
        self._leases.pop(request, None)

    async def post(self, path: str, body: bytes) -> httpx.Response:
        """Returns what the server answers; tries again until it does. Raises InputError if it lets nobody in."""
        pause = AGAIN
        while True:
            try:
                found = await self._client.post(_API + path, content=body, headers=_JSON)
            except httpx.HTTPError as error:
                why = str(error) or type(error).__name__
            else:
                if found.status_code in (401, 403, 421):
                    raise InputError(f"{self._client.base_url} does not let this worker in: {self._refusal(found)}")
                if found.status_code not in _LATER and not _is_page(found):
                    self._reached()
                    return found
                why = _detail(found)
            self._missed(why)
            await asyncio.sleep(pause)
            pause = min(SELDOM, 2 * pause)

    def _refusal(self, found: httpx.Response) -> str:
        """Returns why the server lets nobody in; where it does not know the token, how to have one."""
        if found.status_code != httpx.codes.UNAUTHORIZED:
            return _detail(found)
        told = "is not known there, or has ended" if "Authorization" in self._client.headers else "is not set"
        return f"REDRAFT_SERVER_TOKEN {told}; `redraft token create NAME --scope work --actor critic` makes one"

    def _missed(self, why: str) -> None:
        if not self._away:
            self._log.warning("server away", url=str(self._client.base_url), error=why)
        self._away = True

    def _reached(self) -> None:
        if self._away:
            self._log.info("server reached", url=str(self._client.base_url))
        self._away = False

    async def ping(self) -> None:
        """Raises BusError when the server does not answer."""
        try:
            found = (await self._client.get("/health")).raise_for_status()
        except httpx.HTTPError as error:
            raise BusError(f"{self._client.base_url} does not answer: {error}") from None
        if _is_page(found):
            raise BusError(f"{self._client.base_url} is no `redraft serve`: it answers with a page")

    async def dead_letters(self, keep: Callable[[DeadLetter], T]) -> Sequence[T]:
        """Returns (): the server keeps them."""
        return ()

    async def retry(self, dead_letter_id: str) -> bool:
        """Returns False: the server keeps them."""
        return False

    async def discard(self, dead_letter_id: str) -> bool:
        """Returns False: the server keeps them."""
        return False

    async def retry_all(self) -> Sequence[str]:
        """Returns (): the server keeps them."""
        return ()

    async def discard_all(self) -> Sequence[str]:
        """Returns (): the server keeps them."""
        return ()


class _Reader:
    """Leases the requests of one actor, at most `prefetch` at a time, and extends the leases until they are settled."""

    def __init__(self, bus: HttpBus, queue: str, actor: str, prefetch: int) -> None:
        self._bus = bus
        self._queue = queue
        self._actor = actor
        self._room = asyncio.Semaphore(prefetch)
        self._held: dict[int, tuple[str, BusMessage]] = {}
        self._last = 0

    async def take(self, limit: int) -> Sequence[Delivery]:
        """Implements `Consumer.take`, for one request at a time."""
        await self._room.acquire()
        try:
            while (found := await self._bus.lease(self._actor)) is None:
                pass
        except BaseException:
            self._room.release()
            raise
        lease, count, bus_message = found
        self._last += 1
        self._held[self._last] = lease, bus_message
        return [Delivery(bus_message, self._queue, self._last, count)]

    def ahead(self) -> Sequence[str]:
        """Returns (): nothing is sent ahead."""
        return ()

    async def ack(self, deliveries: Sequence[Delivery]) -> None:
        """Forgets leases: their requests were answered, and a lease of one that was not ends by itself."""
        for delivery in deliveries:
            self._settle(delivery)

    async def reject(self, delivery: Delivery, *, requeue: bool, reason: str = "") -> None:
        """Gives a request back."""
        if (lease := self._settle(delivery)) is not None:
            await self._bus.release(lease, reason, requeue=requeue)

    def _settle(self, delivery: Delivery) -> str | None:
        if delivery.tag not in self._held:
            return None
        lease, request = self._held.pop(delivery.tag)
        self._bus.forget(request.origin.id)
        self._room.release()
        return lease

    async def keep(self) -> NoReturn:
        """Extends the leases that are held, until it is cancelled."""
        while True:
            await asyncio.sleep(EXTENDED)
            await asyncio.gather(*(self._bus.extend(lease, request.run) for lease, request in self._held.values()))

    async def leave(self) -> None:
        """Gives everything back that is held."""
        held, self._held = list(self._held.values()), {}
        await asyncio.gather(*(self._bus.release(lease, "its worker ended", requeue=True) for lease, _ in held))


_JSON: Final = {"Content-Type": "application/json"}


def _encode(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value)


def _is_page(found: httpx.Response) -> bool:
    """Returns whether a proxy answered in place of the server, whose answers are JSON or empty.

    A request that a proxy refuses, as for its length, counts as refused.
    """
    if found.status_code == httpx.codes.NO_CONTENT or "json" in found.headers.get("Content-Type", ""):
        return False
    return not found.is_client_error or found.status_code == httpx.codes.NOT_FOUND


def _detail(found: httpx.Response) -> str:
    """Returns what a problem says."""
    try:
        told = msgspec.json.decode(found.content, type=dict[str, Any]).get("detail")
    except UNREADABLE:
        told = None
    return str(told or f"HTTP {found.status_code}")[:500]


def _require_address(url: str) -> None:
    """Raises InputError for what is no address of a server, and for one with a name, a password or parameters in it.

    It may hold a secret, which is not repeated.
    """
    remedy = "give the address of `redraft serve`, such as https://redraft.example.com"
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise InputError(f"--url is no address; {remedy}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InputError(f"--url is no http:// or https:// address; {remedy}")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise InputError(f"--url has a name, a password or parameters; set REDRAFT_SERVER_TOKEN, and {remedy}")


def open_http_bus(url: str, token: str, log: FilteringBoundLogger) -> HttpBus:
    """Returns the bus of a server at this URL; `token` says who works, empty for none. Raises InputError."""
    _require_address(url)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
    return HttpBus(httpx.AsyncClient(base_url=url.rstrip("/"), headers=headers, timeout=WAIT + 15, limits=limits), log)
