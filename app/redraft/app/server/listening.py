"""Listens for requests: the socket, TLS, and uvicorn on the event loop of everything else."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn

from redraft.app.server.access.gate import Gate
from redraft.app.server.timed_heads import TimedHeads
from redraft.app.settings.settings import HttpSettings
from redraft.events.errors import InputError

BACKLOG: Final = 512
LEAVING: Final = 17
"""Seconds that requests under way have when the process is to end: a request waits up to 15 for what it sent, until it
is recorded (10) and can be looked at (5)."""

CONNECTIONS: Final = 2_000
"""The most connections at the same time; those beyond are told to come again."""

KEEP_ALIVE: Final = 30
"""Seconds for which a connection without a request is kept."""

_HEAD: Final = 64 * 1024


class _Server(uvicorn.Server):
    """A server that leaves the signals to its process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_socket(chosen: HttpSettings) -> socket.socket:
    """Returns a socket that is bound to the address. Raises InputError when it cannot be had."""
    try:
        found = socket.getaddrinfo(chosen.host, chosen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(found[0], socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(found[4])
    except (OSError, UnicodeError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{chosen.host}:{chosen.port} cannot be listened on: {why}; give another --port or --host"
        ) from None
    bound.setblocking(False)
    return bound


def require_tls_files(chosen: HttpSettings) -> None:
    """Raises InputError when the certificate and its key are not both there, or cannot be used."""
    if chosen.tls_cert is None and chosen.tls_key is None:
        return
    if chosen.tls_cert is None or chosen.tls_key is None:
        raise InputError("give --tls-cert and --tls-key, both or neither")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(chosen.tls_cert, chosen.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"--tls-cert {chosen.tls_cert}: {error.strerror or error}; name files in PEM") from None


def address_of(chosen: HttpSettings, bound: socket.socket) -> str:
    """Returns the URL to call it by."""
    host, port = bound.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    return f"http{'s' if chosen.tls_cert else ''}://{name}:{port}"


@asynccontextmanager
async def listening(
    app: Gate, chosen: HttpSettings, bound: socket.socket, closing: asyncio.Event
) -> AsyncIterator[asyncio.Task[None]]:
    """Answers requests within the block; then lets those under way end. Yields the task that does so."""
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=chosen.behind_proxy,
        limit_concurrency=CONNECTIONS,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=LEAVING,
        h11_max_incomplete_event_size=_HEAD,
        ssl_certfile=chosen.tls_cert,
        ssl_keyfile=chosen.tls_key,
        ws="none",
        http=TimedHeads,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve([bound]))
    try:
        waiting = asyncio.create_task(server.listens.wait())
        await asyncio.wait({waiting, serving}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        yield serving
    finally:
        closing.set()
        server.should_exit = True
        await serving
