"""How assistants reach the server: over standard input and output, or by HTTP on this machine."""

from __future__ import annotations

import ipaddress
import logging
import socket
import sys
from contextlib import redirect_stdout, suppress
from typing import Final

import msgspec
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE, TransportSecuritySettings

from redraft.app.cli.assistants.desk import open_desk
from redraft.app.cli.assistants.offers import environment_of, read_offers
from redraft.app.cli.assistants.server import build_server
from redraft.app.cli.shared.errors import say
from redraft.app.process.logs import new_log
from redraft.app.settings.settings import Settings
from redraft.events.errors import InputError

ESCAPED: Final = 6
"""The most bytes that a byte of text takes in JSON: `\\u0000`."""


BACKLOG: Final = 128
"""The connections that wait to be taken."""


class HttpAddress(msgspec.Struct, frozen=True):
    """The host and port to listen on. `proxy` is the public name of an authenticating proxy in front; empty: none."""

    host: str
    port: int
    proxy: str = ""

    @property
    def is_own(self) -> bool:
        """Returns whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return False


def check_address(address: HttpAddress) -> HttpAddress:
    """Raises InputError for an address that others reach where nothing in front asks who they are."""
    if not address.is_own and not address.proxy:
        raise InputError(
            f"--host {address.host} is reached from other machines, and `redraft mcp` asks nobody who they are; listen "
            "on 127.0.0.1, or give --proxy NAME for a proxy in front that authenticates and has TLS, reached as NAME"
        )
    return address


def security_of(address: HttpAddress, port: int) -> TransportSecuritySettings:
    """Returns which names requests may give as Host and Origin: this machine's, and the proxy's.

    So no page of another site reaches the server through a browser on this machine.
    """
    own = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    hosts = [*own, address.proxy, f"{address.proxy}:*"] if address.proxy else own
    origins = [f"http://{name}" for name in own] + ([f"https://{address.proxy}"] if address.proxy else [])
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


async def serve_assistants(settings: Settings, names: list[str], by: str, address: HttpAddress | None) -> None:
    """Serves until standard input ends or, by HTTP, until a signal comes. Raises InputError, StoreError, BusError."""
    with environment_of(settings) as environment:
        with redirect_stdout(sys.stderr):  # what the user's files print when they are loaded must not mix with answers
            offers = read_offers(names, settings, environment)
        async with open_desk(settings, offers, by, new_log(sys.stderr, settings.log_format, "mcp")) as desk:
            server = build_server(desk)
            logging.getLogger("mcp").setLevel(logging.ERROR)
            if address is None:
                await server.run_stdio_async()
            else:
                await _serve_http(server, address, settings.max_draft_bytes)


async def _serve_http(server: MCPServer, address: HttpAddress, largest: int) -> None:
    with _listen(address) as listening:
        port = listening.getsockname()[1]
        app = server.streamable_http_app(
            host=address.host,
            max_request_body_size=max(DEFAULT_MAX_REQUEST_BODY_SIZE, ESCAPED * largest),
            transport_security=security_of(address, port),
        )
        config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=5)
        host = f"[{address.host}]" if ":" in address.host else address.host
        say(f"serving assistants at http://{host}:{port}/mcp")
        await uvicorn.Server(config).serve([listening])


def _listen(address: HttpAddress) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        where_text = f"{address.host}:{address.port}"
        raise InputError(
            f"nothing can listen at {where_text}: {error.strerror}; give another --port or --host"
        ) from None
    return listening
