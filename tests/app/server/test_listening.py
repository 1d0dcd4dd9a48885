"""What a connection may do before there is a request: its head has to come to an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from redraft.app.server import timed_heads
from redraft.app.server.access.gate import Gate
from redraft.app.server.listening import listening, open_socket
from redraft.app.settings.settings import HttpSettings

WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
BEGUN = b"GET / HTTP/1.1\r\nHost: here\r\nX-A: "


async def answers(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers everything with nothing, and may start and end."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of a server that waits half a second for a head."""
    monkeypatch.setattr(timed_heads, "HEAD", 0.5)
    chosen = HttpSettings(port=0)
    bound = open_socket(chosen)
    async with asyncio.timeout(60), listening(cast("Gate", answers), chosen, bound, asyncio.Event()):
        yield bound.getsockname()[1]


async def trickled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """What is answered to somebody who goes on sending bytes, one at a time, until the connection ends."""
    found = b""
    while not reader.at_eof():
        writer.write(b"a")
        try:
            async with asyncio.timeout(0.05):
                found += await reader.read(1_000)
        except TimeoutError:
            continue
        except ConnectionError:  # reset, or a broken pipe: the connection has ended
            break
    writer.close()
    return found


@pytest.mark.parametrize("before", [b"", WHOLE])
async def test_a_head_that_does_not_end_is_answered_and_its_connection_ends(port: int, before: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    if before:
        writer.write(before)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    writer.write(BEGUN)
    assert (await trickled(reader, writer)).startswith(b"HTTP/1.1 408")


async def test_a_connection_that_says_nothing_ends(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert (await reader.read()).startswith(b"HTTP/1.1 408")
    writer.close()


async def test_a_body_may_take_longer_than_a_head(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    slow, slow_writer = await asyncio.open_connection("127.0.0.1", port)
    slow_writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2\r\n\r\na")
    assert await reader.read()  # the other connection's head took too long
    slow_writer.write(b"b")
    assert (await slow.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    slow_writer.close()
    writer.close()
