"""A connection to RabbitMQ that reconnects when it breaks, and its channels.

aio-pika's robust connection reconnects. Channels are plain ones, and the owner of a channel opens the next one when it
ends: so nobody mistakes a delivery tag or a confirmation of one channel for that of another.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import aiormq
from aio_pika.connection import make_url
from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from aio_pika.robust_connection import RobustConnection
from aiormq import Channel
from aiormq.abc import AbstractChannel
from aiormq.exceptions import AuthenticationError, ChannelAccessRefused, InvalidFrameError, ProbableAuthenticationError

from redraft.events.errors import BusError, InputError, NotAllowed
from redraft.events.rabbit.wire import Wire, Wires

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_GUEST: Final = "guest"
_LONGEST_VHOST: Final = 127  # `path` in https://www.rabbitmq.com/resources/specs/amqp0-9-1.xml
_TLS: Final = ("cafile", "certfile", "keyfile")
_FORM: Final = "amqp://user:password@host:5672/vhost, or amqps:// with ?cafile=…&certfile=…&keyfile=…"

_REMEDY: Final = "; in a user's name or password write @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 and % as %25"


@dataclass(frozen=True, slots=True)
class Address:
    """A server: `url` for the client, without TLS files; `where` for people, without the password; the user's name."""

    url: str = field(repr=False)
    where: str
    user: str
    tls: ssl.SSLContext | None = field(default=None, repr=False)


def read_address(url: str) -> Address:
    """Reads `amqp://user:password@host:port/vhost`; only the host is required, a slash in the vhost is written %2F.

    With `amqps://` the server's certificate and name are checked, against the system's authorities or those in
    `cafile`; a server that requires a client certificate gets `certfile` and `keyfile` (PEM, the key without a
    password). Raises InputError for any other URL, and for a file that cannot be read or used.
    """
    parts, port = _split(url)
    files = _tls_files(parts)
    vhost = unquote(parts.path[1:]) or "/"
    named = [quote(unquote(each), safe="") for each in (parts.username, parts.password) if each is not None]
    host = parts.netloc.rpartition("@")[2]
    bare = f"{parts.scheme}://{':'.join(named)}{'@' if named else ''}{host}{parts.path}"
    where = f"{parts.hostname}:{port}, virtual host {vhost}"
    user = unquote(parts.username or "") or _GUEST
    return Address(bare, where, user, _make_tls_context(files) if parts.scheme == "amqps" else None)


