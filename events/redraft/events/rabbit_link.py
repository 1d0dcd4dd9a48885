"""A connection to RabbitMQ that comes back when it breaks, and the channels that are opened on it.

Reconnecting is aio-pika's robust connection; channels are plain ones, and whoever opened a channel opens the next one
when it ends: so nobody takes a delivery tag or a confirmation of one channel for that of another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar, cast

from aio_pika.connection import make_url
from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from aio_pika.robust_connection import RobustConnection
from aiormq import Channel
from aiormq.abc import AbstractChannel
from aiormq.exceptions import (
    AuthenticationError,
    ChannelAccessRefused,
    InvalidFrameError,
    ProbableAuthenticationError,
)

from redraft.events.errors import BusError, NotAllowed
from redraft.events.rabbit_address import Address

HEARTBEAT: Final = 10
"""Seconds between signs of life; a server that gives none for about three of them is given up."""

ANSWER: Final = 10.0
"""Seconds in which the server has to answer a question, such as to open a channel or to declare a queue."""

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
"""What may help, by what the client or OpenSSL says."""

_T = TypeVar("_T")


class Lost(Exception):
    """The channel or its connection ended, or did not answer: what was under way is to be done again."""


LOST: Final = (Lost, *CONNECTION_EXCEPTIONS)
"""What an operation on a channel raises when the channel is of no more use, or the server refused it."""


async def answer(asked: Awaitable[_T], within: float = ANSWER) -> _T:
    """What the server says, within so many seconds; else Lost.

    The question has a task of its own. The client cancels that when it gives up a connection, and may answer a
    cancellation of ours with another error: this way neither is taken for the other.
    """
    asking = asyncio.ensure_future(asked)
    asking.add_done_callback(_heard)
    done, _ = await asyncio.wait({asking}, timeout=within)
    if not done:
        asking.cancel()
        raise Lost(f"no answer within {within:g} seconds")
    if asking.cancelled():
        raise Lost("the connection was given up")
    return asking.result()


async def tell(told: Awaitable[None]) -> None:
    """Hands over what the server does not answer: it is handed over, or this was cancelled, or it raises `LOST`."""
    async with asyncio.timeout(ANSWER):
        await told


def _heard(asking: asyncio.Future[_T]) -> None:
    """Looks at an error, so that asyncio does not complain of it when nobody waits any more."""
    if not asking.cancelled():
        asking.exception()


async def let_go(channel: AbstractChannel) -> None:
    """Closes a channel, whatever state it is in."""
    with suppress(*LOST):
        await answer(channel.close(), within=_CLOSE)


def explain(error: BaseException) -> str:
    """One line about what went wrong, in the server's own words where it said some."""
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
    """Why a server cannot be reached, and what may mend it."""
    return BusError(f"cannot reach RabbitMQ at {where}: {explain(error)}; {_remedy(error)}")


def _remedy(error: BaseException) -> str:
    match error:
        case ProbableAuthenticationError() | AuthenticationError():
            return "give those of a user there in REDRAFT_BUS, with %40 for @, %2F for / and %3A for :"
        case InvalidFrameError(args=[str() as text]) if "Connection.Close" in text:
            return "name another at the end of REDRAFT_BUS, or make it and give the user rights in it"
        case _:
            told = explain(error)
            return next((remedy for sign, remedy in _REMEDIES.items() if sign in told), "start it, or mend REDRAFT_BUS")


class Link:
    """One connection, made when it is first needed. `purpose` names it to the server's operators.

    `patience` is for how many seconds work on it is tried again before BusError is raised. The server gives up a client
    of which it has heard nothing for one or two times the `heartbeat`.
    """

    def __init__(self, address: Address, purpose: str, patience: float, heartbeat: int = HEARTBEAT) -> None:
        self._address = address
        self._purpose = purpose
        self._heartbeat = heartbeat
        self.patience = patience
        self._connection: asyncio.Task[RobustConnection] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def user(self) -> str:
        """Whose connection it is."""
        return self._address.user

    async def connect(self) -> None:
        """Raises BusError at once when the server cannot be reached or does not let us in."""
        try:
            await self._connected()
        except LOST as error:
            raise unreachable(self._address.where, error) from None

    async def persist(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Does the work again while it raises what is in `LOST`, for `patience` seconds; then BusError says why."""
        end = asyncio.get_running_loop().time() + self.patience
        while True:
            try:
                return await work()
            except ChannelAccessRefused as error:
                raise NotAllowed(f"RabbitMQ at {self._address.where} does not allow it: {explain(error)}") from None
            except LOST as error:
                if asyncio.get_running_loop().time() > end:
                    trouble = f"could not be used for {self.patience:g} seconds: {explain(error)}"
                    raise BusError(f"RabbitMQ at {self._address.where} {trouble}") from None
            await asyncio.sleep(_PAUSE)

    async def channel(self) -> Channel:
        """A new channel: publishes are confirmed, and raise when they cannot be routed. Raises `LOST`, or BusError."""
        connection = await self._connected()
        if connection.transport is None or not connection.connected.is_set():
            await self._back(connection)
        if connection.transport is None:
            raise Lost(_AWAY)
        made = connection.transport.connection.channel(publisher_confirms=True, on_return_raises=True)
        opening = asyncio.ensure_future(made)
        try:
            return cast("Channel", await answer(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(self._unwanted)
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

    @staticmethod
    async def _back(connection: RobustConnection) -> None:
        try:
            await answer(connection.ready())
        except Lost:
            raise Lost(_AWAY) from None

    def _unwanted(self, opening: asyncio.Future[AbstractChannel]) -> None:
        """Closes a channel that nobody waits for any more."""
        if not opening.cancelled() and opening.exception() is None:
            closing = asyncio.create_task(let_go(opening.result()))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _connected(self) -> RobustConnection:
        """The connection. It is made by a task of its own, which goes on when one of those who wait is cancelled."""
        if self._closed:
            raise BusError("the bus is closed")
        if self._connection is None or _failed(self._connection):
            self._connection = asyncio.create_task(self._make())
            self._connection.add_done_callback(_failed)  # who waits for it may be gone by then
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
        try:
            await answer(connection.connect(timeout=ANSWER), within=2 * ANSWER)
        except BaseException:
            with suppress(*LOST):
                await answer(connection.close(), within=_CLOSE)
            raise
        return connection


def _failed(task: asyncio.Task[RobustConnection]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