def _split(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message may hold a part of the password
        raise InputError(f"the URL of RabbitMQ cannot be read; it looks like {_FORM}{_REMEDY}") from None
    if "@" in parts.path + parts.query + parts.fragment:
        raise InputError(f"the URL of RabbitMQ has an @ behind its host; it looks like {_FORM}{_REMEDY}")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise InputError(f"the URL of RabbitMQ names no scheme and host that are known; it looks like {_FORM}")
    if "/" in parts.path[1:]:
        raise InputError("the URL of RabbitMQ has more than one part after the host: write a slash in a vhost as %2F")
    if (size := len(unquote(parts.path[1:]).encode())) > _LONGEST_VHOST:
        raise InputError(f"the URL of RabbitMQ names a vhost of {size} bytes; clients take {_LONGEST_VHOST}")
    return parts, port or _PORTS[parts.scheme]


def _tls_files(parts: SplitResult) -> dict[str, str]:
    files = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(files.keys() - set(_TLS)):
        known = ", ".join(_TLS)
        raise InputError(f"the URL of RabbitMQ has ?{unknown[0]}=…, which is not known; after the ? may stand {known}")
    if files and parts.scheme != "amqps":
        raise InputError(f"the URL of RabbitMQ has ?{next(iter(files))}=… without TLS: begin it with amqps://")
    if "keyfile" in files and "certfile" not in files:
        raise InputError("the URL of RabbitMQ has ?keyfile=… without the certfile=… that the key belongs to")
    return files


def _make_tls_context(files: dict[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=files.get("cafile"))
    except (OSError, ValueError) as error:
        raise InputError(f"cafile {files.get('cafile')!r} cannot be used: {error}") from None
    if certfile := files.get("certfile"):
        try:
            context.load_cert_chain(certfile, files.get("keyfile"), password=lambda: "")
        except (OSError, ValueError) as error:
            key = files.get("keyfile", certfile)
            raise InputError(f"certfile {certfile!r} with key {key!r} cannot be used: {error}") from None
    return context


HEARTBEAT: Final = 10
"""Seconds between heartbeats; a server that is silent for about three of them counts as gone."""

ANSWER: Final = 10.0
"""Seconds to wait for the server's answer to a request, such as to open a channel or to declare a queue."""

_PAUSE: Final = 0.2
_RECONNECT: Final = 1.0
_CLOSE: Final = 3.0
_AWAY: Final = "the connection broke and could not be made again yet"
_REMEDIES: Final = {
    "CERTIFICATE_VERIFY_FAILED": "name its authority in REDRAFT_BUS, amqps://…?cafile=ca.pem, and the host as it does",
    "CERTIFICATE_REQUIRED": "show one of yours: REDRAFT_BUS=amqps://…?cafile=…&certfile=…&keyfile=…",
    "WRONG_VERSION_NUMBER": "no TLS is spoken on this port: name that for TLS in REDRAFT_BUS (usually 5671), or amqp://",
    "Server connection": "check in REDRAFT_BUS that RabbitMQ listens on this port, and whether it wants TLS (amqps://)",
}
"""Remedies, by a part of the message of the client or OpenSSL."""

_T = TypeVar("_T")


class Lost(Exception):
    """The channel or its connection ended, or did not answer: the operation must be repeated."""


LOST: Final = (Lost, *CONNECTION_EXCEPTIONS)
"""The errors of an operation whose channel is no longer usable, or that the server refused."""


async def answer(request: Awaitable[_T], within: float = ANSWER) -> _T:
    """Returns the server's answer; raises Lost when there is none after `within` seconds.

    The request runs in a task of its own. The client cancels that task when it drops a connection, and may turn our own
    cancellation into another error: this way the two cannot be confused.
    """
    asking = asyncio.ensure_future(request)
    asking.add_done_callback(retrieve_error)
    done, _ = await asyncio.wait({asking}, timeout=within)
    if not done:
        asking.cancel()
        raise Lost(f"no answer within {within:g} seconds")
    if asking.cancelled():
        raise Lost("the connection was given up")
    return asking.result()


async def hand_over(request: Awaitable[None]) -> None:
    """Sends a request that the server does not answer: returns when it is sent, or raises `LOST`."""
    async with asyncio.timeout(ANSWER):
        await request


def retrieve_error(asking: asyncio.Future[_T]) -> None:
    """Retrieves an error, so that asyncio does not log it when no caller waits any more."""
    if not asking.cancelled():
        asking.exception()


async def close_channel(channel: AbstractChannel) -> None:
    """Closes a channel, whatever state it is in."""
    with suppress(*LOST):
        await answer(channel.close(), within=_CLOSE)


def explain(error: BaseException) -> str:
    """Returns one line about an error, in the server's own words where it gave some."""
    match error:
        case ProbableAuthenticationError() | AuthenticationError():
            return "the user or the password is refused"
        case InvalidFrameError(args=[str() as text]) if "Connection.Close" in text:  # the client keeps the reason back
            return "it does not open the virtual host: it is not there, or the user may not use it"
        case BaseException(args=[str() as text, *_]) | BaseException(args=[int(), str() as text, *_]):
            return " ".join(text.split())[:300]
        case _:
            return type(error).__name__


def unreachable(where: str, error: BaseException) -> BusError:
    """Returns the error for a server that cannot be reached, with a remedy."""
    return BusError(f"cannot reach RabbitMQ at {where}: {explain(error)}; {_remedy(error)}")


def _remedy(error: BaseException) -> str:
    match error:
        case ProbableAuthenticationError() | AuthenticationError():
            return "give those of a user there in REDRAFT_BUS, with %40 for @, %2F for / and %3A for :"
        case InvalidFrameError(args=[str() as text]) if "Connection.Close" in text:
            return "name another at the end of REDRAFT_BUS, or make it and give the user rights in it"
        case _:
            told = explain(error)
            return next(
                (remedy for sign, remedy in _REMEDIES.items() if sign in told), "start it, or correct REDRAFT_BUS"
            )


class Link:
    """One connection, made when it is first needed. `purpose` names it to the server's operators.

    Work on it is retried for `patience` seconds before BusError is raised. The server drops a client that was silent
    for one or two times the `heartbeat`.
    """

    def __init__(self, address: Address, purpose: str, patience: float, heartbeat: int = HEARTBEAT) -> None:
        self._address = address
        self.user = address.user
        self._purpose = purpose
        self._heartbeat = heartbeat
        self.patience = patience
        self._connection: asyncio.Task[RobustConnection] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self._wires = Wires()
        self.reconnected: set[Callable[[], None]] = set()
        """Called each time that the connection was made again after it broke."""

    @property
    def wire(self) -> Wire:
        """The bytes of the connection, which has been made."""
        return self._wires.wire

    async def connect(self) -> None:
        """Connects. Raises BusError at once when the server cannot be reached or refuses the user."""
        try:
            await self._connect_once()
        except LOST as error:
            raise unreachable(self._address.where, error) from None

    async def persist(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Repeats the work while it raises one of `LOST`, for `patience` seconds; then raises BusError."""
        end = asyncio.get_running_loop().time() + self.patience
        while True:
            try:
                return await work()
            except ChannelAccessRefused as error:
                raise NotAllowed(f"RabbitMQ at {self._address.where} does not allow it: {explain(error)}") from None
            except LOST as error:
                if asyncio.get_running_loop().time() > end:
                    reason = await self._why_away() if error.args == (_AWAY,) else error
                    trouble = f"could not be used for {self.patience:g} seconds: {explain(reason)}"
                    raise BusError(f"RabbitMQ at {self._address.where} {trouble}") from None
            await asyncio.sleep(_PAUSE)

    async def _why_away(self) -> BaseException:
        """Returns the error of one more attempt to connect: the client's own attempts keep theirs back."""
        try:
            connection = await answer(aiormq.connect(self._address.url, context=self._address.tls))
            await answer(connection.close(), within=_CLOSE)
        except LOST as error:
            return error
        return Lost(_AWAY)

    async def channel(self) -> Channel:
        """Opens a channel that confirms publishes, and raises when they cannot be routed. Raises `LOST`, BusError."""
        connection = await self._connect_once()
        if connection.transport is None or not connection.connected.is_set():
            try:
                await answer(connection.ready())
            except Lost:
                raise Lost(_AWAY) from None
        if connection.transport is None:
            raise Lost(_AWAY)
        made = connection.transport.connection.channel(publisher_confirms=True, on_return_raises=True)
        opening = asyncio.ensure_future(made)
        try:
            return cast("Channel", await answer(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(self._close_unwanted)
            raise

    async def close(self) -> None:
        self._closed = True
        if self._connection is None:
            return
        self._connection.cancel()  # does nothing to one that is made
        await asyncio.wait({self._connection})
        if not _failed(self._connection):
            with suppress(*LOST):
                await answer(self._connection.result().close(), within=_CLOSE)

    def _close_unwanted(self, opening: asyncio.Future[AbstractChannel]) -> None:
        """Closes a channel whose caller was cancelled."""
        if not opening.cancelled() and opening.exception() is None:
            closing = asyncio.create_task(close_channel(opening.result()))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _connect_once(self) -> RobustConnection:
        """Returns the connection. A task of its own makes it, which goes on when a waiting caller is cancelled."""
        if self._closed:
            raise BusError("the bus is closed")
        if self._connection is None or _failed(self._connection):
            self._connection = asyncio.create_task(self._make())
            self._connection.add_done_callback(_failed)  # its waiting callers may be cancelled by then
        connecting = self._connection
        await asyncio.wait({connecting})
        if connecting.cancelled():
            raise BusError("the bus is closed")
        return connecting.result()

    async def _make(self) -> RobustConnection:
        connection = RobustConnection(
            make_url(self._address.url, heartbeat=self._heartbeat, reconnect_interval=_RECONNECT),
            ssl_context=self._address.tls,
            client_properties={"connection_name": f"redraft {self._purpose}"},
        )
        connection.kwargs["transport_factory"] = self._wires
        connection.reconnect_callbacks.add(self._tell_reconnected)
        try:
            await answer(connection.connect(timeout=ANSWER), within=2 * ANSWER)
        except BaseException:
            with suppress(*LOST):
                await answer(connection.close(), within=_CLOSE)
            raise
        return connection

    def _tell_reconnected(self, _: object) -> None:
        for tell in tuple(self.reconnected):
            tell()


def _failed(task: asyncio.Task[RobustConnection]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
